"""Several elements, text and attributes as one payload, and back as they stood."""

import pytest
from lxml import etree

from filters import Reason
from mediation import names
from mediation.client import read_received
from mediation.matrix import DIALECTS
from mediation.soap.actions import payload_action
from mediation.soap.contents import parts_in
from tests.rigs.cases import for_each
from tests.rigs.matrix import delivered
from tests.rigs.mediation import canonical, envelope, events, part, refused

ENCODED = (
    '<n:alarm xmlns:n="urn:ax" s:encodingStyle="http://schemas.xmlsoap.org/soap/encoding/">'
    '<what href="#id0"/></n:alarm><multiRef id="id0" c:root="0" '
    'xmlns:c="http://schemas.xmlsoap.org/soap/encoding/"><level>7</level></multiRef>'
)
BODIES = [
    ENCODED,
    "<a/><b/>",
    "said <a/> beside <b/> it",
    "before <a/>",
    '<a/>behind',
    '<d:a xmlns:d="urn:own">d:text</d:a><b/>',
    '<a>1 &lt; 2</a> &amp; <b xmlns="urn:b"/>',
]  # fmt: skip


def inner(octets: bytes, path: str) -> list[bytes]:
    """The children of the element on *path*, canonical, and the texts between them."""
    found = part(octets, path)
    texts = [(found.text or "").strip(), *((child.tail or "").strip() for child in found)]
    return [*map(str.encode, texts), *map(canonical, found)]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_is_one_event_and_comes_out_bare_as_it_was(body: str) -> None:
    octets = envelope(body)
    (event,) = events(octets)
    for name in ("wse-2004-08", "wse-2011-03", "wsn-1.3-raw", "wsn-1.0-raw"):
        target = DIALECTS[name]
        delivery = delivered(event, target, target.forms[-1]).octets
        assert inner(delivery, "s:Body") == inner(octets, "s:Body")
        assert events(delivery)[0].payload == event.payload
        received = read_received(delivery)
        assert isinstance(received, tuple)
        assert [one.payload for one in received] == [event.payload]


@for_each("body", BODIES)
@for_each("name", ["wsn-1.3", "wsn-1.2", "wsn-1.0", "pull-point", "onvif"])
def test_wrapped_its_parts_are_in_one_message(body: str, name: str) -> None:
    (event,) = events(envelope(body))
    target = DIALECTS[name]
    delivery = delivered(event, target, target.forms[-1]).octets
    (message,) = etree.fromstring(delivery).iter("{*}Message")
    assert [child.tag for child in message] == [f"{{{names.DRAGOMAN_DATA}}}data"]
    assert inner(etree.tostring(message), "*") == inner(envelope(body), "s:Body")


def test_a_body_without_anything_beside_its_element_is_that_element() -> None:
    (event,) = events(envelope(" <!-- no --> <a/> <!-- > --> "))
    assert event.payload == b"<a/>"
    assert parts_in(event.payload) is None


def test_many_parts_share_what_is_declared_around_them() -> None:
    scope = f"xmlns:p='urn:{'p' * 1000}' xmlns:d='urn:theirs'"
    octets = envelope("<p:x d:a='1'/><!-- no -->" * 2000 + "<d:y/>")
    octets = octets.replace(b"<s:Body>", f"<s:Body {scope}>".encode())
    (event,) = events(octets)
    assert len(event.payload) < 4 * len(octets)
    root = etree.fromstring(event.payload)
    assert root.tag == f"{{{names.DRAGOMAN_DATA}}}data"
    found = [child.tag for child in root.iterchildren("*")]
    assert found == ["{urn:%s}x" % ("p" * 1000)] * 2000 + ["{urn:theirs}y"]
    assert root[0].get("{urn:theirs}a") == "1"


def test_the_action_is_made_of_the_first_part() -> None:
    (event,) = events(envelope('<a xmlns="urn:first"/><b/>'))
    assert payload_action(event.payload) == "urn:first/a"


