"""One object for all equal values.

A hundred thousand subscriptions have few different specifications, policies, shapes and owners, and
often the same filter; each kept once is what makes a subscription cheap.
"""

from collections.abc import Hashable
from functools import lru_cache
from typing import TypeVar, cast

T = TypeVar("T", bound=Hashable)


def shared(value: T) -> T:
    """The object that stands for all values equal to *value*: the one met first, of late."""
    return cast(T, _shared(value))


@lru_cache(maxsize=8192, typed=True)
def _shared(value: Hashable) -> Hashable:
    return value
