"""Envelopes as mailboxes keep them, of any specification, and what is read out of them.

A kept envelope was bounded when it came in (by `convert_envelope`, or as the message that it was
rendered from), so it is parsed here without the limits for strangers: rendering may have wrapped it
deeper since.
"""

import re
from collections.abc import Iterable, Iterator

from lxml import etree

from filters import DEFAULT_TOPIC, DocumentLimits, Reason, dialects, in_utf_8, parse_document
from mediation import names, profiles
from mediation.filtering import dialect_of
from mediation.model.errors import MediationError
from mediation.model.versions import Soap, Wsa
from mediation.soap.addressing import read_epr, write_epr
from mediation.soap.contents import body_content
from mediation.soap.envelopes import (
    Envelope,
    children_of,
    elements,
    local_name,
    namespace_of,
    octets_of,
    read_envelope,
    text_of,
)
from mediation.soap.layout import layout_of
from mediation.soap.properties import properties_in, signature_blocks, take_numbered

MAX_MOST = 1000
"""The most messages that one request takes, even if it asks for more."""
MAX_SPLIT_OCTETS = 8 * 2**20
"""The most octets of all parts that one envelope is split into; each repeats the header."""
MAX_GROWTH = 16
"""The factor by which the events of one envelope may be longer than the envelope: each repeats the
namespaces."""
SMALL = 16 * 1024
"""The octets that a smaller envelope counts as where its growth is bounded."""

WSNT = names.WSN_1_3
_SIGNATURE = names.EVENT_SIGNATURE.encode()
_NOTIFY_NAMESPACES = profiles.WSN_1_3_SPELLINGS | {names.WSN_2004_06, names.WSN_IBM}
SPECIFICATION_NAMESPACES = frozenset(
    {
        *(soap.value for soap in Soap),
        *names.KNOWN_ELSEWHERE,
        *_NOTIFY_NAMESPACES,
        names.WSE_2004_08,
        names.WSE_2011_03,
        names.CXF_EVENTING,
        names.DRAGOMAN_MANAGEMENT,
        names.GRID_EVENTS,
        names.WSN_BR_1_3,
        names.WSN_BR_2004_06,
        names.WSN_BR_IBM,
        names.WSRF_RP,
        names.WSRF_RL,
        names.WSRF_RP_2004_06,
        names.WSRF_RL_2004_06,
        names.WSRF_RP_IBM,
        names.WSRF_RL_IBM,
        names.ONVIF_EVENTS,
        names.ONVIF_DEVICE,
        names.WSMAN_IDENTITY,
        names.MEX_2004_09,
        names.MEX_2011_03,
        names.WSRM_1_0,
        names.WSRM_1_1,
        names.MESSAGE_BOX_2011,
        names.MESSAGE_BOX_2011_SLASH,
        names.MESSAGE_BOX_2004,
        names.MAKE_CONNECTION_1_1,
    }
)
"""Namespaces whose elements are no events, but mean something to whoever reads the envelope. Those
of all specifications are among them; this room is below `SPECIFICATIONS`."""
_ORDER = ("SubscriptionReference", "Topic", "ProducerReference", "Message")
_NUMBER = re.compile(r"\+?\d{1,20}", re.ASCII)


def convert_envelope(octets: bytes, *, limits: DocumentLimits | None = None) -> bytes:
    """Convert an envelope into the form that a mailbox keeps: UTF-8 without an XML declaration. All
    else is unchanged, for the envelope may be signed.

    Raises:
        Refused: It is not an envelope, or beyond the limits.
    """
    octets = in_utf_8(octets)
    read_envelope(parse_document(octets, limits=limits or DocumentLimits()))
    if re.match(rb"<\?xml\s", octets):
        octets = octets[octets.index(b"?>") + 2 :]
    return octets.strip()


def notification_messages(envelope: bytes) -> tuple[bytes, ...]:
    """The events of an envelope, each as a NotificationMessage of WS-BaseNotification 1.3 with
    every namespace in scope declared on it; none where it holds none (SubscriptionEnd, a fault).

    The messages of a Notify stay as they are; those of a draft get the names of 1.3. A bare event
    gets the topic of its header. Of many events only the first are returned, so that they are
    together at most `MAX_GROWTH` times as long as the envelope. `split_envelope` avoids that.
    """
    parts = read_kept(envelope)
    told: list[bytes] = []
    room = room_for(envelope)
    for message in _messages(parts):
        room -= len(message)
        if told and room < 0:
            break
        told.append(message)
    return tuple(told)


