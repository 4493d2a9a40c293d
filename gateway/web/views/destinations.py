"""Destinations to which deliveries fail."""

from datetime import datetime

from pydantic import BaseModel, Field

from gateway.delivery.destinations.failures import DestinationFailures
from gateway.model.moments import moment_of


class DestinationView(BaseModel, extra="forbid"):
    """A destination to which attempts failed."""

    destination: str = Field(description="Scheme, host and port; a mailbox has the scheme alone.")
    failures: int = Field(description="Attempts that failed since this gateway started.")
    last_error: str
    last_failure: datetime


def destination_view(failures: DestinationFailures) -> DestinationView:
    """The view of a destination with failed attempts."""
    return DestinationView(
        destination=failures.destination,
        failures=failures.failures,
        last_error=failures.last_error,
        last_failure=moment_of(failures.last_at),
    )
