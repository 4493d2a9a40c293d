"""Deciding doubtful expressions with libxml2, here where it is cheap; where it is not, elsewhere.

What is evaluated here holds whoever waits behind it: so each expression has a bound on what it may
cost on a document of this size (`filters.matching.cost`), and all on one message have a time. The
rest is for a process that can be killed (`filters.matching.jail`).
"""

from collections.abc import Mapping, Sequence
from time import perf_counter

from lxml import etree

from filters.events import View
from filters.filter import Expression
from filters.matching.compilation import Kept
from filters.matching.cost import DocumentSize
from filters.matching.jail import Jail, JailUnavailable, judge

COMPILED = 4096
"""Compiled expressions that are kept."""
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
        started = perf_counter()
        if self._size is None:
            self._size = DocumentSize.of(self._root)
        verifier = self._verifier
        compiled = verifier.kept.get(expression.text, expression.namespaces)
        verdict = None
        if compiled.is_cheap(self._size, verifier.visits):
            verdict = compiled.holds(self._root)
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
        self.kept = Kept(most)
        self._seconds = seconds
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
