"""The process that evaluates XQuery: ``python -m filters.queries.xquery_main``.

Strangers write the queries. Saxon is told to read nothing and to call nothing outside, and the
operating system sees to it: once it is started, the process can open no file and no socket, has no
environment, a limit of memory, and a timer that kills it.

    request  (microseconds, bytes of the query, number of documents), the query,
             then for each document its length and itself
    answers  READY, once;
             then one each: FALSE, TRUE, FAILED for an error in the evaluation,
             or REFUSED with the bytes of what is wrong with the query, which ends the answers
"""

import os
import resource
import signal
import struct
from typing import Any

from filters.processes.pipes import read_exactly, write_all

REQUEST = struct.Struct("!III")
LENGTH = struct.Struct("!I")
ANSWER = struct.Struct("!BI")
FALSE, TRUE, FAILED, REFUSED, READY = range(5)
MEMORY = 256 * 2**20
"""Bytes of writable memory. Not of address space: Saxon reserves 32 GB, and uses few of them."""
_SETTINGS = {
    "http://saxon.sf.net/feature/allow-external-functions": "false",
    "http://saxon.sf.net/feature/allowedProtocols": "",
    "http://saxon.sf.net/feature/disableXslEvaluate": "true",
}
_XS = "Q{http://www.w3.org/2001/XMLSchema}"
_NUMBERS = frozenset(f"{_XS}{name}" for name in ("integer", "decimal", "double", "float"))
_TEXTS = frozenset(f"{_XS}{name}" for name in ("string", "anyURI", "untypedAtomic"))


def main() -> None:
    """Answer requests until the input ends."""
    answers = _part_with_output()
    os.chdir("/")  # Saxon names the folder in what it says of errors.
    for name in list(os.environ):
        del os.environ[name]
    evaluator = Evaluator()
    evaluator.holds("1 = 1", "<none/>")  # What is loaded at the first use is loaded now.
    _shut_in(answers)
    write_all(ANSWER.pack(READY, 0), answers)
    while (header := read_exactly(REQUEST.size)) is not None:
        microseconds, length, number = REQUEST.unpack(header)
        query = read_exactly(length)
        documents = [_read_document() for _ in range(number)]
        if query is None:
            return
        signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)
        for document in documents:
            answer, said = evaluator.answer(query, document)
            write_all(ANSWER.pack(answer, len(said)) + said, answers)
            if answer == REFUSED:
                break
        signal.setitimer(signal.ITIMER_REAL, 0)


class Evaluator:
    """Saxon."""

    def __init__(self) -> None:
        import saxonche

        self._error: type[Exception] = saxonche.PySaxonApiError
        self._saxon: Any = saxonche.PySaxonProcessor(license=False)
        for name, value in _SETTINGS.items():
            self._saxon.set_configuration_property(name, value)

    def answer(self, query: bytes, document: bytes) -> tuple[int, bytes]:
        """Return the answer for one document, and what goes with it."""
        try:
            holds = self.holds(query.decode(), document.decode())
        except self._error as exc:
            said = str(exc)
            return (REFUSED, said.encode()) if _is_static(said) else (FAILED, b"")
        except (ValueError, TypeError, RecursionError, AttributeError):
            return FAILED, b""
        except MemoryError:
            os.kill(os.getpid(), signal.SIGKILL)
            raise
        return (TRUE if holds else FALSE), b""

    def holds(self, query: str, document: str) -> bool:
        """Return the effective boolean value of *query*, with the root element as context item.

        Raises:
            ValueError: It has none.
        """
        processor = self._saxon.new_xquery_processor()
        processor.set_context(xdm_item=self._saxon.parse_xml(xml_text=document).children[0])
        processor.set_query_content(query)
        return _truth(processor.run_query_to_value())


def _truth(value: Any) -> bool:
    """The rules of ``fn:boolean`` (XQuery 3.1, section 2.4.3)."""
    if value is None or value.size == 0:
        return False
    first = value.item_at(0)
    if first.is_node:
        return True
    if value.size > 1 or not first.is_atomic:
        raise ValueError(value)
    atom = first.get_atomic_value()
    name = atom.primitive_type_name
    if name == f"{_XS}boolean":
        return bool(atom.boolean_value)
    if name in _TEXTS:
        return bool(atom.string_value)
    if name in _NUMBERS:
        number = float(atom.double_value)
        return number == number and number != 0
    raise ValueError(name)


def _is_static(said: str) -> bool:
    """Return True if an error is of the query itself (codes of XQuery 3.1, appendix G)."""
    return "XPST" in said or "XQST" in said or said.lstrip().startswith("Static error")


def _part_with_output() -> int:
    """Return where answers go. What Saxon prints, of its death too, goes nowhere."""
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    return answers


def _shut_in(answers: int) -> None:
    """Give up everything outside but the two pipes."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for limit, value in (
        (resource.RLIMIT_DATA, MEMORY),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        # The next descriptor would be this one.
        (resource.RLIMIT_NOFILE, answers + 1),
    ):
        resource.setrlimit(limit, (value, value))


def _read_document() -> bytes:
    length = read_exactly(LENGTH.size)
    document = None if length is None else read_exactly(LENGTH.unpack(length)[0])
    if document is None:
        raise SystemExit
    return document


if __name__ == "__main__":
    main()
