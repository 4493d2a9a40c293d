"""The overview of one tenant."""

from datetime import datetime

from pydantic import BaseModel, Field

from gateway.model.moments import moment_of, moment_or_none
from gateway.web.tenant_overviews import TenantOverview
from gateway.web.views.overview import DeadLettersView, FailingView, dead_letters_view, failing_view


class TenantDeliveries(BaseModel, extra="forbid"):
    """Deliveries to the subscriptions of a tenant."""

    matched: int = Field(description="Of the subscriptions that there are now.")
    delivered: int = Field(description="Of these subscriptions.")
    waiting: int = Field(description="In the store, and in memory at this gateway.")
    oldest: datetime | None = Field(description="When the oldest in the store came.")
    attempts: dict[str, int] = Field(
        description="Attempts of this gateway since its start, by what became of them."
    )


class TenantMailboxes(BaseModel, extra="forbid"):
    """The mailboxes of a tenant."""

    number: int
    messages: int
    bytes: int


class TenantPublished(BaseModel, extra="forbid"):
    """Events of a tenant's users that this gateway took since its start."""

    messages: int
    bytes: int


class TenantOverviewView(BaseModel, extra="forbid"):
    """The figures of a tenant. What the store holds is of all gateways that use it; `failing`,
    attempts, and what was published and refused are of the one that answers."""

    at: datetime
    name: str
    subscriptions: int
    bytes: int = Field(description="Bytes that are kept for its users.")
    published: TenantPublished
    refused: dict[str, int] = Field(
        description="Requests that its quotas refused, by the quota; of `backlog` the deliveries "
        "that became dead letters."
    )
    deliveries: TenantDeliveries
    mailboxes: TenantMailboxes
    dead_letters: DeadLettersView
    failing: FailingView


def tenant_overview_view(overview: TenantOverview) -> TenantOverviewView:
    """The view of *overview*."""
    figures, quotas = overview.figures, overview.quotas
    number, messages, octets = figures.mailboxes
    return TenantOverviewView(
        at=moment_of(overview.at),
        name=quotas.name,
        subscriptions=overview.subscriptions,
        bytes=overview.bytes,
        published=TenantPublished(**quotas.admitted),
        refused=dict(quotas.refused),
        deliveries=TenantDeliveries(
            matched=figures.matched,
            delivered=figures.delivered,
            waiting=overview.waiting,
            oldest=moment_or_none(figures.oldest),
            attempts=overview.attempts,
        ),
        mailboxes=TenantMailboxes(number=number, messages=messages, bytes=octets),
        dead_letters=dead_letters_view(
            figures.died, kept=figures.dead_letters, octets=figures.dead_letter_bytes
        ),
        failing=failing_view(overview.failing),
    )
