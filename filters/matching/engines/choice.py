"""Chooses the engine: the compiled one if it was built for this lxml, else the reference.

The compiled engine reads libxml2's tree in memory, so it must know its layout: it serves only the
very versions of lxml and libxml2 that it was built for.
"""

from functools import lru_cache
from typing import Protocol

from lxml import etree

from filters.matching.engines.index import Index
from filters.matching.engines.names import Names
from filters.matching.engines.reference import ReferenceIndex

NATIVE = "native"
REFERENCE = "reference"


def engine() -> str:
    """Return ``native`` or ``reference``: the engine that a `FilterSet` uses by default."""
    return REFERENCE if engine_note() else NATIVE


@lru_cache(maxsize=1)
def engine_note() -> str | None:
    """Say in a line why the compiled engine does not run, and how to mend it; None if it runs."""
    try:
        from filters.matching.engines import native
    except ImportError as exc:
        return f"the compiled engine was not built ({exc}): install Dragoman where g++ is"
    return native.unfit()


def make_index(name: str | None = None) -> Index:
    """Make an index of the engine of that *name*, by default of the best there is.

    Raises:
        ValueError: The engine does not exist or cannot run here.
    """
    if (name or engine()) == REFERENCE:
        return ReferenceIndex()
    if name not in (None, NATIVE):
        raise ValueError(f"{name!r} is not an engine; use native or reference")
    if note := engine_note():
        raise ValueError(note)
    from filters.matching.engines.native import NativeIndex

    return NativeIndex()


class NameCounter(Protocol):
    """Counts names of elements and attributes."""

    def meet(self, root: etree._Element, limit: int) -> int:
        """Meet those of a document; returns how many there were ever, counted up to *limit*."""


def make_names() -> NameCounter:
    """Make a counter of the best engine there is."""
    if engine() == REFERENCE:
        return Names()
    from filters.matching.engines import native

    return native.Names()
