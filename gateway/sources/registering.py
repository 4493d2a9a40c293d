"""Handlers of RegisterPublisher and DestroyRegistration (WS-BrokeredNotification)."""

from datetime import UTC, datetime

from filters import Filter
from gateway.exchange import Handlers, Inbound
from gateway.security.resource_addresses import ResourceKind, addressed
from gateway.sources.registrations import Registrations
from mediation.model.requests import (
    DestroyRegistration,
    Done,
    Incoming,
    PublisherRegistered,
    RegisterPublisher,
)
from mediation.notification.topic_namespaces import TopicNamespaces


class RegistrationOperations:
    """Registers publishers.

    Args:
        namespaces: What topics there may be.
    """

    def __init__(self, registrations: Registrations, namespaces: TopicNamespaces) -> None:
        self._registrations = registrations
        self._namespaces = namespaces

    def handlers(self) -> Handlers:
        return {RegisterPublisher: self.register, DestroyRegistration: self.destroy}

    async def register(
        self, request: RegisterPublisher, incoming: Incoming, inbound: Inbound
    ) -> PublisherRegistered:
        """Register a publisher; it may send its notifications where everybody does."""
        self._namespaces.check_filter(Filter(topics=request.topics))
        registration = await self._registrations.register(
            request, incoming.context.spec, inbound.principal, now=datetime.now(UTC)
        )
        address = ResourceKind.PUBLISHER.address(inbound.base, registration.key)
        wsa = request.publisher.wsa if request.publisher is not None else None
        return PublisherRegistered(address, f"{inbound.base}/soap", wsa)

    async def destroy(
        self, _request: DestroyRegistration, incoming: Incoming, inbound: Inbound
    ) -> Done:
        """End the registration to whose address this was sent."""
        address = addressed(inbound.path, incoming.context.headers.to)
        publisher = address is not None and address.kind is ResourceKind.PUBLISHER
        key = address.key if address is not None and publisher else None
        await self._registrations.destroy(await self._registrations.find(key))
        return Done()
