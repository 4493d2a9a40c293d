"""Chooses the engine: the compiled one if it was built for this lxml, else the reference.

The compiled engine reads libxml2's tree in memory, so it must know its layout: it serves only the
very versions of lxml and libxml2 that it was built for. Other packages bring engines, too
(`filters.matching.engines.installed`); these are used where they are named.
"""

from functools import lru_cache
from typing import Protocol

from lxml import etree

from filters.matching.engines.index import Index
from filters.matching.engines.installed import InstalledIndex, installed_engines, load_engine
from filters.matching.engines.names import Names
from filters.matching.engines.reference import ReferenceIndex

NATIVE = "native"
REFERENCE = "reference"


_used: str | None = None


def engine() -> str:
    """Return ``native`` or ``reference``, or what `use_engine` said: the engine that a `FilterSet`
    uses by default."""
    return _used or (REFERENCE if engine_note() else NATIVE)


def check_engine(name: str | None) -> None:
    """Check that there is an engine of that *name*, and that it can run here.

    Raises:
        ValueError: It does not exist or cannot run here; the text says why.
    """
    if name is not None:
        make_index(name)


def use_engine(name: str | None) -> None:
    """Have all sets of this process that are made from now on use the engine of that *name*; None
    is the best of ours.

    Raises:
        ValueError: The engine does not exist or cannot run here.
    """
    global _used
    check_engine(name)
    _used = name


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
    wanted = name or engine()
    if wanted == REFERENCE:
        return ReferenceIndex()
    # Asked last: to read what all packages say of themselves takes 3 ms.
    if wanted != NATIVE:
        if wanted in (others := installed_engines()):
            return InstalledIndex(load_engine(wanted))
        known = ", ".join((NATIVE, REFERENCE, *others))
        raise ValueError(f"{wanted!r} is not an engine; there are {known}")
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
    if engine_note():
        return Names()
    from filters.matching.engines import native

    return native.Names()
