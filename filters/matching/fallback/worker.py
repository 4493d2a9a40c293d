"""Evaluation in a worker process, which the operating system ends when its time is over.

This is the client's side; `filters.matching.fallback.worker_main` is the process. Time is processor
time, so that a loaded machine makes no expression exceed its budget.
"""

import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TypeAlias

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

ONE = 0.05
"""Seconds of processor time for one expression on one document."""
ALL, PER_EXPRESSION = 0.25, 0.001 / 100
"""Seconds of processor time for all expressions on one message: a constant, and more for each
expression."""
STUCK = 5.0
"""Seconds without any answer after which the process counts as stuck. A machine so loaded that the
process gets less than 50 ms of processor time in them evaluates nothing anyway."""
START = 30.0
"""Seconds within which the process is ready."""
LARGEST = MEMORY // 64
"""The most bytes of a document, whose tree takes a multiple of them."""
AT_ONCE = 4096
"""Expressions in one request."""


Question: TypeAlias = tuple[Sequence[Expression], Mapping[View, bytes]]
"""Expressions that must all hold, and the documents of their views."""


class WorkerUnavailable(Exception):
    """The process cannot be started: the machine has no more processes, or memory."""


class _WorkerBroken(Exception):
    """The process ended, or does not answer."""


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
        self._process: subprocess.Popen[bytes] | None = None
        self._received = bytearray()
        self._finalizer: weakref.finalize[..., Worker] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process, which leads a process group of its own; None while it does not
        run."""
        return self._process.pid if self._process is not None else None

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
        if self._finalizer is not None:
            self._finalizer()
            self._finalizer = self._process = None
            self._received.clear()

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
            except (_WorkerBroken, OSError):
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
        except (_WorkerBroken, OSError):
            self.close()
            budget.left -= self._one
        return verdicts

    def _begin(
        self, document: bytes, expressions: Sequence[Expression], seconds: float, in_order: bool
    ) -> tuple[int, ...]:
        """Send a request, and return the places of *expressions* in the order of the answers.

        Raises:
            _WorkerBroken, OSError: It is not to be had, by a new process either.
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
            except (_WorkerBroken, OSError):
                if attempt:
                    raise
            self.close()  # The process died since the last request.
        raise _WorkerBroken

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the process, started if there is none.

        Raises:
            WorkerUnavailable: It cannot be.
        """
        if self._process is not None:
            return self._process
        try:
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", "filters.matching.fallback.worker_main"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=_environment(),
                process_group=0,
            )
        except OSError as exc:
            raise WorkerUnavailable from exc
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._finalizer = weakref.finalize(self, _end, process)
        try:
            kind, _ = ANSWER.unpack(self._read(ANSWER.size, START))
        except (_WorkerBroken, OSError) as exc:
            self.close()
            raise WorkerUnavailable from exc
        assert kind == READY
        return process

    def _write(self, octets: bytes) -> None:
        """Send *octets*.

        Raises:
            _WorkerBroken: Nothing is read at the other end.
        """
        stream = self._running().stdin
        assert stream is not None
        view = memoryview(octets)
        while view:
            if not _ready(stream, select.POLLOUT, self._stuck):
                raise _WorkerBroken
            view = view[os.write(stream.fileno(), view) :]

    def _read(self, octets: int, seconds: float | None = None) -> bytes:
        """Receive *octets* bytes, within *seconds*.

        Raises:
            _WorkerBroken: No more comes.
        """
        stream = self._running().stdout
        assert stream is not None
        deadline = time.monotonic() + (self._stuck if seconds is None else seconds)
        while len(self._received) < octets:
            readable = _ready(stream, select.POLLIN, deadline - time.monotonic())
            piece = os.read(stream.fileno(), 65536) if readable else b""
            if not piece:
                raise _WorkerBroken
            self._received += piece
        taken = bytes(self._received[:octets])
        del self._received[:octets]
        return taken


def _environment() -> dict[str, str]:
    """Return our environment without the settings, which hold secrets; packages are found where we
    find them."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("DRAGOMAN_")}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _ready(stream: IO[bytes], events: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(stream, events)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its evaluator, and wait for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait()


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
