"""``/api/v1/destinations``: where deliveries fail, and whether hosts have agreed to get any."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel

from gateway.delivery.destinations.failures import KEPT
from gateway.routes import Dependency
from gateway.web.destinations import Destinations
from gateway.web.parameters import PAGE
from gateway.web.validation import JsonRoute
from gateway.web.views.destinations import DestinationView, destination_view

router = APIRouter(prefix="/destinations", tags=["subscriptions"], route_class=JsonRoute)
DESTINATIONS = Dependency[Destinations]()
Given = Annotated[Destinations, Depends(DESTINATIONS)]


class DestinationPage(BaseModel, extra="forbid"):
    destinations: list[DestinationView]


@router.get("")
async def list_failing_destinations(
    destinations: Given, limit: Annotated[int, Query(ge=1, le=KEPT)] = PAGE
) -> DestinationPage:
    """Destinations to which attempts failed, that with the most failures first. This gateway's
    own attempts count, since its start, for the thousand destinations that failed last. Behind
    them those whose hosts are on probation. Of each, whether its host has agreed to get messages,
    and which credentials are shown there."""
    return DestinationPage(destinations=[*map(destination_view, destinations.listed(limit))])
