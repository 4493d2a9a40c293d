"""``/api/v1/tap``: what passes, as it passes."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import Response

from filters import Expression, Filter, Reason, Refused
from filters.dialects import TOPIC_FULL
from gateway.observing.masking import Mask
from gateway.observing.taps import Taps
from gateway.observing.traces import MessageTraces
from gateway.routes import Dependency, open_to_tenants
from gateway.security.authorise import authorise
from gateway.security.principals import Principal
from gateway.security.rights import Right
from gateway.web.dependencies import Asking, TenantSeen
from gateway.web.parameters import Text
from gateway.web.tap_streams import TapStream
from gateway.web.validation import JsonRoute
from gateway.web.views.tap import TapLosses, TapMessage


@dataclass(frozen=True, slots=True)
class TapParts:
    """What the route of the tap works with."""

    asking: Asking
    taps: Taps
    traces: MessageTraces
    mask: Mask


router = APIRouter(prefix="/tap", tags=["messages"], route_class=JsonRoute)
PARTS = Dependency[TapParts]()
Given = Annotated[TapParts, Depends(PARTS)]
_EXAMPLE = TapMessage.model_validate(
    {
        "id": "urn:uuid:5b0f", "topic": "storms/coast", "at": "2026-11-27T05:51:08Z",
        "by": "urn:dragoman:publisher:10.0.3.2", "bytes": 212, "matched": 3, "delivered": 1,
        "expired": 0, "cancelled": 0, "under_way": 2,
        "attempts": [
            {
                "subscription": "90cc41d2ab05", "verdict": "retry", "status": 503,
                "seconds": 0.012, "error": "answered 503 Service Unavailable",
            }
        ],
        "more_attempts": 0, "payload": None,
    }
)  # fmt: skip
_LOST = TapLosses(passed_over=0, dropped=12, not_evaluated=0)
_STREAM = f"""retry: 2000

event: message
data: {_EXAMPLE.model_dump_json()}

event: lost
data: {_LOST.model_dump_json()}

"""


@router.get(
    "",
    response_class=Response,
    responses={
        200: {
            "description": "Server-Sent Events, without an end: `message`, and `lost`.",
            "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _STREAM}},
        }
    },
)
@open_to_tenants
async def watch(
    request: Request,
    parts: Given,
    tenant: TenantSeen,
    topic: Annotated[
        Text | None,
        Query(description="A topic expression of the Full dialect: `storms//.`", min_length=1),
    ] = None,
    xpath: Annotated[
        Text | None, Query(description="XPath 1.0 over the payload.", min_length=1)
    ] = None,
    ns: Annotated[
        list[Text], Query(description="A prefix of both: `w=urn:w`.", max_length=100)
    ] = [],  # noqa: B006  (FastAPI copies it)
    sample: Annotated[
        float, Query(description="The share of the messages of these topics.", gt=0, le=1)
    ] = 1.0,
    payload: Annotated[bool, Query(description="Show the first 16 KiB of each payload.")] = False,
) -> Response:
    """Watch what passes this gateway: of each message its topic, its publisher's id, how many
    subscriptions it matched, and what became of it, half a second later. Nothing is consumed. Eight
    may watch at a time; of each tenant two, who see what is that tenant's. Who reads too slowly is
    told how much was dropped. It ends within a second when who watches has no right to it any
    more."""
    namespaces = dict(one.split("=", 1) for one in ns if "=" in one)
    if len(namespaces) != len(ns):
        raise HTTPException(422, "ns: must be a prefix, `w=urn:w`, once each.")
    declared = tuple(sorted(namespaces.items()))
    filter_ = Filter(
        topics=() if topic is None else (Expression(topic, TOPIC_FULL, declared),),
        contents=() if xpath is None else (Expression(xpath, namespaces=declared),),
    )

    def check(principal: Principal) -> None:
        if principal.tenant != (tenant or ""):
            raise Refused(Reason.NOT_ALLOWED, "What is seen is another tenant's.")
        authorise(principal, Right.READ)

    return TapStream(
        parts.taps,
        parts.traces,
        parts.asking.draining,
        filter_,
        sample=sample,
        payload=payload,
        mask=parts.mask,
        tenant=tenant,
        refused=partial(parts.asking.until_refused, request, check),
    )
