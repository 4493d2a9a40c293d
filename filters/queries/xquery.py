"""XQuery over documents, by Saxon (the extra ``xquery``) in a process that can be killed.

A query of a stranger may loop for ever and take all memory; Saxon cannot be interrupted. So it runs
in a process of its own (`filters.queries.xquery_main`), which has a limit of memory, can open
nothing, and is killed when a query's time is over. The next query gets a new one.
"""

import importlib.util
import time
from collections.abc import Sequence
from math import inf

from filters.extras import how_to_install
from filters.processes import Broken, Killable, NotStarted
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
MOST = 10.0
"""Seconds that one request may take, if its caller has more."""
LEAST = 0.1
"""Seconds that each request has: a process that is not stuck outlives the end of a query's time."""
COMPILING = 1.0
"""Seconds in which a query must be found to be valid, if its caller has more; one that takes longer
is tried again with documents, within their time."""
GRACE = 0.2
"""Seconds within which a process ends that has used up its time, before it is killed."""
MAX_SAID = 160
_SAMPLE = b"<none/>"


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
        # Nothing of ours for a query to read.
        self._process = Killable("filters.queries.xquery_main", {}, ANSWER.pack(READY, 0))

    @property
    def pid(self) -> int | None:
        """The id of the process; None while there is none."""
        return self._process.pid

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
        if self._process.has_died():
            self._process.close()
        try:
            self._process.start()
        except NotStarted as exc:
            raise FilterError(
                Reason.UNAVAILABLE, "the process that evaluates XQuery does not start"
            ) from exc
        deadline = time.monotonic() + seconds + GRACE
        try:
            self._process.write(b"".join(parts), deadline - time.monotonic())
            while len(verdicts) < len(documents):
                answer, length = ANSWER.unpack(self._read(ANSWER.size, deadline))
                if answer == REFUSED:
                    return self._read(length, deadline).decode(errors="replace")
                verdicts.append(answer == TRUE)
        except (Broken, OSError):
            self.close()
        return verdicts + [None] * (len(documents) - len(verdicts))

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def _read(self, octets: int, deadline: float) -> bytes:
        return self._process.read(octets, deadline - time.monotonic())


class XQuery:
    """A query of XQuery 3.1, as a boolean (its effective boolean value), with the root element of a
    document as context item.

    Args:
        seconds: The time in which it may be found to be valid.

    Raises:
        FilterError: ``FILTER_INVALID``, ``FILTER_COSTLY``; ``UNAVAILABLE`` as the worker.
    """

    __slots__ = ("_text", "_worker")

    def __init__(self, text: str, worker: XQueryWorker, seconds: float = inf) -> None:
        if len(text) > MAX_CHARACTERS:
            raise FilterError(
                Reason.FILTER_COSTLY, f"the query has more than {MAX_CHARACTERS} characters"
            )
        wrong = worker.evaluate(text, [_SAMPLE], min(seconds, COMPILING))
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
