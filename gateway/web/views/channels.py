"""Channels with names."""

from pydantic import BaseModel, Field

from gateway.model.channels import Channel
from gateway.security.resource_addresses import ResourceKind


class ChannelView(BaseModel, extra="forbid"):
    """A channel."""

    name: str
    address: str
    example: dict[str, str]
    xpath: str | None
    namespaces: dict[str, str]
    made_by: str = Field(description="operator, or settings, which alone change it then.")
    subscriptions: int


def channel_view(channel: Channel, base: str, *, subscriptions: int) -> ChannelView:
    """The view of *channel* at the gateway with the public URL *base*."""
    selection = channel.selection
    return ChannelView(
        name=channel.name,
        address=ResourceKind.CHANNEL.address(base, channel.name),
        example=dict(selection.example),
        xpath=selection.xpath,
        namespaces=dict(selection.namespaces),
        made_by="settings" if channel.configured else "operator",
        subscriptions=subscriptions,
    )
