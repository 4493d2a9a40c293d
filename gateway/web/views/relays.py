"""Relays: ways to listeners behind a firewall."""

from pydantic import BaseModel, Field

from gateway.channels.relay import PREFIX
from gateway.channels.relay_tokens import Relay
from gateway.security.resource_addresses import shown


class RelayView(BaseModel, extra="forbid"):
    """A relay, without its token."""

    id: str
    location: str
    made_by: str = Field(description="operator, or settings.")
    under_way: int = Field(description="Messages that are under way by it, at this gateway.")


class NewRelay(RelayView):
    """A relay that was made; its token is told this one time."""

    address: str = Field(description="Where to post what is for the location.")
    token: str


def relay_view(relay: Relay) -> RelayView:
    """The view of *relay*."""
    return RelayView(
        id=relay.id,
        location=shown(relay.row.location),
        made_by="settings" if relay.configured else "operator",
        under_way=relay.under_way,
    )


def new_relay_view(relay: Relay, base: str, token: str) -> NewRelay:
    """The view of *relay*, just made with *token* at the gateway with the public URL *base*."""
    return NewRelay(**dict(relay_view(relay)), address=f"{base}{PREFIX}{token}", token=token)
