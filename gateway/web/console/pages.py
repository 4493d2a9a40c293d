"""The pages of the console: the overview, a list and one row of each table, a message, a search;
and what buttons do."""

import csv
import io
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, urlencode

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.routing import APIRoute
from starlette.responses import RedirectResponse, Response, StreamingResponse

from gateway.routes import Dependency
from gateway.web.console.administration import ROOT, Answer, ask, segment
from gateway.web.console.origins import refuse_other_origins
from gateway.web.console.rendering import Rendering
from gateway.web.console.tables import DEAD_LETTERS, SUBSCRIPTIONS, TABLES, Action, Table, value_of

PAGE = 100
"""Rows of a page; the next are fetched when the reader comes to its end."""
CSV_PAGE = 1000
CSV_ROWS = 100_000
FORM_FIELDS = 1200
"""Of one form: a thousand ticked rows, and what else it has."""


@dataclass(frozen=True, slots=True)
class Console:
    """What the pages work with.

    Attributes:
        acts: Whether anything can be changed.
    """

    rendering: Rendering
    acts: bool


CONSOLE = Dependency[Console]()


class PageRoute(APIRoute):
    """A route whose refusals are pages, too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_or_say(request: Request) -> Response:
            try:
                return await handle(request)
            except HTTPException as refused:
                status, said = refused.status_code, str(refused.detail)
            console = await CONSOLE(request)
            return await console.rendering.page("refused.html", status, refusal=said, here="")

        return handle_or_say


router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)
Given = Annotated[Console, Depends(CONSOLE)]


@router.get("")
async def overview(request: Request, console: Given) -> Response:
    """How the gateway is, on one page."""
    answer = await ask(request, "GET", "/overview")
    if not answer.succeeded:
        return await _refused(console, answer)
    return await console.rendering.page("overview.html", now=answer.value, here="overview")


@router.get("/search")
async def search(
    request: Request, console: Given, q: Annotated[str, Query(max_length=2048)] = ""
) -> Response:
    """Go to what *q* is: a message, a subscription, a consumer's address, or a topic."""
    text = q.strip()
    if not text:
        return redirect("/console")
    if "/" not in text:
        if (await ask(request, "GET", f"/subscriptions/{segment(text)}")).succeeded:
            return redirect(f"/console/subscriptions/{quote(text)}")
        if (await ask(request, "GET", f"/messages/{segment(text)}")).succeeded:
            return redirect(f"/console/messages/{quote(text)}")
    if "://" in text or text.startswith("mailbox:"):
        return redirect("/console/subscriptions?" + urlencode({"consumer": text}))
    return redirect("/console/subscriptions?" + urlencode({"topic": text}))


@router.get("/tap")
async def tap(request: Request, console: Given) -> Response:
    """What passes, as it passes; the browser reads it from the administration."""
    given = {name: request.query_params.get(name, "") for name in ("topic", "xpath", "payload")}
    namespaces = request.query_params.get("ns", "").split()
    asked = {name: value for name, value in given.items() if value} | {"ns": namespaces}
    source = f"{ROOT}/tap?{urlencode(asked, doseq=True)}"
    return await console.rendering.page(
        "tap.html", given={**given, "ns": " ".join(namespaces)}, source=source, here="tap"
    )


@router.get("/messages/{id}")
async def message(id: str, request: Request, console: Given) -> Response:
    """What became of a message."""
    answer = await ask(request, "GET", f"/messages/{segment(id)}")
    if not answer.succeeded:
        return await _refused(console, answer)
    return await console.rendering.page(
        "message.html", id=id, messages=answer.value["messages"], here=""
    )


@router.post("/subscriptions/{id}/try", dependencies=[Depends(refuse_other_origins)])
async def try_message(id: str, request: Request, console: Given) -> Response:
    """Whether a subscription would get a message: nothing is sent."""
    form = await read_form(request)
    payload, topic = first(form, "payload"), first(form, "topic")
    body = {"payload": payload, "topic": topic or None}
    answer = await ask(request, "POST", f"/subscriptions/{segment(id)}/explain", body=body)
    return await _subscription(
        id, request, console, tried={"payload": payload, "topic": topic, "answer": answer}
    )


