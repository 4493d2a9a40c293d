"""Deciding doubtful expressions with libxml2, here where it is cheap; where it is not, elsewhere.

What is evaluated here holds whoever waits behind it: so each expression has a bound on what it may
cost on a document of this size (`filters.matching.fallback.cost`), and all on one message have a
time, of which each *share* (expressions that belong together) has a part. The rest is for a process
that can be killed (`filters.matching.fallback.worker`).
"""

from collections.abc import Hashable, Sequence
from time import perf_counter

from lxml import etree

from filters.filter import Expression
from filters.matching.fallback.compilation import Kept
from filters.matching.fallback.cost import DocumentSize
from filters.matching.fallback.worker import Question, Worker, WorkerUnavailable, evaluate_questions

COMPILED = 4096
"""Compiled expressions that are kept."""
VISITS = 500_000
"""What one expression may cost, by its bound: some milliseconds at most."""
SECONDS = 0.02
"""What all expressions may take together on one document."""
SECONDS_OF_SHARE = 0.005
"""What those of one share may take of that."""


class Verification:
    """One document, for all the expressions that are doubtful on it."""

    __slots__ = ("_left", "_left_of", "_root", "_size", "_verifier")

    def __init__(self, verifier: "Verifier", root: etree._Element, seconds: float) -> None:
        self._verifier = verifier
        self._root = root
        self._left = seconds
        self._left_of: dict[Hashable, float] = {}
        self._size: DocumentSize | None = None

    def has_time(self, share: Hashable) -> bool:
        """Whether something of *share* may still be evaluated here."""
        return self._left > 0 and (share is None or self._left_of.get(share, 1.0) > 0)

    def verdict(self, expression: Expression, share: Hashable = None) -> bool | None:
        """Whether *expression* is true of the document, its root element the context node; None
        where that is too expensive to find out here.

        Args:
            share: Whose time it takes; None is bound by the time of all alone.

        Raises:
            FilterError: *expression* is none, and should never have been admitted.
        """
        if not self.has_time(share):
            return None
        started = perf_counter()
        if self._size is None:
            self._size = DocumentSize.of(self._root)
        verifier = self._verifier
        compiled = verifier.kept.get(expression.text, expression.namespaces)
        verdict = None
        if compiled.is_cheap(self._size, verifier.visits):
            verdict = compiled.holds(self._root)
        took = perf_counter() - started
        self._left -= took
        if share is not None:
            self._left_of[share] = self._left_of.get(share, verifier.seconds_of_share) - took
        return verdict


class Verifier:
    """Verifies, and keeps the expressions that it compiled last. Not for several threads at a time.

    Args:
        most: How many it keeps.
        visits: The largest bound of an expression that is evaluated here.
        seconds: What all expressions may take together on one document.
        seconds_of_share: What those of one share may take of that.
    """

    def __init__(
        self,
        *,
        most: int = COMPILED,
        visits: int = VISITS,
        seconds: float = SECONDS,
        seconds_of_share: float = SECONDS_OF_SHARE,
    ) -> None:
        self.visits = visits
        self.seconds_of_share = seconds_of_share
        self.kept = Kept(most)
        self._seconds = seconds
        self._worker: Worker | None = None

    def begin(self, root: etree._Element) -> Verification:
        """Verify expressions on the document of *root*."""
        return Verification(self, root, self._seconds)

    def evaluate(self, questions: Sequence[Question]) -> list[bool | None]:
        """Whether all expressions of each of *questions* are true, found out in another process,
        all of one message at once; None where that exceeds its budget or cannot be done."""
        if self._worker is None:
            self._worker = Worker()
        try:
            return evaluate_questions(self._worker, questions)
        except WorkerUnavailable:
            return [None] * len(questions)
