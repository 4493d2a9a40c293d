"""``/api/v1/channels``: channels with names, each a place of its own."""

from fastapi import APIRouter
from pydantic import BaseModel, Field

from gateway.model.channels import Channel, Selection
from gateway.web.parameters import PAGE, After, Limit, Prefix, Text, page_of
from gateway.web.parts import Parts, Web
from gateway.web.validation import JsonRoute
from gateway.web.views.channels import ChannelView, channel_view
from mediation.grid_events import EXAMPLE_FIELDS

router = APIRouter(prefix="/channels", tags=["channels"], route_class=JsonRoute)
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
    web: Parts,
    after: After = "",
    limit: Limit = PAGE,
) -> ChannelPage:
    """Channels in the order of their names."""
    views = (_view(web, one) for one in await web.channels.learn() if one.name > after)
    page, next_ = page_of(views, limit, lambda view: view.name)
    return ChannelPage(channels=page, next=next_)


@router.post("", status_code=201)
async def add_channel(asked: ChannelRequest, web: Parts) -> ChannelView:
    """Make a channel."""
    return _view(web, await web.channels.add(asked.name, asked.selection))


@router.get("/{name}")
async def show_channel(name: str, web: Parts) -> ChannelView:
    """One channel."""
    return _view(web, await web.channels.named(name))


@router.put("/{name}")
async def change_channel(name: str, asked: SelectionRequest, web: Parts) -> ChannelView:
    """Have a channel take something else from now on."""
    return _view(web, await web.channels.change(name, asked.selection))


@router.delete("/{name}", status_code=204)
async def remove_channel(name: str, web: Parts) -> None:
    """Delete a channel. The subscriptions at it end, which is told where that can be, and its links
    are cut."""
    await web.channels.check_own(name)
    # Itself last: who finds it gone has nothing left to do.
    await web.links.leave(name)
    await web.management.end_at(name)
    await web.channels.remove(name)
    await web.management.end_at(name)  # That came meanwhile.


def _view(web: Web, channel: Channel) -> ChannelView:
    number = web.subscriptions.number_at(channel.name)
    return channel_view(channel, web.base, subscriptions=number)