def test_a_stranger_s_wrapper_keeps_what_its_parts_mean() -> None:
    payload = b'<d:data xmlns:d="urn:dragoman:data:1"><d:a/>text<b/></d:data>'
    found = parts_in(payload)
    assert found is not None
    root = etree.fromstring(b"<r>%b</r>" % found)
    assert [child.tag for child in root] == ["{urn:dragoman:data:1}a", "b"]


def test_what_a_message_says_of_its_event_stays_with_it() -> None:
    (event,) = events(
        envelope(
            "<wsnt:Notify><wsnt:NotificationMessage><wsnt:Message Operation='Changed' "
            "xmlns:t='urn:t' t:at='2026' xsi:type='t:any'><t:Data/></wsnt:Message>"
            "</wsnt:NotificationMessage></wsnt:Notify>"
        )
    )
    data = etree.fromstring(event.payload)
    assert dict(data.items()) == {"Operation": "Changed", "{urn:t}at": "2026"}
    assert [child.tag for child in data] == ["{urn:t}Data"]


def test_what_a_notify_says_besides_travels_as_header_blocks() -> None:
    (event,) = events(
        envelope(
            "<wsnt:Notify xmlns:e='urn:e' e:of='7'><wsnt:NotificationMessage own='1'>"
            "<wsnt:Topic Dialect='http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple' "
            "e:level='9'>a</wsnt:Topic><wsnt:Message><x/></wsnt:Message><e:further/>"
            "</wsnt:NotificationMessage><e:behind/></wsnt:Notify>"
        )
    )
    said = [etree.fromstring(block) for block in event.headers]
    assert [etree.QName(one).localname for one in said] == [
        "Notify", "NotificationMessage", "Topic",
    ]  # fmt: skip
    assert [dict(one.items()) for one in said] == [
        {"{urn:e}of": "7"}, {"own": "1"}, {"{urn:e}level": "9"},
    ]  # fmt: skip
    assert [child.tag for one in said for child in one] == ["{urn:e}behind", "{urn:e}further"]


NOTIFICATION = "<wsnt:NotificationMessage>%s</wsnt:NotificationMessage>"
MESSAGE, TOPIC = "<wsnt:Message><x/></wsnt:Message>", "<wsnt:Topic>a</wsnt:Topic>"


@pytest.mark.parametrize(
    "octets",
    [
        envelope("<wsnt:Notify>" + NOTIFICATION % (MESSAGE * 2) + "</wsnt:Notify>"),
        envelope("<wsnt:Notify>" + NOTIFICATION % (TOPIC * 2 + MESSAGE) + "</wsnt:Notify>"),
        envelope("<wsnt:Notify>" + NOTIFICATION % MESSAGE + "</wsnt:Notify><x/>"),
        envelope("<wsnt:Notify>" + NOTIFICATION % MESSAGE + "</wsnt:Notify>text"),
        envelope("<x/>").replace(b"<s:Body>", b"<s:Body own='1'>"),
        envelope("<wse11:Notify own='1'><x/></wse11:Notify>"),
        envelope("<wse11:Notify>text<x/></wse11:Notify>"),
        envelope("<wsman:Events><wsman:Event><x/></wsman:Event><x/></wsman:Events>"),
        envelope("<wsman:Events own='1'><wsman:Event><x/></wsman:Event></wsman:Events>"),
    ],
)
def test_what_has_no_place_is_refused(octets: bytes) -> None:
    assert refused(octets).refused.reason is Reason.MESSAGE_INVALID


def test_consumers_get_each_message_of_a_notification() -> None:
    octets = envelope("<wsnt:Notify>" + NOTIFICATION % (MESSAGE * 2) + "</wsnt:Notify>")
    received = read_received(octets)
    assert isinstance(received, tuple)
    assert [one.payload for one in received] == [b"<x/>", b"<x/>"]


def test_attributes_of_schemas_encodings_and_signatures_are_about_the_message() -> None:
    octets = envelope("<x/>").replace(
        b"<s:Body>",
        f"<s:Body xmlns:u='{names.WSU}' u:Id='b' Id='c' xsi:schemaLocation='a b'>".encode(),
    )
    assert events(octets)[0].payload == b"<x/>"
