"""Deliveries to sinks of WS-Management: their header blocks, batches of events, and messages that
are nobody's events (DSP0226 1.2, sections 10.2.9 to 10.2.14)."""

from collections.abc import Sequence

from mediation import names
from mediation.model.delivery_modes import Bookmark, DeliveryMode
from mediation.model.messages import Notification
from mediation.model.versions import Soap, Wsa
from mediation.profiles import spellings_of
from mediation.soap.answers import PeerReply
from mediation.soap.envelopes import (
    ENVELOPE_END,
    ENVELOPE_MIDDLE,
    envelope_start,
    xml_attribute,
    xml_text,
)
from mediation.soap.expiry import expiry_block
from mediation.soap.properties import signature_blocks

ACK_ACTIONS = spellings_of(names.WSMAN_ACK)
"""The actions of an acknowledgement: the specification's, and openwsman's constant."""
REFUSED = "DeliveryRefused"
"""The subcode by which a sink ends its subscription (section 14.6)."""
AROUND_EVENTS = 1024
"""Octets of the envelope around events, at most, without the consumer's headers."""

PASSED = f"{{{names.DRAGOMAN_DATA}}}passed"
"""The name of the block of `passed_header`."""
_WSMAN = f'xmlns:wsman="{names.WSMAN}"'
_ACK_REQUESTED = f"<wsman:AckRequested {_WSMAN}/>"
_EVENT = b"<wsman:Event Action=%b>%b</wsman:Event>"
_AROUND_EVENT = len(_EVENT % (b"", b""))
_AROUND_SIGNATURE = len(signature_blocks([""])) + 5
"""Octets around a signature in its header block, with a number of up to six digits."""


def acknowledges(reply: PeerReply | None, message_id: str) -> bool:
    """Return whether *reply* acknowledges the delivery with *message_id*. Sinks may write it in
    another case; wseventsink gives its Ack no message id, which nobody needs."""
    if reply is None or reply.action not in ACK_ACTIONS or reply.relates_to is None:
        return False
    return reply.relates_to.lower() == message_id.lower()


def refuses_delivery(reply: PeerReply | None) -> bool:
    """Return whether *reply* says that the sink wants no more deliveries."""
    fault = reply.fault if reply is not None else None
    return fault is not None and REFUSED in (fault.subcode, fault.code)


def delivery_headers(delivery: DeliveryMode, wsa: Wsa) -> bytes:
    """The header blocks that all deliveries of a subscription have: in acknowledged modes where to
    send the acknowledgement, which is on the connection, and that one is wanted."""
    if not delivery.acknowledged:
        return b""
    address = f"<wsa:Address>{wsa.anonymous}</wsa:Address>"
    return f"<wsa:ReplyTo>{address}</wsa:ReplyTo>{_ACK_REQUESTED}".encode()


def bookmark_header(bookmark: Bookmark) -> bytes:
    """The header block that says up to where a sink has got with a message."""
    mark = (
        f'<d:position xmlns:d="{names.DRAGOMAN_DATA}" of={xml_attribute(bookmark.subscription)} '
        f"by={xml_attribute(bookmark.proof)}>{bookmark.position}</d:position>"
    )
    return f"<wsman:Bookmark {_WSMAN}>{mark}</wsman:Bookmark>".encode()


def passed_header(hops: int, origin: str, via: str) -> bytes:
    """The header block of a message that waits to be pulled: how many gateways it will have passed
    with this one, which event it is a copy of, and the addresses that it has passed."""
    told = f"hops={xml_attribute(str(hops + 1))} origin={xml_attribute(origin)}"
    told += f" via={xml_attribute(via)}"
    return f'<d:passed xmlns:d="{names.DRAGOMAN_DATA}" {told}/>'.encode()


def batch_expiry(notifications: Sequence[Notification]) -> bytes:
    """Write the header block of a batch that says when the life of its last event is over; empty
    where one of them has no end."""
    ends = [one.expires for one in notifications]
    known = [end for end in ends if end is not None]
    return expiry_block(max(known)) if known and len(known) == len(ends) else b""


def batch_signatures(notifications: Sequence[Notification]) -> bytes:
    """Write the header blocks of a batch with the signatures of its events."""
    return signature_blocks([one.properties.get(names.EVENT_SIGNATURE) for one in notifications])


def write_event(notification: Notification) -> bytes:
    """Write an event as a member of a batch."""
    return _EVENT % (_action_of(notification), notification.payload)


def event_octets(notification: Notification) -> int:
    """Return the length of what `write_event` writes, without a copy of the payload."""
    signature = len(notification.properties.get(names.EVENT_SIGNATURE, ""))
    return (
        _AROUND_EVENT
        + len(_action_of(notification))
        + len(notification.payload)
        + (signature and signature + _AROUND_SIGNATURE)
    )


def _action_of(notification: Notification) -> bytes:
    """Write the action of an event as the value of an attribute."""
    return xml_attribute(notification.action or names.WSMAN_EVENT).encode()


def write_dropped(notification: Notification, number: int) -> str:
    """Write the element that takes the place of an event which is too large for its sink: so many
    are left out by now."""
    action = xml_attribute(notification.action or names.WSMAN_EVENT)
    start = f"<wsman:DroppedEvents {_WSMAN} Action={action}>"
    return f"{start}{number}</wsman:DroppedEvents>"


def write_dropped_event(notification: Notification, number: int) -> bytes:
    """`write_dropped` as a member of a batch."""
    action, dropped = names.WSMAN_DROPPED_EVENTS, write_dropped(notification, number)
    return f'<wsman:Event Action="{action}">{dropped}</wsman:Event>'.encode()


def write_events(events: Sequence[bytes]) -> bytes:
    """Write the body of a batch of *events*, each from `write_event`."""
    return b"<wsman:Events %b>%b</wsman:Events>" % (_WSMAN.encode(), b"".join(events))


def write_delivery(
    soap: Soap, wsa: Wsa, action: str, message_id: str, headers: bytes, body: bytes
) -> bytes:
    """Write the envelope of a message to a sink.

    Args:
        headers: The header blocks of the sink, `Recipient.headers`, and others.
    """
    start = f"{envelope_start(soap, wsa)}<wsa:Action>{xml_text(action)}</wsa:Action>"
    start += f"<wsa:MessageID>{xml_text(message_id)}</wsa:MessageID>"
    parts = (start.encode(), headers, ENVELOPE_MIDDLE.encode(), body, ENVELOPE_END.encode())
    return b"".join(parts)
