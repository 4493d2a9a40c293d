"""The process that evaluates what may be expensive: ``python -m filters.matching.cell``.

Libxml2 cannot be interrupted, but the kernel ends a process that has used up its processor time.
So there are two: the *warden* only waits, and forks an *inmate*, which evaluates, each expression
under a timer of its own. An inmate that dies is said so, and the next one is there at once.

    request  (octets of the document, of the expressions, microseconds for all, for one, whether
             the expressions are in order already)
             document, expressions as JSON: [[text, [[prefix, URI], ...]], ...]
    answers  ORDER with their number, and the order in which they will be evaluated;
             then one answer each: FALSE or TRUE, and the microseconds that it took;
             SPENT instead of what is left when the time for all is over;
             DIED and the signal, from the warden, for the one under evaluation
"""

import gc
import json
import math
import os
import resource
import signal
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from lxml import etree

from filters.documents import parse_own
from filters.filter import Namespaces
from filters.matching.cost import DocumentSize, bound
from filters.reasons import FilterError
from filters.xpath import compile_xpath
from filters.xpath.parser import parse_text
from filters.xpath.syntax import Node

REQUEST = struct.Struct("!IIII?")
ANSWER = struct.Struct("!BI")
FALSE, TRUE, SPENT, DIED, ORDER = range(5)
MEMORY = 2**30
"""Octets of address space."""
KEPT = 1024
"""Compiled expressions that an inmate keeps."""
_IN, _OUT = 0, 1

_Key: TypeAlias = tuple[str, Namespaces]
"""An expression, but for its view."""
_T = TypeVar("_T")


def main() -> None:
    """Be the warden, until the inmate ends by itself: nobody asks any more."""
    for limit, value in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    gc.freeze()  # What both share stays shared.
    while True:
        inmate = os.fork()
        if inmate == 0:
            _live()
        _, status = os.waitpid(inmate, 0)
        if not os.WIFSIGNALED(status):
            return
        os.write(_OUT, ANSWER.pack(DIED, os.WTERMSIG(status)))


def _live() -> None:
    """Be an inmate."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    inmate = Inmate()
    try:
        while inmate.serve():
            pass
    except MemoryError:
        os.kill(os.getpid(), signal.SIGKILL)
    finally:
        os._exit(0)


class Inmate:
    """Evaluates."""

    def __init__(self) -> None:
        self._trees: OrderedDict[_Key, Node | None] = OrderedDict()
        self._compiled: OrderedDict[_Key, etree.XPath | None] = OrderedDict()

    def serve(self) -> bool:
        """Answer one request; whether there was one."""
        header = _read(REQUEST.size)
        if header is None:
            return False
        octets, length, left, one, in_order = REQUEST.unpack(header)
        document, text = _read(octets), _read(length)
        if document is None or text is None:
            return False
        keys = [
            (text, tuple((prefix, uri) for prefix, uri in namespaces))
            for text, namespaces in json.loads(text)
        ]
        root = parse_own(document)
        order = range(len(keys)) if in_order else self._cheapest_first(root, keys)
        _write(ANSWER.pack(ORDER, len(order)) + struct.pack(f"!{len(order)}I", *order))
        for index in order:
            if left <= 0:
                _write(ANSWER.pack(SPENT, 0))
                return True
            started = time.process_time_ns()
            signal.setitimer(signal.ITIMER_PROF, min(left, one) / 1e6)
            verdict = self._holds(keys[index], root)
            signal.setitimer(signal.ITIMER_PROF, 0)
            spent = (time.process_time_ns() - started) // 1000
            left -= spent
            _write(ANSWER.pack(TRUE if verdict else FALSE, spent))
        return True

    def _cheapest_first(self, root: etree._Element, keys: Sequence[_Key]) -> Sequence[int]:
        """So that no expensive one uses the time of the cheap ones up."""
        size = DocumentSize.of(root)

        def cost(index: int) -> float:
            tree = _keep(self._trees, keys[index], _tree)
            return bound(tree, size) if tree is not None else math.inf

        return sorted(range(len(keys)), key=cost)

    def _holds(self, key: _Key, root: etree._Element) -> bool:
        xpath = _keep(self._compiled, key, _xpath)
        if xpath is None:
            return False
        try:
            return bool(xpath(root))
        except etree.XPathError:
            return False


def _keep(kept: OrderedDict[_Key, _T], key: _Key, make: Callable[[_Key], _T]) -> _T:
    """What *make* makes of *key*, kept for the next time."""
    if key in kept:
        kept.move_to_end(key)
        return kept[key]
    if len(kept) >= KEPT:
        kept.popitem(last=False)
    kept[key] = made = make(key)
    return made


def _tree(key: _Key) -> Node | None:
    try:
        return parse_text(*key)
    except FilterError:
        return None


def _xpath(key: _Key) -> etree.XPath | None:
    try:
        return compile_xpath(*key)
    except FilterError:
        return None


def _read(octets: int) -> bytes | None:
    """So many octets; None at the end of the stream."""
    buffer = bytearray()
    while len(buffer) < octets:
        piece = os.read(_IN, octets - len(buffer))
        if not piece:
            return None
        buffer += piece
    return bytes(buffer)


def _write(octets: bytes) -> None:
    view = memoryview(octets)
    while view:
        view = view[os.write(_OUT, view) :]


if __name__ == "__main__":
    main()
