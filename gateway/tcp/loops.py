"""Objects of which each event loop has one."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class OfEachLoop(Generic[T]):
    """Makes one for a loop when it is first asked for, and lets it go with the loop: so it must not
    keep the loop."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._of: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def __call__(self, loop: asyncio.AbstractEventLoop) -> T:
        found = self._of.get(loop)
        if found is None:
            found = self._of[loop] = self._make()
        return found
