"""Destinations to which deliveries fail."""

from datetime import datetime

from pydantic import BaseModel, Field

from gateway.model.moments import moment_of
from gateway.web.destinations import Agreement, Destination


class DestinationView(BaseModel, extra="forbid"):
    """A destination to which attempts failed, whose host is on probation or did not agree, or about
    which an operator has decided."""

    destination: str = Field(
        description="Scheme, host and port; a mailbox has the scheme alone, and a host to which no "
        "attempt failed has itself alone."
    )
    host: str = Field(description="Its host, which decisions are about; empty of a mailbox.")
    failures: int = Field(description="Attempts that failed since this gateway started.")
    last_error: str | None
    last_failure: datetime | None
    agreement: Agreement = Field(
        description="Whether the host has agreed to get messages: it accepted one, or an operator "
        "named it; a row of consumers names its owner; it is on probation; it was asked and did "
        "not agree, or accepted none of the messages that it was sent; or it is forbidden."
    )
    why: str = Field(description="Why that is so: who decided, or what was found out.")
    credentials: list[str] = Field(
        description="The names of the credentials that consumers there are shown; a tenant is told "
        "of none."
    )
    decides: bool = Field(description="Whether who asks may approve of its host, or forbid it.")


def destination_view(destination: Destination) -> DestinationView:
    """The view of a destination."""
    failures = destination.failures
    return DestinationView(
        destination=failures.destination,
        host=destination.host,
        failures=failures.failures,
        last_error=failures.last_error or None,
        last_failure=moment_of(failures.last_at) if failures.failures else None,
        agreement=destination.agreement,
        why=destination.why,
        credentials=list(destination.credentials),
        decides=destination.decides,
    )
