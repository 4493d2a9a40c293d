"""Evaluation in a worker process, which the operating system ends when its time is over.

This is the client's side; `filters.matching.fallback.worker_main` is the process. Time is processor
time, so that a loaded machine makes no expression exceed its budget.
"""

import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from filters.events import View
from filters.filter import Expression
from filters.matching.fallback.worker_main import (
    ANSWER,
    DIED,
    MEMORY,
    ORDER,
    READY,
    REQUEST,
    SPENT,
    TRUE,
)
from filters.processes import Broken, Killable, NotStarted

ONE = 0.05
"""Seconds of processor time for one expression on one document."""
ALL, PER_EXPRESSION = 0.25, 0.001 / 100
"""Seconds of processor time for all expressions on one message: a constant, and more for each
expression."""
STUCK = 5.0
"""Seconds without any answer after which the process counts as stuck. A machine so loaded that the
process gets less than 50 ms of processor time in them evaluates nothing anyway."""
LARGEST = MEMORY // 64
"""The most bytes of a document, whose tree takes a multiple of them."""
AT_ONCE = 4096
"""Expressions in one request."""


Question: TypeAlias = tuple[Sequence[Expression], Mapping[View, bytes]]
"""Expressions that must all hold, and the documents of their views."""


class WorkerUnavailable(Exception):
    """The process cannot be started: the machine has no more processes, or memory."""


class Budget:
    """Processor time, in seconds, for all expressions on one message."""

    __slots__ = ("left",)

    def __init__(self, expressions: int) -> None:
        self.left = ALL + PER_EXPRESSION * expressions


class Worker:
    """Evaluates expressions in a process that can be stopped. For one thread at a time.

    The process is started when it is first needed, and ends with this object, or with the process
    that has it: at the end of its standard input.
    """

    def __init__(self, *, one: float = ONE, stuck: float = STUCK) -> None:
        self._one = one
        self._stuck = stuck
        self._process = Killable(
            "filters.matching.fallback.worker_main", _environment(), ANSWER.pack(READY, 0)
        )

    @property
    def pid(self) -> int | None:
        """The id of the process, which leads a process group of its own; None while it does not
        run."""
        return self._process.pid

    def evaluate(
        self, document: bytes, expressions: Sequence[Expression], budget: Budget | None = None
    ) -> list[bool | None]:
        """Return for each of *expressions* whether it is true of *document*; None if it is over
        budget.

        The cheapest are evaluated first, so that an expensive one does not use the time of the
        others.

        Args:
            document: One of our own documents, its root element the context node.
            budget: Used up in common with other documents of the message.

        Raises:
            WorkerUnavailable: Nothing can be evaluated now.
        """
        if budget is None:
            budget = Budget(len(expressions))
        verdicts: list[bool | None] = []
        for first in range(0, len(expressions), AT_ONCE):
            verdicts += self._evaluate(document, expressions[first : first + AT_ONCE], budget)
        return verdicts

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def _evaluate(
        self, document: bytes, expressions: Sequence[Expression], budget: Budget
    ) -> list[bool | None]:
        """Make one request, and others for the rest when the process dies of an expression."""
        verdicts: list[bool | None] = [None] * len(expressions)
        left = list(range(len(expressions))) if len(document) <= LARGEST else []
        in_order = len(left) < 2
        while left and budget.left > 0:
            asked = [expressions[index] for index in left]
            try:
                order = self._begin(document, asked, budget.left, in_order)
            except (Broken, OSError):
                self.close()
                budget.left -= self._one
                del left[
                    0
                ]  # Something in the request kills the process: give up its first expression.
                continue
            in_order = True
            left = [left[place] for place in order]
            answers = self._answers(len(left), budget)
            for index, verdict in zip(left, answers, strict=False):
                verdicts[index] = verdict
            del left[: len(answers) + 1]  # And the one that it died of, if it died.
        return verdicts

    def _answers(self, number: int, budget: Budget) -> list[bool]:
        """Read *number* verdicts, or those before the process died or the budget was used up."""
        verdicts: list[bool] = []
        try:
            while len(verdicts) < number:
                kind, value = ANSWER.unpack(self._read(ANSWER.size))
                if kind == SPENT:
                    budget.left = 0.0
                    return verdicts
                if kind == DIED:
                    budget.left -= self._one
                    return verdicts
                budget.left -= value / 1e6
                verdicts.append(kind == TRUE)
        except (Broken, OSError):
            self.close()
            budget.left -= self._one
        return verdicts

    def _begin(
        self, document: bytes, expressions: Sequence[Expression], seconds: float, in_order: bool
    ) -> tuple[int, ...]:
        """Send a request, and return the places of *expressions* in the order of the answers.

        Raises:
            Broken, OSError: It is not to be had, by a new process either.
        """
        text = json.dumps([[one.text, one.namespaces] for one in expressions]).encode()
        limits = int(seconds * 1e6), int(self._one * 1e6)
        request = REQUEST.pack(len(document), len(text), *limits, in_order) + document + text
        for attempt in range(2):
            try:
                self._write(request)
                kind, number = ANSWER.unpack(self._read(ANSWER.size))
                if kind == ORDER:
                    return struct.unpack(f"!{number}I", self._read(4 * number))
            except (Broken, OSError):
                if attempt:
                    raise
            self.close()  # The process died since the last request.
        raise Broken

    def _write(self, octets: bytes) -> None:
        """Send *octets*.

        Raises:
            Broken, OSError: Nothing is read at the other end.
            WorkerUnavailable: There is no process to read it.
        """
        try:
            self._process.write(octets, self._stuck, each=True)
        except NotStarted as exc:
            raise WorkerUnavailable from exc

    def _read(self, octets: int) -> bytes:
        """Receive *octets* bytes.

        Raises:
            Broken, OSError: No more comes.
            WorkerUnavailable: There is no process to send them.
        """
        try:
            return self._process.read(octets, self._stuck)
        except NotStarted as exc:
            raise WorkerUnavailable from exc


def _environment() -> dict[str, str]:
    """Return our environment without the settings, which hold secrets."""
    return {name: text for name, text in os.environ.items() if not name.startswith("DRAGOMAN_")}


def evaluate_questions(worker: Worker, questions: Sequence[Question]) -> list[bool | None]:
    """Return for each of *questions*, all about one message, whether all its expressions are true;
    None if it is over the budget that they share.

    Raises:
        WorkerUnavailable: As `Worker.evaluate`.
    """
    documents: dict[View, bytes] = {}
    asked: dict[View, dict[Expression, None]] = {}
    for expressions, of_views in questions:
        documents |= of_views
        for expression in expressions:
            asked.setdefault(expression.view, {})[expression] = None
    budget = Budget(sum(map(len, asked.values())))
    verdicts: dict[Expression, bool | None] = {}
    for view, some in asked.items():
        expressions = tuple(some)
        verdicts.update(
            zip(expressions, worker.evaluate(documents[view], expressions, budget), strict=True)
        )
    return [
        _all(verdicts[expression] for expression in expressions) for expressions, _ in questions
    ]


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    """Return the conjunction, with None for unknown."""
    known: bool | None = True
    for verdict in verdicts:
        if verdict is False:
            return False
        if verdict is None:
            known = None
    return known
