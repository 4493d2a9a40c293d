"""Contents: what one attempt sends, in the form and the encoding that its consumer asked for.

An attempt carries one event; several, in a batch of WS-Management; none, in a heartbeat; or the
message that takes the place of an event which is too large for the consumer.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gateway.delivery.batching import room_for_events
from gateway.delivery.entry import Entry
from gateway.delivery.outbox import PendingDelivery
from gateway.egress import FailureKind, SendFailed, hops_kept, with_hops
from gateway.egress.hops import HOPS_PROPERTY, join_origins, passed_by_all
from gateway.egress.returning_events import Origins
from gateway.model.channels import CHANNEL_PROPERTY, channel_address
from gateway.parsing import SMALL
from mediation.eventing.management import (
    AROUND_EVENTS,
    batch_expiry,
    batch_signatures,
    bookmark_header,
    passed_header,
    write_delivery,
    write_dropped,
    write_dropped_event,
    write_event,
    write_events,
)
from mediation.grid_events import VIA_PROPERTY
from mediation.model.delivery_modes import PUSH, DeliveryMode, Mode, Oversize, bookmark_of
from mediation.model.messages import Attachment, Notification
from mediation.model.versions import Soap
from mediation.names import WSMAN_DROPPED_EVENTS, WSMAN_EVENTS, WSMAN_HEARTBEAT
from mediation.rendering import SoapShape, batch_id, delivery_id, render
from mediation.soap.envelopes import http_headers

Headers = tuple[tuple[str, str], ...]


@dataclass(slots=True)  # Not frozen: that makes it dearer, for every delivery.
class Content:
    """The content of an attempt: the attributes of `gateway.egress.Request` that depend on it."""

    body: bytes
    headers: Headers
    message_id: str
    soap: Soap | None
    own_headers: Headers = ()
    attachments: tuple[Attachment, ...] = ()
    origin: str = ""


class Contents:
    """Makes the contents of attempts.

    Args:
        producer: The gateway's own address, for events without a producer reference.
        origins: Says which event a message is.
    """

    def __init__(self, producer: str, origins: Origins) -> None:
        self._producer = producer
        self._origins = origins

    def are_ready(self, pending: PendingDelivery) -> bool:
        """True if the content of an attempt of *pending* may be made on the event loop: it is
        small, it was made already, or to write it takes no work for each of its elements."""
        recipient, batch = pending.outbox.entry.recipient, pending.batch
        if isinstance(recipient.shape, SoapShape) and not recipient.minimal:
            return True
        if pending.heartbeat or pending.prepared is not None:
            return True
        octets = sum([len(one.message.notification.payload) for one in batch or (pending,)])
        # On a lane, nothing that is made meanwhile may overtake.
        if octets <= SMALL or pending.outbox.lane is not None:
            return True
        seen = pending.message.minimal if recipient.minimal else pending.message
        return not batch and seen is not None and recipient.shape in seen.renderings

    def prepare(self, pending: PendingDelivery) -> None:
        """Make of the content of *pending* what costs time, in any thread."""
        recipient = pending.outbox.entry.recipient
        shape = recipient.shape
        seen = [one.message.as_seen_by(recipient) for one in pending.carried]
        producer = self._producer_of(seen[0].notification)
        if pending.outbox.entry.delivery.batched and not isinstance(shape, SoapShape):
            pending.prepared = shape.batch([one.notification for one in seen], producer)
        elif not pending.outbox.entry.delivery.batched:
            seen[0].renderings[shape] = render(seen[0].notification, shape, producer)

    def of(self, pending: PendingDelivery) -> Content:
        """The content of an attempt of *pending*.

        Raises:
            SendFailed: ``TOO_LARGE``: its consumer takes no message of this size.
        """
        entry = pending.outbox.entry
        delivery = entry.delivery
        if delivery is PUSH:
            return self._one(pending)
        if pending.heartbeat:
            return _encoded(_own(entry, WSMAN_HEARTBEAT, pending.heartbeat), delivery)
        content = _encoded(
            self._batch(pending) if delivery.batched else self._one(pending), delivery
        )
        most = delivery.max_envelope_size
        pending.left_out = most is not None and len(content.body) > most
        if not pending.left_out:
            return content
        if delivery.oversize is not Oversize.NOTIFY or len(pending.carried) > 1:
            size = len(content.body)
            text = f"{size} bytes: more than the subscriber takes (MaxEnvelopeSize {most})"
            raise SendFailed(FailureKind.TOO_LARGE, text)
        return _encoded(_dropped(pending, content.message_id), delivery)

    def _one(self, pending: PendingDelivery) -> Content:
        """One event, as its subscription's specification writes it."""
        entry = pending.outbox.entry
        recipient = entry.recipient
        message = pending.message.as_seen_by(recipient)
        shape = recipient.shape
        rendering = message.renderings.get(shape)
        if rendering is None:
            producer = self._producer_of(message.notification)
            rendering = render(message.notification, shape, producer)
            message.renderings[shape] = rendering
        if rendering.numbered:
            pending.number = pending.number or entry.state.next_number()
            recipient = replace(recipient, number=pending.number)
        message_id = delivery_id(message.notification, entry.id)
        if entry.delivery.bookmarks:
            recipient = replace(recipient, headers=_headers(entry, pending.position))
        hops = hops_kept(message.notification.properties.get(HOPS_PROPERTY))
        if not message.origin:
            message.origin = self._origins.of(message.notification)
        if entry.delivery.mode is Mode.PULL:  # It is kept without headers of HTTP.
            told = recipient.headers + passed_header(
                hops, message.origin, self._passed(message.notification)
            )
            recipient = replace(recipient, headers=told)
        if pending.span is not None and isinstance(shape, SoapShape):
            recipient = replace(recipient, headers=recipient.headers + pending.span.block)
        return Content(
            rendering.fill(recipient, message_id),
            with_hops(rendering.http_headers, hops, self._passed(message.notification)),
            message_id,
            shape.soap,
            recipient.http_headers + rendering.own_headers,
            message.notification.attachments,
            message.origin,
        )

    def _batch(self, pending: PendingDelivery) -> Content:
        """Several events, as WS-Management or CloudEvents writes them."""
        entry = pending.outbox.entry
        recipient = entry.recipient
        shape = recipient.shape
        notifications = [one.message.as_seen_by(recipient).notification for one in pending.carried]
        ids = [delivery_id(notification, entry.id) for notification in notifications]
        via = passed_by_all(list(map(self._passed, notifications)))
        origin = join_origins(list(map(self._origins.of, notifications)))
        hops = max(hops_kept(one.properties.get(HOPS_PROPERTY)) for one in notifications)
        if isinstance(shape, SoapShape):
            body = write_events(list(map(write_event, notifications)))
            position = pending.carried[-1].position
            blocks = _headers(entry, position) + batch_expiry(notifications)
            blocks += batch_signatures(notifications)
            blocks += pending.span.block if pending.span is not None else b""
            octets = write_delivery(
                shape.soap, shape.wsa, WSMAN_EVENTS, batch_id(ids), blocks, body
            )
            headers = with_hops(http_headers(shape.soap, WSMAN_EVENTS), hops, via)
            return Content(octets, headers, batch_id(ids), shape.soap, origin=origin)
        batch, pending.prepared = pending.prepared, None
        if batch is None:
            batch = shape.batch(notifications, self._producer_of(notifications[0]))
        headers = with_hops(batch.http_headers, hops, via)
        return Content(batch.octets, headers, batch_id(ids), None, origin=origin)

    def _passed(self, notification: Notification) -> str:
        """The addresses that *notification* has passed, with this one."""
        via = notification.properties.get(VIA_PROPERTY, "")
        return f"{via} {self._producer_of(notification)}".strip()

    def _producer_of(self, notification: Notification) -> str:
        """The address of the channel that *notification* was published at."""
        channel = notification.properties.get(CHANNEL_PROPERTY)
        return self._producer if channel is None else channel_address(self._producer, channel)


