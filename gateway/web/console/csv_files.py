"""Lists of the administration as CSV (RFC 4180)."""

import csv
import io
from collections.abc import AsyncIterator, Mapping, Sequence

from fastapi import Request

from gateway.web.console.administration import ask
from gateway.web.console.tables import Table, value_of

PAGE = 1000
ROWS = 100_000
"""Rows of a file at most."""


async def csv_of(table: Table, request: Request, query: Mapping[str, object]) -> AsyncIterator[str]:
    """The lines of a list that *query* narrows, page by page.

    Raises:
        RuntimeError: The administration refuses a page: what was written is not all.
    """
    left = ROWS
    after: dict[str, str] = {}
    yield _line([column.title for column in table.columns])
    while left > 0:
        answer = await ask(request, "GET", f"/{table.name}", {"limit": PAGE, **query, **after})
        if not answer.succeeded:
            raise RuntimeError(answer.refusal)
        rows = answer.value[table.rows]
        for row in rows:
            yield _line([value_of(row, column.field) for column in table.columns])
        left -= len(rows)
        following = answer.value.get("next")
        if following is None:
            return
        after = {"after": str(following)}


def _line(values: Sequence[object]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([_cell(value) for value in values])
    return out.getvalue()


def _cell(value: object) -> object:
    """*value* as a cell: a spreadsheet takes what begins with one of these for a formula."""
    text = " ".join(map(str, value)) if isinstance(value, list) else value
    return f"'{text}" if isinstance(text, str) and text[:1] in tuple("=+-@\t\r") else text
