"""XQuery over documents, by Saxon (the extra ``xquery``) in a process that can be killed.

A query of a stranger may loop for ever and take all memory; Saxon cannot be interrupted. So it runs
in a process of its own (`filters.queries.xquery_main`), which has a limit of memory, can open
nothing, and is killed when a query's time is over. The next query gets a new one.
"""

import contextlib
import importlib.util
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from math import inf

from filters.extras import how_to_install
from filters.queries.xquery_main import (
    ANSWER,
    LENGTH,
    READY,
    REFUSED,
    REQUEST,
    TRUE,
)
from filters.reasons import FilterError, Reason

MAX_CHARACTERS = 4096
START = 30.0
"""Seconds in which a process must have started."""
MOST = 10.0
"""Seconds that one request may take, if its caller has more."""
LEAST = 0.1
"""Seconds that each request has: a process that is not stuck outlives the end of a query's time."""
COMPILING = 1.0
"""Seconds in which a query must be found to be valid; one that takes longer is tried again with
documents, within their time."""
GRACE = 0.2
"""Seconds within which a process ends that has used up its time, before it is killed."""
MAX_SAID = 160
_SAMPLE = b"<none/>"


class _Broken(Exception):
    """The process has ended, or does not answer in time."""


def is_installed() -> bool:
    """Return True if there is an engine for XQuery."""
    return importlib.util.find_spec("saxonche") is not None


class XQueryWorker:
    """A process that evaluates XQuery, started when it is first needed. It ends with this object,
    or with the process that has it. Not for several threads at a time.

    Raises:
        FilterError: ``QUERY_DIALECT``: there is no engine.
    """

    def __init__(self) -> None:
        if not is_installed():
            raise FilterError(
                Reason.QUERY_DIALECT, f"XQuery needs a library: {how_to_install('xquery')}"
            )
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: weakref.finalize[..., XQueryWorker] | None = None
        self._received = bytearray()

    @property
    def pid(self) -> int | None:
        """The id of the process; None while there is none."""
        return None if self._process is None else self._process.pid

    def evaluate(
        self, text: str, documents: Sequence[bytes], seconds: float
    ) -> list[bool | None] | str:
        """Return for each of *documents* whether *text* is true of it, in which an error is false;
        None where the time was over, or the process died. If *text* is not valid, what is wrong.

        Raises:
            FilterError: ``UNAVAILABLE``: the process does not start.
        """
        verdicts: list[bool | None] = []
        query = text.encode(errors="replace")
        seconds = max(LEAST, min(seconds, MOST))
        parts = [REQUEST.pack(max(1, int(seconds * 1e6)), len(query), len(documents)), query]
        for document in documents:
            parts += (LENGTH.pack(len(document)), document)
        self._start()
        deadline = time.monotonic() + seconds + GRACE
        try:
            self._write(b"".join(parts), deadline)
            while len(verdicts) < len(documents):
                answer, length = ANSWER.unpack(self._read(ANSWER.size, deadline))
                if answer == REFUSED:
                    return self._read(length, deadline).decode(errors="replace")
                verdicts.append(answer == TRUE)
        except (_Broken, OSError):
            self.close()
        return verdicts + [None] * (len(documents) - len(verdicts))

    def close(self) -> None:
        """End the process."""
        if self._finalizer is not None:
            self._finalizer()
        self._finalizer = self._process = None
        self._received.clear()

    def _start(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                return
            self.close()
        try:
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", "filters.queries.xquery_main"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                # Nothing of ours for a query to read.
                env={"PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))},
                process_group=0,
            )
        except OSError as exc:
            raise _unavailable() from exc
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._finalizer = weakref.finalize(self, _end, process)
        try:
            answer, _ = ANSWER.unpack(self._read(ANSWER.size, time.monotonic() + START))
        except (_Broken, OSError) as exc:
            self.close()
            raise _unavailable() from exc
        assert answer == READY

    def _write(self, octets: bytes, deadline: float) -> None:
        assert self._process is not None and self._process.stdin is not None
        stream = self._process.stdin.fileno()
        view = memoryview(octets)
        while view:
            _wait(stream, select.POLLOUT, deadline)
            view = view[os.write(stream, view) :]

    def _read(self, octets: int, deadline: float) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        stream = self._process.stdout.fileno()
        while len(self._received) < octets:
            _wait(stream, select.POLLIN, deadline)
            piece = os.read(stream, 65536)
            if not piece:
                raise _Broken
            self._received += piece
        taken = bytes(self._received[:octets])
        del self._received[:octets]
        return taken


class XQuery:
    """A query of XQuery 3.1, as a boolean (its effective boolean value), with the root element of a
    document as context item.

    Raises:
        FilterError: ``FILTER_INVALID``, ``FILTER_COSTLY``; ``UNAVAILABLE`` as the worker.
    """

    __slots__ = ("_text", "_worker")

    def __init__(self, text: str, worker: XQueryWorker) -> None:
        if len(text) > MAX_CHARACTERS:
            raise FilterError(
                Reason.FILTER_COSTLY, f"the query has more than {MAX_CHARACTERS} characters"
            )
        wrong = worker.evaluate(text, [_SAMPLE], COMPILING)
        if isinstance(wrong, str):
            shown = "".join(one if one.isprintable() else " " for one in wrong)
            shown = " ".join(shown.split())[:MAX_SAID]
            raise FilterError(Reason.FILTER_INVALID, f"the query is not XQuery 3.1: {shown}")
        self._text = text
        self._worker = worker

    def decide(self, things: Sequence[Sequence[bytes]], seconds: float = inf) -> list[bool | None]:
        """Return for each of *things* whether the query is true of one of its documents; None
        where the time was over, or there was no memory.

        Raises:
            FilterError: ``UNAVAILABLE``.
        """
        documents = [document for some in things for document in some]
        verdicts = self._worker.evaluate(self._text, documents, seconds)
        if isinstance(verdicts, str):
            return [False] * len(things)
        of_each = iter(verdicts)
        return [_any([next(of_each) for _ in some]) for some in things]


def _any(verdicts: list[bool | None]) -> bool | None:
    if True in verdicts:
        return True
    return None if None in verdicts else False


def _wait(stream: int, events: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(stream, events)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise _Broken


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait()


def _unavailable() -> FilterError:
    return FilterError(Reason.UNAVAILABLE, "the process that evaluates XQuery does not start")