def room_in(entry: Entry) -> int:
    """The bytes that the events of a batch for *entry* may have."""
    return room_for_events(entry.delivery, AROUND_EVENTS + len(entry.recipient.headers))


def _dropped(pending: PendingDelivery, message_id: str) -> Content:
    """The message in the place of the event of *pending*."""
    entry, notification = pending.outbox.entry, pending.message.notification
    if entry.delivery.batched:
        body = write_events([write_dropped_event(notification, entry.state.dropped + 1)])
        return _own(entry, WSMAN_EVENTS, message_id, body, pending.position)
    body = write_dropped(notification, entry.state.dropped + 1).encode()
    return _own(entry, WSMAN_DROPPED_EVENTS, message_id, body, pending.position)


def _own(
    entry: Entry,
    action: str,
    message_id: str,
    body: bytes = b"",
    position: int | None = None,
) -> Content:
    """A message of WS-Management's own, up to *position*."""
    shape = entry.recipient.shape
    if not isinstance(shape, SoapShape):
        raise ValueError("only a sink that speaks SOAP asks for WS-Management's messages")
    blocks = _headers(entry, position)
    octets = write_delivery(shape.soap, shape.wsa, action, message_id, blocks, body)
    headers = with_hops(http_headers(shape.soap, action), 0)
    return Content(octets, headers, message_id, shape.soap)


def _headers(entry: Entry, position: int | None) -> bytes:
    """The header blocks for the sink, with a bookmark if it wants one."""
    headers = entry.recipient.headers
    if position is None or not entry.delivery.bookmarks:
        return headers
    mark = bookmark_of(entry.id, entry.subscription.key, position)
    return headers + bookmark_header(mark)


def _encoded(content: Content, delivery: DeliveryMode) -> Content:
    """*content* in the encoding that its sink asked for; SOAP is written in UTF-8."""
    if delivery.encoding != "utf-8" and content.soap is not None:
        content.body = content.body.decode().encode(delivery.encoding)
        content.headers = tuple(_declaring(content.headers, delivery.encoding))
    return content


def _declaring(headers: Headers, encoding: str) -> Iterable[tuple[str, str]]:
    for name, value in headers:
        if name == "Content-Type":
            value = value.replace("charset=utf-8", f"charset={encoding}")
        yield name, value