def kept_signatures(envelopes: Iterable[bytes], *, alone: bool = False) -> str:
    """The header blocks of an answer with the signatures of the events of *envelopes*, as
    `notification_messages` tells them.

    Args:
        alone: The answer has one element for each envelope, whatever is in it.
    """
    envelopes = tuple(envelopes)
    if not any(_SIGNATURE in envelope for envelope in envelopes):
        return ""
    signatures: list[str | None] = []
    for envelope in envelopes:
        messages = 1 if alone else len(notification_messages(envelope))
        if _SIGNATURE not in envelope:
            signatures += [None] * messages
            continue
        blocks = tuple(octets_of(block) for block in read_kept(envelope).headers)
        others, numbered = take_numbered(blocks)
        said = properties_in(others).get(names.EVENT_SIGNATURE)
        signatures += [
            numbered.get(number, {}).get(names.EVENT_SIGNATURE, said)
            for number in range(1, messages + 1)
        ]
    return signature_blocks(signatures).decode()


def room_for(envelope: bytes) -> int:
    """The octets that the events of an envelope may have together, each with its own namespaces."""
    return MAX_GROWTH * max(len(envelope), SMALL)


def _messages(parts: Envelope) -> Iterator[bytes]:
    notify = _notify_of(parts)
    if notify is not None:
        for message in _messages_of(notify):
            if namespace_of(notify) != WSNT:
                _modernise(message)
            yield octets_of(message)
        return
    topic = _header_topic(parts)
    if parts.body and namespace_of(parts.body[0]) not in SPECIFICATION_NAMESPACES:
        yield (
            f'<wsnt:NotificationMessage xmlns:wsnt="{WSNT}">{topic}<wsnt:Message>'
            f"{body_content(parts).decode()}</wsnt:Message></wsnt:NotificationMessage>"
        ).encode()


def split_envelope(envelope: bytes) -> tuple[bytes, ...]:
    """Split an envelope with a Notify of several events into one for each. As with published
    events, each gets ``#n`` behind the message id. Any other envelope stays whole.

    Raises:
        MediationError: ``MESSAGE_INVALID``: the parts together exceed `MAX_SPLIT_OCTETS`.
    """
    parts = read_kept(envelope)
    notify = _notify_of(parts)
    events = [] if notify is None else _messages_of(notify)
    if len(events) < 2:
        return (envelope,)
    (parent,) = {event.getparent() for event in events}
    assert parent is not None
    block = _header(parts, "MessageID")
    base = text_of(block) if block is not None else ""
    for child in list(parent):
        parent.remove(child)
    root = parent.getroottree().getroot()
    made: list[bytes] = []
    total = 0
    for number, event in enumerate(events, 1):
        parent.append(event)
        if block is not None:
            _set_text(block, f"{base}#{number}")
        made.append(octets_of(root))
        parent.remove(event)
        total += len(made[-1])
        if total > MAX_SPLIT_OCTETS:
            raise MediationError(
                Reason.MESSAGE_INVALID, "The message has too many notifications for its header."
            )
    return tuple(made)


def payload_in(envelope: bytes) -> bytes:
    """Return what stands in the body, as `body_content`; nothing where the body is empty."""
    kept = read_kept(envelope)
    return body_content(kept) if kept.body else b""


def message_id(envelope: bytes) -> str | None:
    """The ``wsa:MessageID``, in whichever version."""
    return _header_text(envelope, "MessageID")


def relates_to(envelope: bytes) -> str | None:
    """The first ``wsa:RelatesTo``, in whichever version."""
    return _header_text(envelope, "RelatesTo")


def action(envelope: bytes) -> str | None:
    """The ``wsa:Action``, in whichever version."""
    return _header_text(envelope, "Action")


