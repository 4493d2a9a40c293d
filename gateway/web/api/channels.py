"""``/api/v1/channels``: channels with names, each a place of its own."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from gateway.channels.channels import Channels
from gateway.channels.links import Links
from gateway.model.channels import Channel, Selection
from gateway.routes import Dependency
from gateway.subscriptions.management import SubscriptionManagement
from gateway.subscriptions.table import SubscriptionTable
from gateway.web.parameters import PAGE, After, Limit, Prefix, Text, page_of
from gateway.web.validation import JsonRoute
from gateway.web.views.channels import ChannelView, channel_view
from mediation.grid_events import EXAMPLE_FIELDS


@dataclass(frozen=True, slots=True)
class ChannelParts:
    """What the routes of channels work with."""

    base: str
    channels: Channels
    links: Links
    table: SubscriptionTable
    management: SubscriptionManagement


router = APIRouter(prefix="/channels", tags=["channels"], route_class=JsonRoute)
PARTS = Dependency[ChannelParts]()
Given = Annotated[ChannelParts, Depends(PARTS)]
_FIELDS = ", ".join(EXAMPLE_FIELDS)


class SelectionRequest(BaseModel, extra="forbid"):
    """What a channel takes; all of it must hold, and nothing takes everything."""

    example: dict[str, Text] = Field(
        {}, max_length=10, description=f"The fields of an event as an example: {_FIELDS}."
    )
    xpath: Text | None = Field(None, description="XPath 1.0 over the payload.")
    namespaces: dict[Prefix, Text] = Field({}, max_length=100, description="Its prefixes.")

    @property
    def selection(self) -> Selection:
        """The same as the gateway has it."""
        example = tuple(sorted(self.example.items()))
        return Selection(example, self.xpath, tuple(sorted(self.namespaces.items())))


class ChannelRequest(SelectionRequest):
    """A channel to make."""

    name: str = Field(description="1 to 64 of a-z, 0-9 and . _ -; it is a part of its address.")


class ChannelPage(BaseModel, extra="forbid"):
    channels: list[ChannelView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


@router.get("")
async def list_channels(
    parts: Given,
    after: After = "",
    limit: Limit = PAGE,
) -> ChannelPage:
    """Channels in the order of their names."""
    views = (_view(parts, one) for one in await parts.channels.learn() if one.name > after)
    page, next_ = page_of(views, limit, lambda view: view.name)
    return ChannelPage(channels=page, next=next_)


@router.post("", status_code=201)
async def add_channel(asked: ChannelRequest, parts: Given) -> ChannelView:
    """Make a channel."""
    return _view(parts, await parts.channels.add(asked.name, asked.selection))


@router.get("/{name}")
async def show_channel(name: str, parts: Given) -> ChannelView:
    """One channel."""
    return _view(parts, await parts.channels.named(name))


@router.put("/{name}")
async def change_channel(name: str, asked: SelectionRequest, parts: Given) -> ChannelView:
    """Have a channel take something else from now on."""
    return _view(parts, await parts.channels.change(name, asked.selection))


@router.delete("/{name}", status_code=204)
async def remove_channel(name: str, parts: Given) -> None:
    """Delete a channel. The subscriptions at it end, which is told where that can be, and its links
    are cut."""
    await parts.channels.check_own(name)
    # Itself last: who finds it gone has nothing left to do.
    await parts.links.leave(name)
    await parts.management.end_at(name)
    await parts.channels.remove(name)
    await parts.management.end_at(name)  # That came meanwhile.


def _view(parts: ChannelParts, channel: Channel) -> ChannelView:
    number = parts.table.number_at(channel.name)
    return channel_view(channel, parts.base, subscriptions=number)
