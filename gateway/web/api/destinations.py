"""``/api/v1/destinations``: where deliveries fail."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel

from gateway.delivery.destinations.failures import KEPT, FailureCounts
from gateway.routes import Dependency
from gateway.web.parameters import PAGE
from gateway.web.validation import JsonRoute
from gateway.web.views.destinations import DestinationView, destination_view

router = APIRouter(prefix="/destinations", tags=["subscriptions"], route_class=JsonRoute)
FAILURES = Dependency[FailureCounts]()
Given = Annotated[FailureCounts, Depends(FAILURES)]


class DestinationPage(BaseModel, extra="forbid"):
    destinations: list[DestinationView]


@router.get("")
async def list_failing_destinations(
    failures: Given, limit: Annotated[int, Query(ge=1, le=KEPT)] = PAGE
) -> DestinationPage:
    """Destinations to which attempts failed, that with the most failures first. This gateway's
    own attempts count, since its start, for the thousand destinations that failed last."""
    return DestinationPage(destinations=[*map(destination_view, failures.most(limit))])
