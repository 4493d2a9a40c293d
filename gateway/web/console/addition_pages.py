"""The pages on which something is added to a list: a source, a channel, a relay, a user, a key."""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter, Depends, HTTPException, Request
from starlette.responses import Response

from gateway.client.errors import GatewayError
from gateway.web.console.administration import ask
from gateway.web.console.fields import fields_of
from gateway.web.console.forms import first, read_form
from gateway.web.console.page_routes import Console, Given, PageRoute, check_acts
from gateway.web.console.tables import Addition, Table, table_of, value_of
from gateway.web.console.viewer.pages import read_namespaces
from gateway.web.csrf import refuse_other_origins

router = APIRouter(prefix="/console/add", include_in_schema=False, route_class=PageRoute)


@router.get("/{name}")
async def form(name: str, console: Given) -> Response:
    """The form."""
    return await _page(console, table_of(name), {})


@router.post("/{name}", dependencies=[Depends(refuse_other_origins)])
async def add(name: str, request: Request, console: Given) -> Response:
    """Add what the form says, and show what became of it; what is secret of it, this once."""
    check_acts(console)
    table, fields = table_of(name), await read_form(request)
    given = {name: first(fields, name).strip() for name in fields}
    try:
        body = _body(_addition_of(table), fields)
    except GatewayError as error:
        return await _page(console, table, given, said=str(error), status=422)
    answer = await ask(request, "POST", f"/{table.name}", body=body)
    if not answer.succeeded:
        return await _page(console, table, given, said=answer.refusal, status=answer.status)
    return await console.rendering.page(
        "added.html",
        table=table,
        id=value_of(answer.value, table.id),
        fields=fields_of(answer.value),
        here=table.name,
    )


def _addition_of(table: Table) -> Addition:
    if table.addition is None:
        raise HTTPException(404, "Nothing is added to this list here.")
    return table.addition


def _body(addition: Addition, fields: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """The JSON of what is filled in.

    Raises:
        GatewayError: Prefixes cannot be read.
    """
    body: dict[str, object] = {}
    for one in addition.fields:
        if value := first(fields, one.name).strip():
            body[one.name] = _values(value) if one.several else value
    if "ns" in body:
        body["namespaces"] = read_namespaces(str(body.pop("ns")))
    return body


def _values(text: str) -> list[str]:
    return [value for each in text.split(";") if (value := each.strip())]


async def _page(
    console: Console, table: Table, given: Mapping[str, str], *, said: str = "", status: int = 200
) -> Response:
    check_acts(console)
    return await console.rendering.page(
        "add.html",
        status,
        table=table,
        addition=_addition_of(table),
        given=given,
        said=said,
        here=table.name,
    )
