"""What buttons do with all that a list shows: all dead letters of a reason, say, however many."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Depends, HTTPException, Request
from starlette.responses import Response

from gateway.web.console.administration import ask
from gateway.web.console.forms import first, read_form
from gateway.web.console.page_routes import Given, PageRoute, check_acts, refuse
from gateway.web.console.tables import Action, Table, table_of
from gateway.web.csrf import refuse_other_origins

STEP = 5000
"""Rows of one request: the next begins when the reader has seen how far that went."""

router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)


@router.post("/all/{name}", dependencies=[Depends(refuse_other_origins)])
async def act_on_all(name: str, request: Request, console: Given) -> Response:
    """Do something with all rows of a list: at first say what will happen, and to how many."""
    table, form = table_of(name), await read_form(request)
    action = table.action(first(form, "action"))
    narrowed = _narrowed(table, first(form, "narrowed"))
    chosen = action.selected(narrowed) if action is not None else None
    if action is None or chosen is None:
        raise HTTPException(404, "There is no such action.")
    check_acts(console)
    confirmed = bool(first(form, "confirmed"))
    answer = None
    if confirmed or action.counted:
        body = _body(action, chosen, dry_run=not confirmed, after=first(form, "after"))
        answer = await ask(request, action.method, f"/{table.name}{action.path}", body=body)
        if not answer.succeeded:
            return await refuse(console, answer)
    return await console.rendering.page(
        "selection_done.html" if confirmed else "selection_confirm.html",
        table=table,
        action=action,
        narrowed=narrowed,
        address=urlencode(narrowed),
        number=answer.value["number"] if answer else None,
        after=answer.value.get("next") if answer else None,
        here=table.name,
    )


def _narrowed(table: Table, address: str) -> dict[str, str]:
    """What a list's *address* narrows it by, but for its order."""
    names = {one.name for one in table.narrowings}
    return {name: value for name, value in parse_qsl(address) if name in names}


def _body(
    action: Action, chosen: Mapping[str, object], *, dry_run: bool, after: str
) -> dict[str, Any]:
    body = dict(chosen)
    if action.counted:
        body |= {"dry_run": dry_run} if dry_run else {"limit": STEP, "after": after or None}
    return body
