"""Lists of the administration as CSV (RFC 4180)."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from fastapi import Request

from gateway.web.console.administration import Answer, ask
from gateway.web.console.tables import Table, value_of

PAGE = 500
"""Rows that are asked for at a time: of a thousand the event loop has too much to read."""
ROWS = 100_000
"""Rows of a file at most."""


async def ask_for_rows(
    table: Table, request: Request, query: Mapping[str, object], after: str = ""
) -> Answer:
    """Ask the administration for a page of a list behind *after*."""
    asked = {"limit": PAGE, **query, "after": after}
    return await ask(request, "GET", f"/{table.name}", asked)


async def csv_of(
    table: Table, request: Request, query: Mapping[str, object], answer: Answer
) -> AsyncIterator[str]:
    """The lines of a list that *query* narrows, page by page.

    Args:
        answer: The first page: what is refused is known before anything is written.

    Raises:
        RuntimeError: The administration refuses a later page: what was written is not all.
    """
    left = ROWS
    yield _line([column.title for column in table.columns])
    while True:
        rows = answer.value[table.rows]
        yield await asyncio.to_thread(_lines, table, rows)
        left -= len(rows)
        following = answer.value.get("next")
        if following is None or left <= 0:
            return
        answer = await ask_for_rows(table, request, query, str(following))
        if not answer.succeeded:
            raise RuntimeError(answer.refusal)


def _lines(table: Table, rows: Sequence[Mapping[str, Any]]) -> str:
    """The lines of a page; not on the event loop."""
    return "".join(_line([value_of(row, column.field) for column in table.columns]) for row in rows)


def _line(values: Sequence[object]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([_cell(value) for value in values])
    return out.getvalue()


def _cell(value: object) -> object:
    """*value* as a cell: a spreadsheet takes what begins with one of these for a formula."""
    text = " ".join(map(str, value)) if isinstance(value, list) else value
    return f"'{text}" if isinstance(text, str) and text[:1] in tuple("=+-@\t\r") else text
