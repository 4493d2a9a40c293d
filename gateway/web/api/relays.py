"""``/api/v1/relays``: ways to listeners behind a firewall."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from gateway.channels.relay_tokens import RelayTokens
from gateway.routes import Dependency
from gateway.web.parameters import PAGE, After, Limit, page_of
from gateway.web.validation import JsonRoute
from gateway.web.views.relays import NewRelay, RelayView, new_relay_view, relay_view


@dataclass(frozen=True, slots=True)
class RelayParts:
    """What the routes of relays work with."""

    base: str
    tokens: RelayTokens


router = APIRouter(prefix="/relays", tags=["channels"], route_class=JsonRoute)
PARTS = Dependency[RelayParts]()
Given = Annotated[RelayParts, Depends(PARTS)]


class RelayRequest(BaseModel, extra="forbid"):
    """A relay to make."""

    location: Annotated[str, Field(min_length=1, max_length=4096)]
    token: str | None = Field(
        None,
        max_length=128,
        description="16 to 128 letters, digits or any of . _ ~ -; else one is made.",
    )


class RelayPage(BaseModel, extra="forbid"):
    relays: list[RelayView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


@router.get("")
async def list_relays(
    parts: Given,
    after: After = "",
    limit: Limit = PAGE,
) -> RelayPage:
    """Relays in the order of their ids."""
    all_ = await parts.tokens.all()
    views = (relay_view(one) for one in all_ if one.id > after)
    page, next_ = page_of(views, limit, lambda view: view.id)
    return RelayPage(relays=page, next=next_)


@router.post("", status_code=201)
async def add_relay(asked: RelayRequest, parts: Given) -> NewRelay:
    """Make a relay. No more than a hash of its token is kept: nobody is told it again."""
    relay, token = await parts.tokens.add(asked.location, asked.token)
    return new_relay_view(relay, parts.base, token)


@router.delete("/{id}", status_code=204)
async def remove_relay(id: str, parts: Given) -> None:
    """Delete a relay: its token opens nothing any more."""
    await parts.tokens.remove(id)
