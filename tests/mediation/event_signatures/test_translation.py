"""A signature holds whatever its event was published in, carried by and translated to."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from filters import Topic
from mediation.client import Received, read_events, read_fetched, read_received, read_taken
from mediation.event_signatures import topic_agrees
from mediation.matrix import NOTIFIED, PUBLISHING, Dialect, Fact
from mediation.model.messages import Notification
from mediation.names import EVENT_SIGNATURE
from mediation.packaging.data import wrap
from mediation.packaging.records import decode, encode
from mediation.soap.properties import properties_block
from tests.rigs.cases import for_each
from tests.rigs.event_signatures import now, signer, verifier
from tests.rigs.matrix import Delivery, delivered, handed_over, posted, published
from tests.rigs.mediation import topic

TOPIC = topic("{urn:example:harbour}storms/coast")
PAYLOADS = {
    # Of these prefixes one is that of our envelopes, one stands in values alone, one in a child.
    "names in values": b'<w:Warning xmlns:w="urn:w" xmlns:xsi="http://www.w3.org/2001/XMLSchema-'
    b'instance" xmlns:s="urn:s" xsi:type="s:Gale">\n  <speed  unit="kn">s:65 &amp; wsa:x</speed>'
    b'<t:at xmlns:t="urn:t">t:now</t:at></w:Warning>',
    "a default namespace": b'<Warning xmlns="urn:w"><speed xmlns="">65</speed>\r\n\t<gust/></Warning>',
    "no namespace": "<warning wind='größer'>65 &#13; <![CDATA[<kn>]]></warning>".encode(),
    "JSON": wrap(b'{ "b": 1.0, "a": "\xc3\xb6"}', "application/json"),
    "octets": wrap(b"\x00\xff\r\n", "application/octet-stream"),
}

BY_DAY = ("names in values", "JSON")


def signed(payload: bytes) -> Notification:
    event = Notification("urn:uuid:1", "publisher", payload, now(), TOPIC)
    signature = signer().sign(payload, id=event.id, topic=TOPIC, time=event.time)
    return replace(event, properties={EVENT_SIGNATURE: signature})


def check(properties: Mapping[str, str], payload: bytes, named: Topic | None) -> None:
    found = verifier().verify(properties[EVENT_SIGNATURE], payload, now=now())
    assert (found.name, found.id, found.topic) == ("North mole", "urn:uuid:1", str(TOPIC))
    assert topic_agrees(found.topic, named)


def read(delivery: Delivery, dialect: Dialect) -> Notification:
    """What a gateway reads, to which the message is a publication."""
    if not dialect.in_soap:
        return posted(delivery.headers, delivery.octets)[0]
    return published(handed_over(delivery.octets, dialect))[0]


def received(delivery: Delivery, dialect: Dialect) -> Received:
    """What a consumer reads."""
    if not dialect.in_soap:
        return read_events(raw_headers(delivery.headers), delivery.octets)[0]
    if dialect.name in ("pull-point", "onvif"):
        return read_fetched(delivery.octets)[0]
    if dialect.name == "msgbox-2011":
        return read_taken(delivery.octets)[0]
    found = read_received(handed_over(delivery.octets, dialect))
    assert isinstance(found, tuple)
    return found[0]


def raw_headers(headers: tuple[tuple[str, str], ...]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers]


@pytest.mark.parametrize(
    "payload",
    [
        # Each of these takes a second.
        pytest.param(payload, marks=() if name in BY_DAY else pytest.mark.nightly, id=name)
        for name, payload in PAYLOADS.items()
    ],
)
@for_each("origin", PUBLISHING)
def test_a_signature_holds_through_every_pair_of_dialects(origin: Dialect, payload: bytes) -> None:
    event = read(delivered(signed(payload), origin, origin.forms[-1]), origin)
    for target in NOTIFIED:
        assert Fact.SIGNATURE in target.tells
        delivery = delivered(event, target, target.forms[-1])
        if target.name != "msgbox-2011":  # Its answer is no publication.
            one = read(delivery, target)
            check(one.properties, one.payload, one.topic)
        if not target.delivery.batched:  # Our clients subscribe to no batches.
            other = received(delivery, target)
            check(other.properties, other.payload, other.topic)


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=list(PAYLOADS))
def test_a_signature_holds_through_brokers(payload: bytes) -> None:
    record = encode(signed(payload))
    assert record.properties[EVENT_SIGNATURE]
    event = decode(record.body, record.properties)
    check(event.properties, event.payload, event.topic)


@for_each("target", [one for one in NOTIFIED if one.in_soap])
def test_other_properties_do_not_take_its_place(target: Dialect) -> None:
    """As those of a trace, with which a gateway sends a batch."""
    event = signed(b"<a/>")
    event = replace(event, headers=(properties_block({"traceparent": "00-1-2-01"}),))
    delivery = delivered(event, target, target.forms[-1])
    if target.name != "msgbox-2011":
        one = read(delivery, target)
        check(one.properties, one.payload, one.topic)
