"""Decides doubtful expressions with libxml2: in this process if that is cheap, else in the worker.

An evaluation in this process holds up everything behind it. So each expression has a bound of what
it may cost on a document of this size (`filters.matching.fallback.cost`), and all expressions on
one message share a time, of which each *share* (expressions that are accounted together) has a
part. The rest is for a process that can be killed (`filters.matching.fallback.worker`).
"""

from collections.abc import Callable, Hashable, Sequence
from time import perf_counter
from typing import TypeAlias

from lxml import etree

from filters.filter import Expression
from filters.matching.fallback.compilation import CompiledCache
from filters.matching.fallback.cost import DocumentSize
from filters.matching.fallback.worker import Question, Worker, WorkerUnavailable, evaluate_questions

COMPILED = 4096
"""Compiled expressions that are kept."""
VISITS = 500_000
"""The most that one expression may cost, by its bound: some milliseconds."""
SECONDS = 0.02
"""The most that all expressions may take together on one document."""
SECONDS_OF_SHARE = 0.005
"""The most of it that the expressions of one share may take."""

Root: TypeAlias = Callable[[], etree._Element]
"""Gives the root element of a document, which may be parsed only then."""


class Verification:
    """The verification of one document's doubtful expressions."""

    __slots__ = ("_left", "_left_of", "_root", "_size", "_verifier")

    def __init__(self, verifier: "Verifier", root: Root, seconds: float) -> None:
        self._verifier = verifier
        self._root = root
        self._left = seconds
        self._left_of: dict[Hashable, float] = {}
        self._size: DocumentSize | None = None

    def has_time(self, share: Hashable) -> bool:
        """Return True if an expression of *share* may still be evaluated in this process."""
        return self._left > 0 and (share is None or self._left_of.get(share, 1.0) > 0)

    def verdict(self, expression: Expression, share: Hashable = None) -> bool | None:
        """Return True if *expression* is true of the document, with its root element as context
        node; None if that is too expensive to find out in this process.

        Args:
            share: The share whose time it takes; None is bound by the time of all alone.

        Raises:
            FilterError: *expression* is not valid, and should never have been admitted.
        """
        if not self.has_time(share):
            return None
        started = perf_counter()
        root = self._root()
        if self._size is None:
            self._size = DocumentSize.of(root)
        verifier = self._verifier
        compiled = verifier.cache.get(expression.text, expression.namespaces)
        verdict = None
        if compiled.is_cheap(self._size, verifier.visits):
            verdict = compiled.holds(root)
        took = perf_counter() - started
        self._left -= took
        if share is not None:
            self._left_of[share] = self._left_of.get(share, verifier.seconds_of_share) - took
        return verdict


class Verifier:
    """Begins verifications, and keeps the expressions that were compiled last. Not for several
    threads at a time.

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
        self.cache = CompiledCache(most)
        self._seconds = seconds
        self._worker: Worker | None = None

    def begin(self, root: Root) -> Verification:
        """Verify expressions on the document of *root*, which is called when the first of them
        comes."""
        return Verification(self, root, self._seconds)

    def evaluate(self, questions: Sequence[Question]) -> list[bool | None]:
        """Find out in the worker whether all expressions of each of *questions*, all about one
        message, are true; None for a question that exceeds its budget or cannot be evaluated."""
        if self._worker is None:
            self._worker = Worker()
        try:
            return evaluate_questions(self._worker, questions)
        except WorkerUnavailable:
            return [None] * len(questions)
