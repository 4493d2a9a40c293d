"""The output of commands: tables and XML for people, JSON for programs.

What peers wrote is data: characters that a terminal would obey are shown, not sent. XML is imported
by the functions that show some, so that whatever shows none starts quickly.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gateway.cli.errors import ReaderGone
from gateway.observing.escaping import visible

if TYPE_CHECKING:
    from lxml import etree

MAX_CELL = 72
_BREAKS = re.compile(r"[\t\n\r\x0b\x0c]+")


def line(text: str = "") -> None:
    """Print *text* at once: a reader at the other end of a pipe waits for it.

    Raises:
        ReaderGone: It waits no longer.
    """
    _print(visible(text))


def note(text: str) -> None:
    """Say on standard error what is going on."""
    print(visible(text), file=sys.stderr, flush=True)


def json_line(record: object) -> None:
    """Print one JSON value on one line."""
    _print(json.dumps(record, ensure_ascii=sys.stdout.encoding.lower() != "utf-8"))


def styled(text: str) -> None:
    """Print *text* in bold on a terminal, as it is elsewhere."""
    _print(f"\x1b[1m{visible(text)}\x1b[0m" if is_terminal() else visible(text))


def _print(text: str) -> None:
    try:
        print(
            text.encode(sys.stdout.encoding, "backslashreplace").decode(sys.stdout.encoding),
            flush=True,
        )
    except BrokenPipeError as error:
        raise ReaderGone from error


def is_terminal() -> bool:
    """Whether a person reads what we print."""
    return sys.stdout.isatty()


def pretty(octets: bytes) -> str:
    """An XML document, indented where white space means nothing; what cannot be read stays as
    it came."""
    from lxml import etree

    from filters import Refused, parse_document

    try:
        root = parse_document(octets)
    except Refused:
        return octets.decode("utf-8", "replace")
    _indent(root)
    return etree.tostring(root, encoding="unicode")


def payload_text(octets: bytes, *, indent: bool | None = None) -> str:
    """A payload as its publisher wrote it; indented for a person at a terminal, if *indent* says
    nothing else."""
    if is_terminal() if indent is None else indent:
        return pretty(octets)
    return octets.decode("utf-8", "replace")


def envelope_text(octets: bytes) -> str:
    """An envelope as it came, for programs; indented, for a person at a terminal."""
    return pretty(octets) if is_terminal() else octets.decode("utf-8", "replace")


def _indent(root: "etree._Element") -> None:
    from lxml import etree

    for element in root.iter(etree.Element):
        if len(element) and not _has_text(element):
            element.text = None
            for child in element:
                child.tail = None
    etree.indent(root)


def _has_text(element: "etree._Element") -> bool:
    parts = [element.text, *(child.tail for child in element)]
    return any(part and part.strip() for part in parts)


def table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Columns under their names; a cell is one line, and cut where it is over `MAX_CELL`."""
    cells = [[name.upper() for name in names], *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(names))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def counted(number: int, noun: str) -> str:
    """*number* and what it counts: ``1 file``, ``2,000 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def facts(pairs: Iterable[tuple[str, object]]) -> list[str]:
    """Names and values, one a line."""
    listed = [(name, _text(value)) for name, value in pairs]
    width = max(len(name) for name, _ in listed)
    return [f"{name.ljust(width)}  {text}".rstrip() for name, text in listed]


def moment(text: object) -> object:
    """An instant of the administration's JSON, to the second; other text stays as it is."""
    try:
        return f"{datetime.fromisoformat(str(text)).astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
    except ValueError:
        return text


def _text(value: object) -> str:
    if value is None or value == [] or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return _BREAKS.sub(" ", str(value))


def _cell(value: object) -> str:
    text = visible(_text(value))
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"