def read_most(element: etree._Element | None) -> int | None:
    """Read the number of messages that a peer asks for; None leaves it to the gateway, as zero does
    (Apache CXF reads it so).

    Raises:
        MediationError: ``MESSAGE_INVALID``: *element* is not a number.
    """
    text = text_of(element) if element is not None else ""
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise MediationError(
            Reason.MESSAGE_INVALID, "The number of messages is not a number.", value=text[:100]
        )
    return min(int(text), MAX_MOST) or None


def read_kept(envelope: bytes) -> Envelope:
    """Read an envelope that a mailbox keeps."""
    return read_envelope(_parse(envelope))


def _parse(octets: bytes) -> etree._Element:
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True
    )
    return etree.fromstring(octets, parser)


def _notify_of(parts: Envelope) -> etree._Element | None:
    if not parts.body:
        return None
    element = parts.body[0]
    is_notify = local_name(element) == "Notify" and namespace_of(element) in _NOTIFY_NAMESPACES
    return element if is_notify else None


def _messages_of(notify: etree._Element) -> list[etree._Element]:
    return [
        child
        for child in elements(notify)
        if local_name(child) == "NotificationMessage" and namespace_of(child) in _NOTIFY_NAMESPACES
    ]


def _modernise(message: etree._Element) -> None:
    """Convert a message of a draft to the names, the order and the dialects of 1.3."""
    message.tag = f"{{{WSNT}}}NotificationMessage"
    children = elements(message)
    for child in children_of(message):
        message.remove(child)
    for child in sorted(children, key=_place_in_message):
        if (part := _modern(child)) is not None:
            message.append(part)


def _place_in_message(child: etree._Element) -> int:
    """Return the place of a part in a message of 1.3; anything else stands at its end."""
    known = namespace_of(child) in _NOTIFY_NAMESPACES and local_name(child) in _ORDER
    return _ORDER.index(local_name(child)) if known else len(_ORDER)


def _modern(child: etree._Element) -> etree._Element | None:
    """A part of a message of a draft as 1.3 writes it; what is none, and a producer's reference
    that cannot be read, stays as it is. None for the reference of a subscription that cannot be
    read, for it says nothing of the event."""
    name = local_name(child)
    if _place_in_message(child) == len(_ORDER):
        return child
    part = _modern_reference(child) if name.endswith("Reference") else child
    if part is None:
        return child if name == "ProducerReference" else None
    part.tag = f"{{{WSNT}}}{name}"
    if name == "Topic":
        dialect = dialect_of(part) or dialects.TOPIC_SIMPLE
        part.attrib.pop("dialect", "")
        part.set("Dialect", dialect)
    return part


def _modern_reference(element: etree._Element) -> etree._Element | None:
    """Convert an endpoint reference to WS-Addressing 1.0; None where it is broken."""
    try:
        epr = read_epr(element, forged="drop")
    except MediationError:
        return None
    return _parse(f"<reference>{write_epr(epr, Wsa.V2005_08)}</reference>".encode())


def _header_topic(parts: Envelope) -> str:
    """The topic that a header block names, as it stands there; without one, the default topic."""
    text, dialect, scope = str(DEFAULT_TOPIC), dialects.TOPIC_SIMPLE, {}
    for block in parts.headers:
        if local_name(block) == "Topic" and namespace_of(block) in profiles.TOPIC_HEADERS:
            if text_of(block):
                text, scope = text_of(block), block.nsmap
                dialect = dialect_of(block) or dialects.TOPIC_SIMPLE
            break
    # The stubs know of no default namespace.
    topic = etree.Element(f"{{{WSNT}}}Topic", {"Dialect": dialect}, scope)  # type: ignore[arg-type]
    topic.text = text
    return octets_of(topic).decode()


def _header(parts: Envelope, name: str) -> etree._Element | None:
    wsa = layout_of(parts.names).wsa
    wanted = f"{{{wsa.value}}}{name}" if wsa is not None else ""
    return next((block for block in parts.headers if block.tag == wanted), None)


def _header_text(envelope: bytes, name: str) -> str | None:
    block = _header(read_kept(envelope), name)
    return (text_of(block) or None) if block is not None else None


def _set_text(element: etree._Element, text: str) -> None:
    for child in list(element):
        element.remove(child)
    element.text = text
