"""Parameters that several routes take: texts, prefixes, and pages of lists."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Annotated, TypeVar

from fastapi import Query
from pydantic import Field

CHARACTERS = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]+$"
"""The characters that XML has."""
PAGE = 100
"""Entries of a list where no `limit` is given."""
Text = Annotated[str, Field(pattern=CHARACTERS, max_length=8192)]
Prefix = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=100)]
After = Annotated[str, Query(pattern="^[ -~]{0,64}$")]
"""The entry of a list behind which a page begins; empty: the first page."""
Limit = Annotated[int, Query(ge=1, le=1000)]
View = TypeVar("View")


def page_of(
    views: Iterable[View], limit: int, name: Callable[[View], str]
) -> tuple[list[View], str | None]:
    """Return the first *limit* of *views*, and the name of the last of them: there begins the next
    page. None: there are no more."""
    page = list(islice(views, limit + 1))
    if len(page) <= limit:
        return page, None
    del page[limit:]
    return page, name(page[-1])
