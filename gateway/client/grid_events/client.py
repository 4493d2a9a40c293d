"""Subscribing and publishing payloads by topic in Grid SOAP Events, as `Client` does in others."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.client.calling import Speaker
from gateway.client.errors import GatewayError, UnsupportedOperation
from gateway.client.grid_events.publishing import call, obtain_lease, port_at
from gateway.client.grid_events.serving import LISTENER
from gateway.client.messaging import (
    LEASE,
    SOURCE,
    Selector,
    Sign,
    Subscription,
    fresh_id,
    read_topic,
)
from mediation.grid_events import (
    Event,
    Port,
    made_event,
    made_header,
    read_payload,
    write_handle_event,
)
from mediation.model.delivery_modes import DeliveryAssurance
from mediation.model.messages import EndpointReference, Notification
from mediation.model.versions import Wsa
from mediation.names import EVENT_SIGNATURE
from mediation.packaging.data import xml_payload
from mediation.soap.body_elements import BodyContent, body_element
from mediation.soap.properties import properties_block

_BELOW = "//."
_NO_LEASE = timedelta(milliseconds=1)


class GridClient(Speaker):
    """Calls one gateway; its methods are as those of `Client`.

    Args:
        says_made: A payload that becomes an event is said to be that of another specification: a
            gateway publishes that payload, and not the event.
        calling: As `Speaker` takes it.
    """

    def __init__(self, url: str, *, says_made: bool = False, **calling: Any) -> None:
        super().__init__(url, **calling)
        self._says_made = says_made

    async def finish(self) -> None:
        """Return: what was published was answered."""

    async def publish(
        self,
        payload: BodyContent,
        *,
        topic: str | None = None,
        action: str | None = None,
        to: str | None = None,
        producer: str | None = None,
        properties: Mapping[str, str] | None = None,
        sign: Sign | None = None,
    ) -> str:
        """Publish one event; on return the gateway's message system holds it. An id of ours.

        Args:
            payload: One XML element (bytes or text of a document, or an element of lxml): an
                event as it is, anything else as its message.
            topic: A name, a path, or Clark notation; an event has its own.
            action: It says nothing here.
            to: The address of another endpoint than that of the client, a listener's for one.
            producer: The source of what is not an event yet.
            properties: None: events have no place for them.
            sign: Signs the payload, which must not be an event of Grid SOAP Events.

        Raises:
            GatewayError: It was not taken, or may not have been.
            Refused: *payload* is not one acceptable XML element (a `ValueError` with line and
                column where it is not well-formed).
        """
        if properties:
            raise UnsupportedOperation("Grid SOAP Events have no place for properties")
        notification = _notification(body_element(payload), topic)
        event, made = read_payload(notification.payload), ""
        if event is None:
            event = made_event(notification, producer or SOURCE)
            # What is signed is the payload, so that this has to be what the gateway publishes.
            made = made_header(notification) if self._says_made or sign is not None else ""
        elif sign is not None:
            text = "an event of Grid SOAP Events is written anew on its way: it is not signed"
            raise UnsupportedOperation(text)
        if sign is not None:
            signature = sign(notification.payload, notification.id, notification.topic)
            made += properties_block({EVENT_SIGNATURE: signature}).decode()
        written = write_handle_event(event, blocks=made)
        await call(self._caller, port_at(to or self._address), *written)
        return notification.id

    async def subscribe(
        self,
        consumer: str,
        *,
        topic: str | None = None,
        xpath: str | None = None,
        namespaces: Mapping[str, str] | None = None,
        lease: timedelta = LEASE,
        reliable: bool = False,
        assurance: DeliveryAssurance | None = None,
        since: str | None = None,
        order_key: str | None = None,
        selector: Selector | None = None,
    ) -> Subscription:
        """Subscribe the consumer at an address.

        Args:
            topic: A path, or Clark notation, with or without ``//.``: it also takes what is below.
            xpath, selector: None: filters are events.
            reliable: False: there are no sequences.
            assurance: None, or at least once: a call that subscribes has no place for another.
            since, order_key: None: nor has it one for a position, or for a key.
        """
        if xpath is not None:
            raise UnsupportedOperation("filters of Grid SOAP Events are events: there is no XPath")
        if selector is not None:
            raise UnsupportedOperation("Grid SOAP Events have no properties to select by")
        if reliable:
            raise UnsupportedOperation("Grid SOAP Events are sent in no sequence")
        if assurance not in (None, DeliveryAssurance.AT_LEAST_ONCE):
            raise UnsupportedOperation("Grid SOAP Events have no other assurance to ask for")
        if since is not None:
            raise UnsupportedOperation("Grid SOAP Events begin with what is published from now on")
        if order_key is not None:
            raise UnsupportedOperation("Grid SOAP Events are all sent in order")
        # It is all that a renewal needs: who subscribes so again, renews.
        manager = EndpointReference(consumer, Wsa.V2004_08, metadata=(_pattern(topic),))
        return await self.renew(Subscription(manager, None), lease)

    async def renew(self, subscription: Subscription, lease: timedelta = LEASE) -> Subscription:
        """Move the end of a subscription's lease."""
        manager = subscription.manager
        [topic] = manager.metadata
        granted = await obtain_lease(
            self._caller,
            port_at(self._address),
            Port(manager.address, LISTENER),
            lease,
            pattern=_example(topic.decode()),
        )
        return Subscription(manager, datetime.now(UTC) + granted)

    async def status(self, subscription: Subscription) -> Subscription:
        """Raise `UnsupportedOperation`: nothing can be called that tells."""
        raise UnsupportedOperation("Grid SOAP Events have no call that tells of a subscription")

    async def pause(self, subscription: Subscription) -> None:
        """Raise `UnsupportedOperation`."""
        raise UnsupportedOperation("Grid SOAP Events have no call that pauses a subscription")

    async def resume(self, subscription: Subscription) -> None:
        """Raise `UnsupportedOperation`."""
        raise UnsupportedOperation("Grid SOAP Events have no call that resumes a subscription")

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Let a subscription end soon: nothing can be called that ends one."""
        await self.renew(subscription, _NO_LEASE)


def _pattern(topic: str | None) -> bytes:
    """The topic to subscribe for as `_example` reads it.

    Raises:
        GatewayError: No pattern of an event says that.
    """
    text = (topic or "").removesuffix(_BELOW)
    if any(mark in text for mark in ("*", "|", "//", ">")):
        raise GatewayError(f"{topic!r}: a pattern of Grid SOAP Events is one topic, and all below")
    read_topic(text)
    return text.encode()


def _example(topic: str) -> Event | None:
    one = read_topic(topic)
    if one is None:
        return None
    path = ".".join(step.name for step in one.steps)
    return Event(one.steps[0].namespace, path)


def event_of(payload: bytes, topic: str | None) -> Event:
    """The event that *payload* is, or that it becomes as a message on *topic*."""
    notification = _notification(payload, topic)
    return read_payload(notification.payload) or made_event(notification, SOURCE)


def _notification(payload: bytes, topic: str | None) -> Notification:
    whole = xml_payload(payload, None)
    return Notification(fresh_id(), SOURCE, whole, datetime.now(UTC), read_topic(topic))
