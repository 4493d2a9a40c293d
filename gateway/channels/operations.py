"""Handlers of what is asked at the address of a channel with a name: to publish, and to subscribe.
Everything else is asked there as anywhere."""

from gateway.channels.channels import Channels, ChannelUnknown
from gateway.exchange import Handlers, Inbound
from gateway.publishing.operations import PublishingOperations
from gateway.security.resource_addresses import addressed
from gateway.subscriptions.operations import SubscriptionOperations
from mediation.model.requests import (
    Acknowledged,
    Incoming,
    Publish,
    Published,
    Subscribe,
    Subscribed,
    SubscribePulling,
)


class ChannelOperations:
    """Publishes and subscribes at channels, in whatever specification."""

    def __init__(
        self,
        channels: Channels,
        publishing: PublishingOperations,
        subscribing: SubscriptionOperations,
    ) -> None:
        self._channels = channels
        self._publishing = publishing
        self._subscribing = subscribing

    def handlers(self) -> Handlers:
        """Of messages to `ResourceKind.CHANNEL`."""
        return {
            Publish: self.publish,
            Subscribe: self.subscribe,
            SubscribePulling: self.subscribe,
        }

    async def publish(
        self, request: Publish, incoming: Incoming, inbound: Inbound
    ) -> Published | Acknowledged | None:
        """Publish what passes the channel's filter; the publisher is not told what that is."""
        name, stranger = await self._named(incoming, inbound), inbound.principal.stranger
        select = await self._channels.selecting(name, stranger=stranger)
        return await self._publishing.publish(request, incoming, inbound, select)

    async def subscribe(
        self, request: Subscribe | SubscribePulling, incoming: Incoming, inbound: Inbound
    ) -> Subscribed:
        """Subscribe to what is published at the channel."""
        name = await self._named(incoming, inbound)
        return await self._subscribing.subscribe(request, incoming, inbound, name)

    async def _named(self, incoming: Incoming, inbound: Inbound) -> str:
        resource = addressed(inbound.path, incoming.context.headers.to)
        key = resource.key if resource is not None else None
        if inbound.principal.tenant:  # Channels are the default tenant's.
            raise ChannelUnknown(key or "")
        return (await self._channels.named(key or "")).name
