"""The pages of the console that are no tables: the overview, the topology, a search, what passes, a
message, a subscription."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from gateway.web.console.administration import ROOT, PassedOn, ask, segment
from gateway.web.console.fields import fields_of
from gateway.web.console.forms import first, read_form, redirect
from gateway.web.console.page_routes import Console, Given, PageRoute, check_acts, refuse
from gateway.web.console.table_pages import after
from gateway.web.console.tables import DEAD_LETTERS, SUBSCRIPTIONS
from gateway.web.console.topology_layout import draw_topology
from gateway.web.csrf import refuse_other_origins

_WATCHED = ("topic", "xpath", "payload", "sample")
"""What a reader of the tap chooses, beside prefixes."""
router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)


@router.get("")
async def overview(request: Request, console: Given) -> Response:
    """How the gateway is, on one page."""
    answer = await ask(request, "GET", "/overview")
    if answer.status == 404:  # It is the default tenant's.
        return await _tenant_overview(request, console)
    if not answer.succeeded:
        return await refuse(console, answer)
    return await console.rendering.page("overview.html", now=answer.value, here="overview")


async def _tenant_overview(request: Request, console: Console) -> Response:
    """How the tenant of who asks is."""
    answer = await ask(request, "GET", "/tenants")
    if answer.succeeded and answer.value["tenants"]:
        path = f"/tenants/{segment(answer.value['tenants'][0]['name'])}"
        answer = await ask(request, "GET", f"{path}/overview")
    if not answer.succeeded:
        return await refuse(console, answer)
    if "tenants" in answer.value:  # Its tenant is no more.
        return redirect("/console/subscriptions")
    quotas = await ask(request, "GET", path)
    return await console.rendering.page(
        "tenant_overview.html",
        now=answer.value,
        quotas=quotas.value if quotas.succeeded else {},
        json=f"{ROOT}{path}/overview",
        here="overview",
    )


@router.get("/search")
async def search(
    request: Request, console: Given, q: Annotated[str, Query(max_length=2048)] = ""
) -> Response:
    """Go to what *q* is: a message, a subscription, a consumer's address, or a topic."""
    text = q.strip()
    if not text:
        return redirect("/console")
    there = "/" not in text and await ask(request, "GET", f"/subscriptions/{segment(text)}")
    if there and there.succeeded:
        return redirect(f"/console/subscriptions/{quote(text)}")
    if (await ask(request, "GET", f"/messages/{text}")).succeeded:
        return redirect(f"/console/messages/{quote(text)}")
    if "://" in text or text.startswith("mailbox:"):
        return redirect("/console/subscriptions?" + urlencode({"consumer": text}))
    return redirect("/console/subscriptions?" + urlencode({"topic": text}))


@router.get("/tap")
async def tap(request: Request, console: Given) -> Response:
    """What passes, as it passes; the browser reads it from `tap_events`."""
    given = {name: request.query_params.get(name, "") for name in _WATCHED}
    namespaces = request.query_params.get("ns", "").split()
    asked = {name: value for name, value in given.items() if value} | {"ns": namespaces}
    source = f"/console/tap/events?{urlencode(asked, doseq=True)}"
    return await console.rendering.page(
        "tap.html", given={**given, "ns": " ".join(namespaces)}, source=source, here="tap"
    )


@router.get("/tap/events")
async def tap_events(request: Request) -> Response:
    """The events of the administration's ``/tap``, for whoever is logged in to the console."""
    return PassedOn(request, "/tap")


@router.get("/topology")
async def topology(
    request: Request, console: Given, spec: Annotated[str, Query(max_length=64)] = ""
) -> Response:
    """What flows, as a picture and as tables; *spec* narrows it to publishers of a dialect."""
    answer = await ask(request, "GET", "/topology", {"spec": spec})
    if not answer.succeeded:
        return await refuse(console, answer)
    return await console.rendering.page(
        "topology.html",
        now=answer.value,
        picture=draw_topology(answer.value),
        spec=spec,
        json=f"{ROOT}/topology?{urlencode({'spec': spec} if spec else {})}",
        here="topology",
    )


@router.get("/messages/{id:path}")
async def message(id: str, request: Request, console: Given) -> Response:
    """What became of a message; and, where that is asked for, what is in it, and what each
    subscription makes of it."""
    opened = "content" in request.query_params
    answer = await ask(request, "GET", f"/messages/{id}", {"content": opened})
    if not answer.succeeded:
        return await refuse(console, answer)
    recipients = None
    if opened and any(one["content"] for one in answer.value["messages"]):
        asked = {"message": id, "matched": request.query_params.get("matched"), **after(request)}
        recipients = await ask(request, "GET", "/recipients", asked)
    return await console.rendering.page(
        "message.html",
        id=id,
        messages=answer.value["messages"],
        opened=opened,
        facts=fields_of,
        recipients=recipients,
        matched=request.query_params.get("matched", ""),
        json=f"{ROOT}/messages/{quote(id)}",
        here="",
    )


@router.post("/subscriptions/{id}/again", dependencies=[Depends(refuse_other_origins)])
async def send_again(id: str, request: Request, console: Given) -> Response:
    """Make one delivery once more; ask first, where the filter does not take the message."""
    check_acts(console)
    form = await read_form(request)
    message = first(form, "message").strip()
    body = {"message": message, "force": first(form, "force") == "yes"}
    answer = await ask(request, "POST", f"/subscriptions/{segment(id)}/send-again", body=body)
    if answer.status == 409:
        return await console.rendering.page(
            "send_confirm.html", 409, id=id, message=message, refusal=answer.refusal, here=""
        )
    if not answer.succeeded:
        return await refuse(console, answer)
    return redirect(f"/console/subscriptions/{quote(id)}#attempts")


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


@router.get("/subscriptions/{id}")
async def subscription(id: str, request: Request, console: Given) -> Response:
    """One subscription."""
    return await _subscription(id, request, console)


async def _subscription(
    id: str, request: Request, console: Console, tried: Mapping[str, Any] | None = None
) -> Response:
    path = f"/subscriptions/{segment(id)}"
    answer = await ask(request, "GET", path)
    if not answer.succeeded:
        return await refuse(console, answer)
    steps = await ask(request, "POST", f"{path}/explain", body={})
    attempts = await ask(request, "GET", f"{path}/attempts")
    dead = await ask(request, "GET", "/deadletters", {"subscription": id, "limit": 20})
    waiting = await ask(request, "GET", f"{path}/waiting")
    opened = "request" in request.query_params
    made = await ask(request, "GET", f"{path}/request") if opened else None
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
        waiting=waiting.value["messages"] if waiting.succeeded else [],
        request=made,
        tried=tried,
        json=f"{ROOT}{path}",
        here="subscriptions",
    )