@router.get("/{name}.csv")
async def table_as_csv(name: str, request: Request, console: Given) -> Response:
    """A list as CSV, at most 100,000 rows of it."""
    table = _table(name)
    headers = {"content-disposition": f'attachment; filename="{name}.csv"'}
    rows = _csv_of(table, request)
    return StreamingResponse(rows, media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/{name}")
async def list_rows(name: str, request: Request, console: Given) -> Response:
    """A page of a list; all that narrows it is in its address."""
    table = _table(name)
    query = _narrowed(table, request)
    answer = await ask(
        request, "GET", f"/{table.name}", {"limit": PAGE, **query, **_after(request)}
    )
    if not answer.succeeded:
        return await _refused(console, answer)
    following = answer.value.get("next")
    return await console.rendering.page(
        "list.html",
        table=table,
        rows=answer.value[table.rows],
        query=query,
        address=urlencode(query, doseq=True),
        orders=_orders(table, query),
        json=f"{ROOT}/{table.name}?{urlencode(query, doseq=True)}",
        more=None
        if following is None
        else urlencode({**query, "after": str(following)}, doseq=True),
        here=table.name,
    )


@router.get("/{name}/{id:path}")
async def show_row(name: str, id: str, request: Request, console: Given) -> Response:
    """One row, with all that is known of it."""
    table = _table(name)
    if table is SUBSCRIPTIONS:
        return await _subscription(id, request, console)
    query = {"limit": 0} if table is DEAD_LETTERS else {}
    opened = "payload" in request.query_params
    answer = await ask(request, "GET", f"/{table.name}/{segment(id)}", {} if opened else query)
    if not answer.succeeded:
        return await _refused(console, answer)
    return await console.rendering.page(
        "one.html",
        table=table,
        id=id,
        fields=list(fields_of(answer.value)),
        texts=_texts(answer.value) if opened else {},
        closed=not opened and table.name in ("deadletters", "spool"),
        json=f"{ROOT}/{table.name}/{quote(id)}",
        here=table.name,
    )


@router.post("/{name}", dependencies=[Depends(refuse_other_origins)])
async def act(name: str, request: Request, console: Given) -> Response:
    """Do something with the rows of a form: at first say what will happen, and ask."""
    table, form = _table(name), await read_form(request)
    action = table.action(first(form, "action"))
    if action is None:
        raise HTTPException(404, "There is no such action.")
    if not console.acts:
        raise HTTPException(403, 'This console only shows: the setting `console` is "read".')
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


async def _subscription(
    id: str, request: Request, console: Console, tried: Mapping[str, Any] | None = None
) -> Response:
    path = f"/subscriptions/{segment(id)}"
    answer = await ask(request, "GET", path)
    if not answer.succeeded:
        return await _refused(console, answer)
    steps = await ask(request, "POST", f"{path}/explain", body={})
    attempts = await ask(request, "GET", f"{path}/attempts")
    dead = await ask(request, "GET", "/deadletters", {"subscription": id, "limit": 20})
    return await console.rendering.page(
        "subscription.html",
        table=SUBSCRIPTIONS,
        id=id,
        it=answer.value,
        fields=list(fields_of(answer.value)),
        steps=steps.value if steps.succeeded else [],
        attempts=attempts.value["attempts"] if attempts.succeeded else [],
        dead=dead.value["dead_letters"] if dead.succeeded else [],
        letters=DEAD_LETTERS,
        tried=tried,
        json=f"{ROOT}{path}",
        here="subscriptions",
    )


def fields_of(value: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """The fields of a JSON object and of those in it, with their names; not of texts, which are
    shown where somebody asks for them."""
    found: list[tuple[str, Any]] = []
    for name, one in value.items():
        if isinstance(one, Mapping) and "text" not in one:
            found += fields_of(one, f"{before}{name} ")
        elif one not in (None, [], {}) and not isinstance(one, Mapping):
            found.append((before + name.replace("_", " "), one))
    return found


def _texts(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if isinstance(one, Mapping) and "text" in one}


async def _refused(console: Console, answer: Answer) -> Response:
    return await console.rendering.page(
        "refused.html", answer.status, refusal=answer.refusal, here=""
    )


async def _csv_of(table: Table, request: Request) -> AsyncIterator[str]:
    query, after, left = _narrowed(table, request), _after(request), CSV_ROWS
    yield _csv_line([column.title for column in table.columns])
    while left > 0:
        asked = {"limit": CSV_PAGE, **query, **after}
        answer = await ask(request, "GET", f"/{table.name}", asked)
        if not answer.succeeded:
            raise RuntimeError(answer.refusal)  # The answer breaks off: it is not whole.
        rows = answer.value[table.rows]
        for row in rows:
            yield _csv_line([value_of(row, column.field) for column in table.columns])
        left -= len(rows)
        following = answer.value.get("next")
        if following is None:
            return
        after = {"after": str(following)}


def _csv_line(values: Sequence[object]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([_csv_value(value) for value in values])
    return out.getvalue()


def _csv_value(value: object) -> object:
    """*value* as a cell: a spreadsheet takes what begins with one of these for a formula."""
    text = " ".join(map(str, value)) if isinstance(value, list) else value
    return f"'{text}" if isinstance(text, str) and text[:1] in tuple("=+-@\t\r") else text


def _table(name: str) -> Table:
    table = TABLES.get(name)
    if table is None:
        raise HTTPException(404, "The console has no such page.")
    return table


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


def _after(request: Request) -> dict[str, str]:
    after = request.query_params.get("after")
    return {"after": after} if after else {}


async def read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form, each with all its values.

    Raises:
        HTTPException: 400: it cannot be read.
    """
    try:
        text = (await request.body()).decode()
        return parse_qs(text, max_num_fields=FORM_FIELDS, errors="strict")
    except ValueError:
        raise HTTPException(400, "The form cannot be read, or has too many fields.") from None


def first(form: Mapping[str, Sequence[str]], name: str) -> str:
    """The first value of a field; empty where it has none."""
    return form.get(name, [""])[0]


def redirect(address: str) -> Response:
    """Send the reader to another page."""
    return RedirectResponse(address, 303)
