"""Deciding doubtful expressions with libxml2, here where it is cheap; where it is not, elsewhere.

What is evaluated here holds whoever waits behind it: so each expression has a bound on what it may
cost on a document of this size (`filters.matching.cost`), and all on one message have a time. The
rest is for a process that can be killed (`filters.matching.jail`).
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from time import perf_counter

from lxml import etree

from filters.events import View
from filters.filter import Expression, Namespaces
from filters.matching.cost import DocumentSize, bound
from filters.matching.jail import Jail, JailUnavailable, judge
from filters.reasons import FilterError
from filters.xpath import compile_xpath, parse
from filters.xpath.syntax import Node

COMPILED = 4096
"""Compiled expressions that are kept, of 4 to 7 KB each."""
VISITS = 500_000
"""What one expression may cost, by its bound: some milliseconds at most."""
SECONDS = 0.02
"""What all expressions may take together on one document."""


class Verification:
    """One document, for all the expressions that are doubtful on it."""

    __slots__ = ("_left", "_root", "_size", "_verifier")

    def __init__(self, verifier: "Verifier", root: etree._Element, seconds: float) -> None:
        self._verifier = verifier
        self._root = root
        self._left = seconds
        self._size: DocumentSize | None = None

    def verdict(self, expression: Expression) -> bool | None:
        """Whether *expression* is true of the document, its root element the context node; None
        where that is too expensive to find out here.

        Raises:
            FilterError: *expression* is none, and should never have been admitted.
        """
        if self._left <= 0:
            return None
        if self._size is None:
            self._size = DocumentSize.of(self._root)
        compiled = self._verifier.compiled(expression)
        if not compiled.is_cheap(self._size, self._verifier.visits):
            return None
        started = perf_counter()
        verdict = holds(compiled.xpath, self._root)
        self._left -= perf_counter() - started
        return verdict


class Verifier:
    """Verifies, and keeps the expressions that it compiled last. Not for several threads at a time.

    Args:
        most: How many it keeps.
        visits: The largest bound of an expression that is evaluated here.
        seconds: What all expressions may take together on one document.
    """

    def __init__(
        self, *, most: int = COMPILED, visits: int = VISITS, seconds: float = SECONDS
    ) -> None:
        self.visits = visits
        self._most = most
        self._seconds = seconds
        self._kept: OrderedDict[tuple[str, Namespaces], _Compiled] = OrderedDict()
        self._jail: Jail | None = None

    def begin(self, root: etree._Element) -> Verification:
        """Verify expressions on the document of *root*."""
        return Verification(self, root, self._seconds)

    def evaluate(
        self, expressions: Sequence[Expression], documents: Mapping[View, bytes]
    ) -> bool | None:
        """Whether all of *expressions* are true, each of the one of *documents* that is its view,
        found out in another process; None where that exceeds its budget or cannot be done."""
        if self._jail is None:
            self._jail = Jail()
        try:
            [verdict] = judge(self._jail, [(expressions, documents)])
        except JailUnavailable:
            return None
        return verdict

    def compiled(self, expression: Expression) -> "_Compiled":
        """*expression* as libxml2 takes it.

        Raises:
            FilterError: As `compile_xpath`.
        """
        key = (expression.text, expression.namespaces)
        compiled = self._kept.get(key)
        if compiled is None:
            if len(self._kept) >= self._most:
                self._kept.popitem(last=False)
            compiled = self._kept[key] = _Compiled(expression)
        else:
            self._kept.move_to_end(key)
        return compiled


class _Compiled:
    """An expression as libxml2 takes it, and for what documents it is known to be cheap."""

    __slots__ = ("_cheap", "_dear", "_tree", "xpath")

    def __init__(self, expression: Expression) -> None:
        self._tree = tree(expression)
        self.xpath = compile_xpath(expression.text, expression.namespaces)
        self._cheap: DocumentSize | None = None
        self._dear: DocumentSize | None = None

    def is_cheap(self, size: DocumentSize, visits: int) -> bool:
        """Whether the bound for documents of *size* is at most *visits*.

        The bound grows with the size, so documents of one kind need it but a few times.
        """
        if self._cheap is not None and self._cheap.covers(size):
            return True
        if self._tree is None or (self._dear is not None and size.covers(self._dear)):
            return False
        if bound(self._tree, size) > visits:
            self._dear = size
            return False
        both = size if self._cheap is None else size.union(self._cheap)
        self._cheap = both if bound(self._tree, both) <= visits else size
        return True


def tree(expression: Expression) -> Node | None:
    """The syntax tree of *expression*; None for one that an earlier version admitted and our parser
    refuses, of which therefore no bound is known."""
    try:
        return parse(expression)
    except FilterError:
        return None


def holds(xpath: etree.XPath, root: etree._Element) -> bool:
    """Whether *xpath* is true of the document of *root*; an error while it runs makes it false."""
    try:
        return bool(xpath(root))
    except etree.XPathError:
        return False
