"""``/api/v1/destinations``: where deliveries fail, whether hosts have agreed to get any, and what
operators decide about them."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel

from gateway.delivery import Entry
from gateway.delivery.destination_decisions import DestinationDecisions
from gateway.delivery.destinations.failures import KEPT
from gateway.delivery.status import host_shown
from gateway.model.host_decisions import Decision
from gateway.routes import Dependency, open_to_tenants
from gateway.subscriptions.table import SubscriptionTable
from gateway.web.dependencies import Asking, TenantSeen
from gateway.web.destinations import Destinations, host_of
from gateway.web.parameters import PAGE
from gateway.web.validation import JsonRoute
from gateway.web.views.destinations import DestinationView, destination_view


@dataclass(frozen=True, slots=True)
class DestinationParts:
    """What the routes of destinations work with."""

    asking: Asking
    destinations: Destinations
    decisions: DestinationDecisions
    table: SubscriptionTable


router = APIRouter(prefix="/destinations", tags=["subscriptions"], route_class=JsonRoute)
PARTS = Dependency[DestinationParts]()
Given = Annotated[DestinationParts, Depends(PARTS)]
Named = Annotated[
    str,
    Path(
        max_length=300,
        description="A host, or a destination as it is listed: all ports of its host are meant.",
    ),
]


class DestinationPage(BaseModel, extra="forbid"):
    destinations: list[DestinationView]


@router.get("")
@open_to_tenants
async def list_failing_destinations(
    parts: Given, tenant: TenantSeen, limit: Annotated[int, Query(ge=1, le=KEPT)] = PAGE
) -> DestinationPage:
    """Destinations to which attempts failed, that with the most failures first. This gateway's
    own attempts count, since its start, for the thousand destinations that failed last. Behind
    them those whose hosts are on probation, hosts about which an operator has decided, and hosts
    that did not agree. Of each, whether its host has agreed to get messages, why, and which
    credentials are shown there. Who is of a tenant sees the destinations of its subscriptions,
    with failures of these alone."""
    listed = parts.destinations.listed(limit)
    if tenant is not None:
        addresses = await asyncio.to_thread(_destinations_of, list(parts.table.entries_of(tenant)))
        listed = parts.destinations.of_tenant(tenant, addresses, limit)
    return DestinationPage(destinations=[*map(destination_view, listed)])


def _destinations_of(entries: Iterable[Entry]) -> list[str]:
    """The first destinations of *entries*: a page of them, and as many as may stand before these
    because they fail."""
    return sorted({host_shown(one.target.destination) for one in entries})[: 2 * KEPT]


@router.post("/{destination:path}/approve")
async def approve_destination(
    destination: Named, request: Request, parts: Given
) -> DestinationView:
    """Have a host count as one that has agreed: what waits for it on probation is sent."""
    return await _decide(destination, Decision.APPROVED, request, parts)


@router.post("/{destination:path}/forbid")
async def forbid_destination(destination: Named, request: Request, parts: Given) -> DestinationView:
    """Let nothing be sent to a host any more, but for attempts that are under way. What waits for
    it is held, up to the bounds of any backlog, and becomes a dead letter at its age; who
    subscribes it is refused."""
    return await _decide(destination, Decision.FORBIDDEN, request, parts)


@router.post("/{destination:path}/reset")
async def reset_destination(destination: Named, request: Request, parts: Given) -> DestinationView:
    """Forget what an operator has decided about a host; what is held for it is sent."""
    return await _decide(destination, None, request, parts)


async def _decide(
    destination: str, decision: Decision | None, request: Request, parts: DestinationParts
) -> DestinationView:
    by = (await parts.asking.principal(request)).owner
    await parts.decisions.decide(host_of(destination), decision, by)
    return destination_view(parts.destinations.find(destination))
