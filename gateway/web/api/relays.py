"""``/api/v1/relays``: ways to listeners behind a firewall."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from gateway.channels.relay import PREFIX
from gateway.channels.relay_tokens import Relay
from gateway.security.resource_addresses import shown
from gateway.web.parts import Parts
from gateway.web.validation import JsonRoute
from gateway.web.values import PAGE, After, Limit, page_of

router = APIRouter(prefix="/relays", tags=["channels"], route_class=JsonRoute)


class RelayRequest(BaseModel, extra="forbid"):
    """A relay to make."""

    location: Annotated[str, Field(min_length=1, max_length=4096)]
    token: str | None = Field(
        None,
        max_length=128,
        description="16 to 128 letters, digits or any of . _ ~ -; else one is made.",
    )


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


class RelayPage(BaseModel, extra="forbid"):
    relays: list[RelayView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


@router.get("")
async def list_relays(
    web: Parts,
    after: After = "",
    limit: Limit = PAGE,
) -> RelayPage:
    """Relays in the order of their ids."""
    all_ = await web.relay_tokens.all()
    views = (RelayView(**_values(one)) for one in all_ if one.id > after)
    page, next_ = page_of(views, limit, lambda view: view.id)
    return RelayPage(relays=page, next=next_)


@router.post("", status_code=201)
async def add_relay(asked: RelayRequest, web: Parts) -> NewRelay:
    """Make a relay. No more than a hash of its token is kept: nobody is told it again."""
    relay, token = await web.relay_tokens.add(asked.location, asked.token)
    return NewRelay(**_values(relay), address=f"{web.base}{PREFIX}{token}", token=token)


@router.delete("/{id}", status_code=204)
async def remove_relay(id: str, web: Parts) -> None:
    """Delete a relay: its token opens nothing any more."""
    await web.relay_tokens.remove(id)


def _values(relay: Relay) -> dict[str, Any]:
    return {
        "id": relay.id,
        "location": shown(relay.row.location),
        "made_by": "settings" if relay.configured else "operator",
        "under_way": relay.under_way,
    }
