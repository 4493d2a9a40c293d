"""Speaks with devices of ONVIF: finds their event service, makes pull points, has them say the
state of all properties anew."""

import contextlib
from dataclasses import dataclass

from gateway.model.sources import Source
from gateway.security.keys import message_urn
from gateway.sources.requester import (
    NotAuthorized,
    ProducerRefused,
    ProducerUnreachable,
    Requester,
)
from gateway.sources.requests import asked_at
from mediation.client import (
    EventService,
    read_answer,
    read_event_service,
    write_get_capabilities,
    write_get_event_properties,
    write_get_services,
    write_synchronize,
)
from mediation.model.messages import EndpointReference
from mediation.model.versions import Wsa


@dataclass(frozen=True, slots=True)
class FoundService:
    """The event service of a device, and the URL at which it is asked."""

    service: EventService
    url: str


class Devices:
    """Asks devices what must be known before the gateway can subscribe there."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def event_service(self, source: Source) -> FoundService:
        """Find the event service of the device whose device service is at the source's URL.

        Raises:
            ProducerRefused: It has none, or tells nobody.
            ProducerUnreachable
        """
        why = ""
        for write in (write_get_services, write_get_capabilities):
            try:
                written = write(source.url)
                found = await self._requester.ask(source, source.url, written, read_event_service)
            except NotAuthorized:
                raise
            except ProducerRefused as refused:
                why = str(refused)
                continue
            if found is None:
                raise ProducerRefused("it has no event service")
            _, url = asked_at(source, EndpointReference(found.address, Wsa.V2005_08))
            return FoundService(found, url)
        raise ProducerRefused(f"the URL is not that of a device service: {why}")

    async def synchronize(self, source: Source, manager: EndpointReference) -> None:
        """Have the device say the state of all properties anew; one that cannot is let be."""
        manager, url = asked_at(source, manager)
        written = write_synchronize(source.spec, manager, message_id=message_urn())
        with contextlib.suppress(ProducerRefused, ProducerUnreachable):
            await self._requester.ask(source, url, written, read_answer)

    async def log_in(self, source: Source, found: FoundService) -> None:
        """Ask for what a device tells to those alone who have logged in.

        Raises:
            ProducerRefused, ProducerUnreachable
        """
        written = write_get_event_properties(
            source.spec, found.service.address, message_id=message_urn()
        )
        await self._requester.ask(source, found.url, written, read_answer)
