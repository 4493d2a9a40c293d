"""Documents parsed for matching, without keeping the names of strangers for ever.

An engine that parses itself forgets names from time to time. Of what lxml parses, libxml2 keeps
every name that a thread ever met for the life of that thread. So a thread that matches parses by
itself until it has met a bounded number of names; from then on documents are parsed in threads that
are replaced.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lxml import etree

from filters.documents import parse_document, parse_own
from filters.matching.engines.choice import make_names
from filters.matching.engines.index import Found, Index
from filters.reasons import Refused

LEARNT = 20_000
"""Names of elements and attributes that the calling thread may meet."""
DOCUMENTS = 100
OCTETS = 16 * 2**20
"""Bytes that a parsing thread may parse before it is replaced."""


class Answer:
    """What an index found in a document, which is parsed for others when the first of them asks."""

    __slots__ = ("_read", "_root", "found")

    def __init__(self, found: Found, read: Callable[[], etree._Element]) -> None:
        self.found = found
        self._read = read
        self._root: etree._Element | None = None

    def root(self) -> etree._Element:
        """Return the root element of the document."""
        if self._root is None:
            self._root = self._read()
        return self._root


class Reader:
    """Parses documents.

    Args:
        checked: `parse_document` has passed them before; else it checks them here.
    """

    def __init__(self, *, checked: bool = True) -> None:
        self._checked = checked
        self._parse = parse_own if checked else parse_document
        self._names = make_names()
        self._crowded = False
        self._threads: ThreadPoolExecutor | None = None
        self._documents = 0
        self._octets = 0

    def ask(self, index: Index, octets: bytes) -> Answer | None:
        """Ask *index* about the document of *octets*; None if it cannot be read."""
        found = index.find_in(octets, checked=self._checked)
        if found is not None:
            return Answer(found, partial(self.read, octets))
        root = self.try_to_read(octets)
        return None if root is None else Answer(index.find(root), lambda: root)

    def try_to_read(self, octets: bytes) -> etree._Element | None:
        """Return the root element of *octets*, None if they cannot be read."""
        try:
            return self.read(octets)
        except (LookupError, Refused, etree.XMLSyntaxError, ValueError):
            return None

    def read(self, octets: bytes) -> etree._Element:
        """The root element of *octets*.

        Raises:
            lxml.etree.XMLSyntaxError: It is not well-formed.
            FilterError: As `parse_document`, where it was not checked before.
        """
        if self._crowded:
            return self._read_elsewhere(octets)
        root = self._parse(octets)
        self._crowded = self._names.meet(root, LEARNT) >= LEARNT
        return root

    def _read_elsewhere(self, octets: bytes) -> etree._Element:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, "filters")
            self._documents = self._octets = 0
        threads = self._threads
        self._documents += 1
        self._octets += len(octets)
        if self._documents >= DOCUMENTS or self._octets >= OCTETS:
            self._threads = None
        try:
            return threads.submit(self._parse, octets).result()
        finally:
            if self._threads is None:
                threads.shutdown(wait=False)
