"""The worker process, which evaluates expressions that may be expensive: ``python -m
filters.matching.fallback.worker_main``.

Libxml2 cannot be interrupted, but the operating system ends a process that has used up its
processor time. So there are two processes: the *supervisor* only waits, and forks an *evaluator*,
which evaluates each expression under a timer of its own. When an evaluator dies, the supervisor
answers for it and forks the next one at once.

    request  (octets of the document, of the expressions, microseconds for all, for one, whether
             the expressions are in order already)
             document, expressions as JSON: [[text, [[prefix, URI], ...]], ...]
    answers  READY, once, from the supervisor;
             ORDER with their number, and the order in which they will be evaluated;
             then one answer each: FALSE or TRUE, and the microseconds that it took;
             SPENT instead of what is left when the time for all is over;
             DIED and the signal, from the supervisor, for the one under evaluation
"""

import gc
import json
import os
import resource
import signal
import struct
import time
from collections.abc import Sequence

from lxml import etree

from filters.documents import parse_own
from filters.matching.fallback.compilation import Compiled, CompiledCache
from filters.matching.fallback.cost import DocumentSize
from filters.processes.pipes import OUT, read_exactly, write_all
from filters.reasons import FilterError

REQUEST = struct.Struct("!IIII?")
ANSWER = struct.Struct("!BI")
FALSE, TRUE, SPENT, DIED, ORDER, READY = range(6)
MEMORY = 2**30
"""Bytes of address space."""
KEPT = 4096
"""Compiled expressions that an evaluator keeps."""
CHEAP = 100_000
"""The cost, in visits, up to which the order of expressions does not matter."""


def main() -> None:
    """Run the supervisor, until the evaluator ends by itself because its input has ended."""
    for limit, value in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    gc.freeze()  # Pages that both processes share stay shared.
    write_all(ANSWER.pack(READY, 0))
    while True:
        evaluator = os.fork()
        if evaluator == 0:
            _run_evaluator()
        _, status = os.waitpid(evaluator, 0)
        if not os.WIFSIGNALED(status):
            return
        os.write(OUT, ANSWER.pack(DIED, os.WTERMSIG(status)))


def _run_evaluator() -> None:
    """Run an evaluator."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    evaluator = Evaluator()
    try:
        while evaluator.serve():
            pass
    except MemoryError:
        os.kill(os.getpid(), signal.SIGKILL)
    finally:
        os._exit(0)


class Evaluator:
    """Answers requests: evaluates expressions on documents."""

    def __init__(self) -> None:
        self._cache = CompiledCache(KEPT)
        self._document = b""
        self._root: etree._Element | None = None
        """The root of the last document: several requests in a row may be about it."""

    def serve(self) -> bool:
        """Answer one request. Returns False at the end of the input."""
        header = read_exactly(REQUEST.size)
        if header is None:
            return False
        octets, length, left, one, in_order = REQUEST.unpack(header)
        document, text = read_exactly(octets), read_exactly(length)
        if document is None or text is None:
            return False
        compiled = [self._compiled(*key) for key in json.loads(text)]
        if self._root is None or document != self._document:
            self._document, self._root = document, parse_own(document)
        root = self._root
        order = range(len(compiled)) if in_order else _cheapest_first(root, compiled)
        write_all(ANSWER.pack(ORDER, len(order)) + struct.pack(f"!{len(order)}I", *order))
        for index in order:
            if left <= 0:
                write_all(ANSWER.pack(SPENT, 0))
                return True
            expression = compiled[index]
            started = time.process_time_ns()
            signal.setitimer(signal.ITIMER_PROF, min(left, one) / 1e6)
            verdict = expression is not None and expression.holds(root)
            signal.setitimer(signal.ITIMER_PROF, 0)
            spent = (time.process_time_ns() - started) // 1000
            left -= spent
            write_all(ANSWER.pack(TRUE if verdict else FALSE, spent))
        return True

    def _compiled(self, text: str, namespaces: list[list[str]]) -> Compiled | None:
        try:
            return self._cache.get(text, tuple((prefix, uri) for prefix, uri in namespaces))
        except FilterError:
            return None


def _cheapest_first(root: etree._Element, expressions: Sequence[Compiled | None]) -> Sequence[int]:
    """Order expressions by cost, so that an expensive one does not use up the time of the cheap
    ones."""
    size = DocumentSize.of(root)

    def cost(index: int) -> int:
        expression = expressions[index]
        if expression is None or expression.is_cheap(size, CHEAP):
            return 0
        return expression.cost(size)

    return sorted(range(len(expressions)), key=cost)


if __name__ == "__main__":
    main()
