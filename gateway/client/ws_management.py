"""Subscribing at sources of WS-Management: events are pushed, acknowledged, or pulled."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from filters import Refused
from gateway.client.calling import stranger
from gateway.client.errors import GatewayError
from gateway.client.messaging import LEASE, Client, Selector, Subscription, fresh_id
from mediation import names
from mediation.client import SPECS, read_pulled, write_pull
from mediation.eventing.management import PulledEvent
from mediation.model.delivery_modes import SourceOptions
from mediation.model.versions import Spec, Version

RESOURCE = "http://schemas.dmtf.org/wbem/wscim/1/*"
"""The resource whose events are meant where nobody names one: all classes of CIM."""
_TIMEOUT = timedelta(seconds=20)
_GRACE = timedelta(seconds=5)
"""What a source may take for its answer beside what it waits for an event."""
_NOTHING_YET = "TimedOut"
_NOBODY = "http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous"


class ManagementClient(Client):
    """Speaks to one source of WS-Management, or to a gateway; arguments as `Client`, and these.

    Args:
        acknowledged: Each event is sent until the consumer has acknowledged it (PushWithAck).
        resource: The URI of the resource that is subscribed at.
    """

    _path = "/wsman"

    def __init__(
        self,
        url: str,
        version: Version | Spec = SPECS[Version.WSE_2004_08],
        *,
        acknowledged: bool = False,
        resource: str = RESOURCE,
        **calling: Any,
    ) -> None:
        super().__init__(url, version, **calling)
        self._mode = names.WSMAN_PUSH_WITH_ACK if acknowledged else None
        self._resource = resource
        self._source = SourceOptions(resource, _TIMEOUT)

    async def subscribe(self, consumer: str, **wanted: Any) -> Subscription:
        """Subscribe the consumer at an address; arguments as `Client.subscribe`."""
        return await super().subscribe(consumer, **{"mode": self._mode, **wanted})

    async def subscribe_in_context(
        self,
        *,
        topic: str | None = None,
        xpath: str | None = None,
        namespaces: Mapping[str, str] | None = None,
        selector: Selector | None = None,
        lease: timedelta = LEASE,
    ) -> Subscription:
        """Subscribe in mode Pull: events wait at the source until `pull_next` takes them."""
        granted = await super().subscribe(
            _NOBODY, topic=topic, xpath=xpath, namespaces=namespaces, selector=selector,
            lease=lease, mode=names.WSMAN_PULL,
        )  # fmt: skip
        if granted.context is None:
            raise GatewayError("the source does not let its events be pulled")
        return granted

    async def pull_next(
        self, subscription: Subscription, *, most: int, wait: timedelta
    ) -> tuple[Subscription, tuple[PulledEvent, ...]]:
        """Take the next events; the subscription goes on as the one that is returned. Those of the
        last call are acknowledged by it.

        Args:
            most: Events.
            wait: How long the source may wait for the first; there is none where it is over.
        """
        if subscription.context is None:
            raise GatewayError("the subscription is not one in mode Pull")
        manager, address = subscription.manager_at
        options = SourceOptions(self._resource, wait + _GRACE)
        message = write_pull(
            self._spec, manager, subscription.context, message_id=fresh_id(), source=options,
            wait=wait, most=most,
        )  # fmt: skip
        try:
            answer = await self._send("Pull", address, message)
            pulled = read_pulled(answer.body)
        except GatewayError as error:
            if error.code != _NOTHING_YET:
                raise
            return subscription, ()
        except Refused as refused:
            raise stranger(address, answer) from refused
        return replace(subscription, context=pulled.context or subscription.context), pulled.events
