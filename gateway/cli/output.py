"""The output of commands: tables and XML for people, JSON for programs.

What peers wrote is data: characters that a terminal would obey are shown, not sent.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from gateway.cli.errors import ReaderGone
from gateway.observing.escaping import visible
from gateway.observing.xml_indentation import pretty

MAX_CELL = 72
LEAST_CELL, LEAST_LAST = 10, 24
"""Characters that a column, and the last one, keep at a terminal, while there is a way."""
_GAP = "  "
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


def payload_text(octets: bytes, *, indent: bool | None = None) -> str:
    """A payload as its publisher wrote it; indented for a person at a terminal, if *indent* says
    nothing else."""
    if is_terminal() if indent is None else indent:
        return pretty(octets)
    return octets.decode("utf-8", "replace")


def envelope_text(octets: bytes) -> str:
    """An envelope as it came, for programs; indented, for a person at a terminal."""
    return pretty(octets) if is_terminal() else octets.decode("utf-8", "replace")


def table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Columns under their names. At a terminal they are as wide as that: the last one is broken
    into lines, others are cut. Elsewhere each row is one line, for programs, with cells of
    `MAX_CELL` at most."""
    if is_terminal():
        return _fitted(names, rows, get_terminal_size().columns)
    cells = [[name.upper() for name in names], *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(names))]
    return [
        _GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _fitted(names: Sequence[str], rows: Iterable[Sequence[object]], width: int) -> list[str]:
    """A table of *width* characters, without the columns that say nothing. The first column, by
    which things are named, stays whole; the last one is broken into lines, and stands below its
    row where there is little place; others are cut."""
    cells = [[visible(_text(value)) for value in row] for row in rows]
    kept = [n for n in range(len(names)) if not n or any(row[n] != "-" for row in cells)]
    titles = [names[n].upper() for n in kept]
    cells = [[row[n] for n in kept] for row in cells]
    longest = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    widths = _widths(longest, width - len(_GAP) * (len(kept) - 1))
    if widths[-1] >= min(longest[-1], LEAST_LAST) or len(kept) == 1:
        return _drawn(titles, cells, widths, width)
    widths = _widths(longest[:-1], width - len(_GAP) * (len(kept) - 2))
    lines = _drawn(titles[:-1], [row[:-1] for row in cells], widths, width, fold=False)
    for row, below in zip(reversed(cells), range(len(lines), 1, -1), strict=True):
        text = f"{titles[-1]}: {row[-1]}" if row[-1] != "-" else ""
        lines[below:below] = wrap(text, width, initial_indent=_GAP, subsequent_indent=_GAP * 2)
    return lines


def _drawn(
    titles: Sequence[str],
    cells: Sequence[Sequence[str]],
    widths: Sequence[int],
    width: int,
    *,
    fold: bool = True,
) -> list[str]:
    """The lines of a table whose columns have *widths*; the last one is broken into lines where
    *fold*."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def cut(text: str) -> Text:
        return Text(text, no_wrap=True, overflow="ellipsis")

    shown = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), collapse_padding=True)
    for title, column in zip(titles, widths, strict=True):
        shown.add_column(cut(title), width=column)
    for row in cells:
        last = Text(row[-1], overflow="fold") if fold else cut(row[-1])
        shown.add_row(*map(cut, row[:-1]), last)
    console = Console(width=max(width, sum(widths) + len(_GAP) * len(widths)), color_system=None)
    with console.capture() as captured:
        console.print(shown)
    return [text.rstrip() for text in captured.get().splitlines()]


def _widths(longest: Sequence[int], width: int) -> list[int]:
    """The widths of columns that have *width* together, and need so many characters each: the
    widest give first, and the first one nothing."""
    widths = list(longest)
    for least in (LEAST_CELL, LEAST_CELL // 2, 1):
        while sum(widths) > width:
            most = max(range(len(widths)), key=lambda n: widths[n] if n else 0)
            if not most or widths[most] <= least:
                break
            widths[most] -= 1
    return widths


def counted(number: int, noun: str) -> str:
    """*number* and what it counts: ``1 file``, ``2,000 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def facts(pairs: Iterable[tuple[str, object]]) -> list[str]:
    """Names and values, one a line."""
    listed = [(name, _text(value)) for name, value in pairs]
    width = max(len(name) for name, _ in listed)
    return [f"{name.ljust(width)}  {text}".rstrip() for name, text in listed]


def document_lines(name: str, part: Mapping[str, Any] | None) -> list[str]:
    """A document of which the gateway shows the first bytes, or none."""
    if part is None:
        return [f"{name}: not known any more" if name == "envelope" else f"{name}: in the envelope"]
    whole, text = part.get("whole"), str(part.get("text"))
    cut = "" if whole else ", the first of them here; --whole shows all"
    return [f"{name} ({part.get('bytes')} bytes{cut}):", pretty(text.encode()) if whole else text]


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
