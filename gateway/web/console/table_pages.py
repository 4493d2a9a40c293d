"""The pages of tables: a list, one row, and what the buttons of both do."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, HTTPException, Request
from starlette.responses import Response, StreamingResponse

from gateway.web.console.administration import ROOT, ask, segment
from gateway.web.console.csv_files import ask_for_rows, csv_of
from gateway.web.console.fields import fields_of, texts_of
from gateway.web.console.forms import first, read_form, redirect
from gateway.web.console.page_routes import Given, PageRoute, check_acts, refuse
from gateway.web.console.tables import TABLES, Action, Related, Table, table_of, value_of
from gateway.web.csrf import refuse_other_origins

PAGE = 100
"""Rows of a page; the next are fetched when the reader comes to its end."""
RELATED = 20
"""Rows of another list that the page of a row shows."""

router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)


@router.get("/{name}.csv")
async def table_as_csv(name: str, request: Request, console: Given) -> Response:
    """A list as CSV, at most 100,000 rows of it."""
    table = table_of(name)
    query = _narrowed(table, request)
    answer = await ask_for_rows(table, request, query)
    if not answer.succeeded:
        return await refuse(console, answer)
    headers = {"content-disposition": f'attachment; filename="{name}.csv"'}
    lines = csv_of(table, request, query, answer)
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/{name}")
async def list_rows(name: str, request: Request, console: Given) -> Response:
    """A page of a list; all that narrows it is in its address."""
    table = table_of(name)
    query = _narrowed(table, request)
    answer = await ask(request, "GET", f"/{table.name}", {"limit": PAGE, **query, **after(request)})
    if not answer.succeeded:
        return await refuse(console, answer)
    table = table.offered_for(answer.value[table.rows])
    following = answer.value.get("next")
    names = [one.name for one in table.narrowings if one.name in query]
    narrowed = {name: query[name][0] for name in names}
    return await console.rendering.page(
        "list.html",
        table=table,
        rows=answer.value[table.rows],
        query=query,
        address=urlencode(query, doseq=True),
        orders=_orders(table, query),
        narrowed=narrowed,
        wholly=[one for one in table.actions if one.selected(narrowed) is not None],
        json=f"{ROOT}/{table.name}?{urlencode(query, doseq=True)}",
        more=None
        if following is None
        else urlencode({**query, "after": str(following)}, doseq=True),
        here=table.name,
    )


@router.get("/{name}/{id:path}")
async def show_row(name: str, id: str, request: Request, console: Given) -> Response:
    """One row, with all that is known of it."""
    table = table_of(name)
    opened = "payload" in request.query_params
    closed = table.has_payloads and not opened
    query = {"limit": 0} if closed else {}
    answer = await ask(request, "GET", f"/{table.name}/{segment(id)}", query)
    if not answer.succeeded:
        return await refuse(console, answer)
    return await console.rendering.page(
        "one.html",
        table=table,
        id=id,
        row=answer.value,
        fields=list(fields_of(answer.value)),
        texts=texts_of(answer.value) if opened else {},
        closed=closed,
        related=[
            await _related(request, one, answer.value)
            for one in table.related
            if value_of(answer.value, one.field)
        ],
        json=f"{ROOT}/{table.name}/{quote(id)}",
        here=table.name,
    )


async def _related(request: Request, related: Related, row: Mapping[str, Any]) -> dict[str, Any]:
    """The first rows of a list that concern *row*, for the page of that."""
    table = TABLES[related.table]
    query = {related.narrowing: value_of(row, related.field) or ""}
    answer = await ask(request, "GET", f"/{table.name}", {"limit": RELATED, **query})
    rows = answer.value[table.rows] if answer.succeeded else []
    return {"title": related.title, "table": table, "rows": rows, "address": urlencode(query)}


@router.post("/{name}", dependencies=[Depends(refuse_other_origins)])
async def act(name: str, request: Request, console: Given) -> Response:
    """Do something with the rows of a form: at first say what will happen, and ask."""
    table, form = table_of(name), await read_form(request)
    action = table.action(first(form, "action"))
    if action is None:
        raise HTTPException(404, "There is no such action.")
    check_acts(console)
    ids = list(dict.fromkeys(form.get("id", [])))
    if not ids:
        return redirect(f"/console/{table.name}")
    if not first(form, "confirmed"):
        return await console.rendering.page(
            "confirm.html", table=table, action=action, ids=ids, here=table.name
        )
    refused = await _carry_out(request, table, action, ids)
    return await console.rendering.page(
        "done.html", table=table, action=action, ids=ids, refused=refused, here=table.name
    )


async def _carry_out(
    request: Request, table: Table, action: Action, ids: Sequence[str]
) -> list[tuple[str, str]]:
    """Ask the administration for *action*; the ids that it refused, each with why."""
    if action.body is not None:
        try:
            body = action.body(ids)
        except ValueError:
            raise HTTPException(404, "There is no such thing.") from None
        answer = await ask(request, action.method, f"/{table.name}{action.path}", body=body)
        return [] if answer.succeeded else [(", ".join(ids), answer.refusal)]
    refused = []
    for id in ids:
        path = f"/{table.name}{action.path.format(id=segment(id))}"
        answer = await ask(request, action.method, path, body=action.each)
        if not answer.succeeded:
            refused.append((id, answer.refusal))
    return refused


def _narrowed(table: Table, request: Request) -> dict[str, list[str]]:
    """What the address says to narrow the list by, and to sort it by."""
    names = [one.name for one in table.narrowings]
    if any(column.sort for column in table.columns):
        names += ["sort", "descending"]
    given = {name: request.query_params.getlist(name) for name in names}
    return {name: kept for name, all_ in given.items() if (kept := [one for one in all_ if one])}


def _orders(table: Table, query: Mapping[str, list[str]]) -> dict[str, tuple[str, str]]:
    """To each order the address of the list in it, and how the list is sorted by it now: that
    again is the other way round."""
    orders = {}
    for name in filter(None, (column.sort for column in table.columns)):
        now = "none"
        if query.get("sort") == [name]:
            now = "descending" if query.get("descending") == ["true"] else "ascending"
        asked: dict[str, object] = {**query, "sort": name}
        asked.pop("descending", None)
        if now == "ascending":
            asked["descending"] = "true"
        orders[name] = urlencode(asked, doseq=True), now
    return orders


def after(request: Request) -> dict[str, str]:
    """Where a list goes on, as the address says."""
    following = request.query_params.get("after")
    return {"after": following} if following else {}
