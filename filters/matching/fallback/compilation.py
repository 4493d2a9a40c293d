"""Expressions compiled by libxml2, with bounds of their cost, kept for the next message."""

from collections import OrderedDict
from collections.abc import Hashable

from lxml import etree

from filters.filter import Namespaces
from filters.matching.fallback.cost import DocumentSize, bound
from filters.xpath import compile_xpath
from filters.xpath.parser import parse_text


class Compiled:
    """A compiled expression.

    Raises:
        FilterError: As `compile_xpath`.
    """

    __slots__ = ("_cheap", "_dear", "_tree", "_xpath")

    def __init__(self, text: str, namespaces: Namespaces) -> None:
        self._tree = parse_text(text, namespaces)
        self._xpath = compile_xpath(text, namespaces)
        self._cheap: DocumentSize | None = None
        self._dear: DocumentSize | None = None

    def holds(self, root: etree._Element) -> bool:
        """Return True if it is true of the document of *root*, the context node; False if the
        evaluation fails."""
        try:
            return bool(self._xpath(root))
        except etree.XPathError:
            return False

    def cost(self, size: DocumentSize) -> int:
        """Return the most visits that it takes on a document of *size*."""
        return bound(self._tree, size)

    def is_cheap(self, size: DocumentSize, visits: int) -> bool:
        """Return True if its cost is at most *visits*, which must be the same at each call.

        The cost grows with the size, so the largest cheap and the smallest dear size are
        remembered, and it is seldom computed for documents of one kind.
        """
        if self._cheap is not None and self._cheap.covers(size):
            return True
        if self._dear is not None and size.covers(self._dear):
            return False
        if self.cost(size) > visits:
            self._dear = size
            return False
        both = size if self._cheap is None else size.union(self._cheap)
        self._cheap = both if self.cost(both) <= visits else size
        return True


class CompiledCache:
    """The expressions that were compiled last, at most *most* of them; 4 to 7 KB each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._compiled: OrderedDict[Hashable, Compiled] = OrderedDict()

    def get(self, text: str, namespaces: Namespaces) -> Compiled:
        """Return the expression, compiled unless it is kept.

        Raises:
            FilterError: As `compile_xpath`.
        """
        key = (text, namespaces)
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = Compiled(text, namespaces)
            if len(self._compiled) >= self._most:
                self._compiled.popitem(last=False)
            self._compiled[key] = compiled
        else:
            self._compiled.move_to_end(key)
        return compiled
