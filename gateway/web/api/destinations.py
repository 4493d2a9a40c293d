"""``/api/v1/destinations``: where deliveries fail."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from gateway.delivery.failures import KEPT
from gateway.model.moments import moment_of
from gateway.web.parts import Parts
from gateway.web.validation import JsonRoute
from gateway.web.values import PAGE

router = APIRouter(prefix="/destinations", tags=["subscriptions"], route_class=JsonRoute)


class DestinationView(BaseModel, extra="forbid"):
    """A destination to which attempts failed."""

    destination: str = Field(description="Scheme, host and port; a mailbox has the scheme alone.")
    failures: int = Field(description="Attempts that failed since this gateway started.")
    last_error: str
    last_failure: datetime


class DestinationPage(BaseModel, extra="forbid"):
    destinations: list[DestinationView]


@router.get("")
async def list_failing_destinations(
    web: Parts, limit: Annotated[int, Query(ge=1, le=KEPT)] = PAGE
) -> DestinationPage:
    """Destinations to which attempts failed, that with the most failures first. This gateway's
    own attempts count, since its start, for the thousand destinations that failed last."""
    return DestinationPage(
        destinations=[
            DestinationView(
                destination=one.destination,
                failures=one.failures,
                last_error=one.last_error,
                last_failure=moment_of(one.last_at),
            )
            for one in web.failures.most(limit)
        ]
    )
