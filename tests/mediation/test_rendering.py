"""Notifications as each subscriber reads them: nothing of the payload is lost or changed on any
way from a publisher to a consumer."""

import gzip
import itertools
import json
import re
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from filters import DEFAULT_TOPIC, Topic, dialects
from mediation import names
from mediation.client import SPECS, Received, read_received, write_publish
from mediation.model.messages import EndpointReference, Notification, Policy
from mediation.model.versions import Soap, Spec, Version, Wsa
from mediation.notification.v1_3 import NOTIFY_ACTION
from mediation.rendering import (
    Shape,
    _frame,
    delivery_id,
    filter_event_of,
    prepare,
    render,
    shape_of,
)
from mediation.soap.actions import _tag_action, payload_action
from mediation.soap.envelopes import http_headers
from tests.rigs.cases import for_each
from tests.rigs.examples import examples
from tests.rigs.mediation import (
    NOW,
    WSNT,
    body,
    canonical,
    clark,
    events,
    headers,
    part,
    parts,
    scopes,
    subscription,
    text,
    topic,
)
from tests.rigs.payloads import URIS, elements, quoted
from tests.rigs.schemas import Validator

GATEWAY = "http://gateway.example.org/soap"
WSE, WSN = Version.WSE_2004_08, Version.WSN_1_3
KEY = (
    b'<my:Key xmlns:my="http://sink.example.com/ns" my:kind="q:name" xmlns:q="urn:q">2597</my:Key>'
)
TENANT = b"<Tenant>blue</Tenant>"
WAYS = [
    pytest.param(WSN, False, id="wrapped"),
    pytest.param(WSN, True, id="raw"),
    pytest.param(WSE, True, id="WS-Eventing"),
]
READING = Notification(
    "urn:1",
    "publisher",
    b'<o:Reading xmlns:o="http://ocean.example.org/ns"><o:Speed>65</o:Speed></o:Reading>',
    NOW,
    topic=topic("{http://example.org/weather}storms/tropical"),
    action="http://ocean.example.org/ns/Reading",
)


def delivered(
    notification: Notification,
    version: Version,
    raw: bool,
    *,
    soap: Soap = Soap.V1_2,
    wsa: Wsa | None = Wsa.V2005_08,
    consumer: EndpointReference | None = None,
    dialect: str | None = None,
) -> bytes:
    one = subscription(
        version, soap=soap, wsa=wsa, consumer=consumer, policy=Policy(raw=raw, dialect=dialect)
    )
    rendering = render(notification, shape_of(one), GATEWAY)
    return rendering.fill(prepare(one), delivery_id(notification, one.id))


def payload_of(octets: bytes) -> etree._Element:
    (child,) = body(octets)
    if child.tag == f"{{{WSNT}}}Notify":
        (child,) = parts(octets, "//wsnt:Message/*")
    return child


@for_each(("soap", "wsa"), list(itertools.product(Soap, Wsa)))
@for_each(("version", "raw"), WAYS)
def test_headers(version: Version, raw: bool, soap: Soap, wsa: Wsa) -> None:
    consumer = EndpointReference(
        "http://sink.example.com/events?a=1&b=2", Wsa.V2004_08, (KEY,), (TENANT,)
    )
    octets = delivered(READING, version, raw, soap=soap, wsa=wsa, consumer=consumer)
    found = headers(octets)
    named = [etree.QName(block).localname for block in found]
    assert named[:5] == ["Action", "MessageID", "To", "Key", "Tenant"]
    assert named[5:] == (["Topic"] if version is WSE else [])
    wrapped = version is WSN and not raw
    assert text(octets, "//s:Header/wsa:Action") == (NOTIFY_ACTION if wrapped else READING.action)
    assert text(octets, "//s:Header/wsa:To") == consumer.address
    assert text(octets, "//s:Header/wsa:MessageID") == delivery_id(READING, "public")
    for block, original in zip(found[3:5], (KEY, TENANT), strict=True):
        mark = block.attrib.pop(f"{{{wsa.value}}}IsReferenceParameter", "")
        assert mark == ("true" if wsa is Wsa.V2005_08 else "")
        assert canonical(block) == canonical(original)
    assert all(soap.value not in str(name) for block in found for name, _ in block.items())
    assert canonical(payload_of(octets)) == canonical(READING.payload)


@pytest.mark.parametrize(("soap", "wsa"), list(itertools.product(Soap, Wsa)))
@pytest.mark.parametrize(("version", "raw"), WAYS)
def test_every_notification_is_valid(
    version: Version, raw: bool, soap: Soap, wsa: Wsa, validator: Validator
) -> None:
    """References in WS-Notification are 1.0's by its schema; SOAP 1.1's has no place for header
    blocks without a namespace, though a subscriber may ask for such."""
    epr = Wsa.V2005_08 if version is WSN else wsa
    consumer = EndpointReference("http://sink.example.com/?a&b", epr, (KEY,))
    validator.check(delivered(READING, version, raw, soap=soap, wsa=wsa, consumer=consumer))


def test_wrapped() -> None:
    octets = delivered(READING, WSN, False)
    (message,) = parts(octets, "//wsnt:NotificationMessage")
    assert [etree.QName(child).localname for child in message] == [
        "SubscriptionReference", "Topic", "ProducerReference", "Message",
    ]  # fmt: skip
    assert text(octets, "//wsnt:SubscriptionReference/wsa:Address").startswith(
        "http://gateway.example.org/subscriptions/"
    )
    assert text(octets, "//wsnt:ProducerReference/wsa:Address") == GATEWAY
    topic_ = part(octets, "//wsnt:Topic")
    prefix, _, path = (topic_.text or "").partition(":")
    assert (topic_.nsmap[prefix], path) == ("http://example.org/weather", "storms/tropical")
    assert topic_.get("Dialect") == dialects.TOPIC_CONCRETE


@pytest.mark.parametrize("epr", Wsa)
def test_references_are_in_the_version_of_the_subscribers(epr: Wsa) -> None:
    producer = EndpointReference("http://p.example.org/", Wsa.V2004_08, (KEY,), (TENANT,))
    event = Notification("urn:1", "p", b"<a/>", NOW, producer=producer)
    octets = delivered(event, WSN, False, consumer=EndpointReference("urn:sink", epr))
    for name, address in (
        ("SubscriptionReference", subscription().manager),
        ("ProducerReference", "http://p.example.org/"),
    ):
        reference = part(octets, f"//wsnt:{name}")
        assert (reference[0].tag, reference[0].text) == (f"{{{epr.value}}}Address", address)
    assert b"2597" in octets and b"blue" in octets


@pytest.mark.parametrize(
    ("version", "raw", "own", "expected"),
    [
        (WSN, False, "urn:own", NOTIFY_ACTION),
        (WSN, False, None, NOTIFY_ACTION),
        (WSN, True, "urn:own", "urn:own"),
        (WSN, True, None, NOTIFY_ACTION),
        (WSE, True, "urn:own", "urn:own"),
        (WSE, True, None, "http://ocean.example.org/ns/Reading"),
    ],
)
def test_actions(version: Version, raw: bool, own: str | None, expected: str) -> None:
    event = Notification("urn:1", "p", READING.payload, NOW, action=own)
    octets = delivered(event, version, raw)
    assert text(octets, "//s:Header/wsa:Action") == expected


@pytest.mark.parametrize(
    ("payload", "action"),
    [
        (b'<o:R xmlns:o="urn:o"/>', "urn:o/R"),
        (b'<R xmlns="http://o.example.org/ns/"/>', "http://o.example.org/ns/R"),
        (b"<R/>", "urn:dragoman:event:R"),
        ('<ä xmlns="urn:ö">x</ä>'.encode(), "urn:ö/ä"),
        (b'<R a="' + b"x" * 9000 + b'" xmlns="urn:o"/>', "urn:o/R"),
    ],
)
def test_the_action_of_an_event_without_one(payload: bytes, action: str) -> None:
    assert payload_action(payload) == action


@pytest.mark.parametrize(
    "payload",
    [
        b"<p:a xmlns:p='urn:u'/>",
        b'<a xmlns="urn:u&amp;v/"/>',
        b'<a xmlns:x="urn:1" b="xmlns=2">t</a>',
        b"<a\n xmlns = 'urn:x' \n>t</a>",
        b'<x:a b="p:xmlns" xmlns:xx="urn:1" xmlns:x="urn:2"/>',
        b'<a b="&gt;" xmlns="urn:u"/>',
        b'<a b=">" xmlns="urn:u"/>',
        '<é xmlns="urn:u"/>'.encode(),
    ],
)
def test_the_root_is_named_as_the_parser_names_it(payload: bytes) -> None:
    name = etree.QName(etree.fromstring(payload))
    if name.namespace:
        assert payload_action(payload) == f"{name.namespace.rstrip('/')}/{name.localname}"
    else:
        assert payload_action(payload) == f"urn:dragoman:event:{name.localname}"


SINGLE, PATH = "plain", "{urn:w}a/b"
ONVIF = "{http://www.onvif.org/ver10/topics}VideoSource/MotionAlarm"


@for_each(
    ("subscribed", "name", "written", "carried"),
    [
        (None, SINGLE, dialects.TOPIC_SIMPLE, "plain"),
        (None, PATH, dialects.TOPIC_CONCRETE, "t0:a/b"),
        (dialects.TOPIC_SIMPLE, SINGLE, dialects.TOPIC_SIMPLE, "plain"),
        (dialects.TOPIC_SIMPLE, PATH, dialects.TOPIC_CONCRETE, "t0:a/b"),
        (dialects.TOPIC_CONCRETE, SINGLE, dialects.TOPIC_CONCRETE, "plain"),
        (dialects.TOPIC_FULL, PATH, dialects.TOPIC_FULL, "t0:a/b"),
        (dialects.TOPIC_CONCRETE_SET, ONVIF, dialects.TOPIC_CONCRETE_SET,
         "tns1:VideoSource/MotionAlarm"),
        (dialects.TOPIC_SYNAPSE, PATH, dialects.TOPIC_CONCRETE, "t0:a/b"),
        (dialects.ACTION_DPWS_1_1, SINGLE, dialects.TOPIC_SIMPLE, "plain"),
        (None, "{urn:ihe:iti:dsub:2009}FullDocumentEntry", dialects.TOPIC_SIMPLE,
         "ihe:FullDocumentEntry"),
    ],
)  # fmt: skip
@for_each("version", [WSN, WSE])
def test_topics_in_the_dialect_of_the_subscriber(
    version: Version, subscribed: str | None, name: str, written: str, carried: str
) -> None:
    event = Notification("urn:1", "p", b"<a/>", NOW, topic=topic(name))
    octets = delivered(event, version, version is WSE, dialect=subscribed)
    element = part(octets, "//wsnt:Topic")
    assert (element.get("Dialect"), element.text) == (written, carried)
    (received,) = _received(octets)
    assert clark(received.topic) == name


@pytest.mark.parametrize(
    ("name", "written", "carried"),
    [
        (SINGLE, dialects.TOPIC_IBM_SIMPLE, "plain"),
        (PATH, dialects.TOPIC_CONCRETE, "t0:a/b"),
    ],
)
def test_topics_in_the_dialect_of_ibm(name: str, written: str, carried: str) -> None:
    """Who subscribes to raw events in it speaks WS-Messenger, whose header is IBM's."""
    event = Notification("urn:1", "p", b"<a/>", NOW, topic=topic(name))
    octets = delivered(event, WSN, False, dialect=dialects.TOPIC_IBM_SIMPLE)
    element = part(octets, "//wsnt:Topic")
    assert (element.get("Dialect"), element.text) == (written, carried)
    raw = delivered(event, WSE, True, dialect=dialects.TOPIC_IBM_SIMPLE)
    (header,) = parts(raw, "//s:Header/*[local-name() = 'Topic']")
    assert etree.QName(header).namespace == names.WSN_IBM
    assert header.get("Dialect") == dialects.TOPIC_IBM_SIMPLE
    assert header.text is not None
    assert header.text.rpartition(":")[2] == carried.rpartition(":")[2]
    (received,) = _received(octets)
    assert clark(received.topic) == name


def test_an_event_without_a_topic_is_on_the_default_one() -> None:
    event = Notification("urn:1", "p", b"<a/>", NOW)
    for version in (WSN, WSE):
        (received,) = _received(delivered(event, version, version is WSE))
        assert received.topic == DEFAULT_TOPIC


def _received(octets: bytes) -> tuple[Received, ...]:
    received = read_received(octets)
    assert isinstance(received, tuple)
    return received


def test_headers_of_the_event_travel_along() -> None:
    block = b'<x:Trace xmlns:x="urn:x">q</x:Trace>'
    event = Notification("urn:1", "p", b"<a/>", NOW, headers=(block,))
    for version, raw in ((WSN, False), (WSN, True), (WSE, True)):
        found = parts(delivered(event, version, raw), "//s:Header/*[local-name() = 'Trace']")
        assert list(map(canonical, found)) == [canonical(block)]


@pytest.mark.parametrize("soap", Soap)
def test_http_headers(soap: Soap) -> None:
    named = dict(http_headers(soap, "urn:a"))
    if soap is Soap.V1_1:
        assert named == {"Content-Type": "text/xml; charset=utf-8", "SOAPAction": '"urn:a"'}
    else:
        assert named == {"Content-Type": 'application/soap+xml; charset=utf-8; action="urn:a"'}


@given(st.text())
def test_no_action_breaks_a_header(action: str) -> None:
    for soap in Soap:
        for _, value in http_headers(soap, action):
            assert value.isascii() and value.isprintable() and value.count('"') in (0, 2)


def test_ids_of_deliveries_are_the_same_every_time() -> None:
    one = delivery_id(READING, "public")
    assert one == delivery_id(READING, "public") != delivery_id(READING, "other")
    parsed = uuid.UUID(one.removeprefix("urn:uuid:"))
    assert (parsed.version, parsed.variant) == (5, uuid.RFC_4122)
    namespace = uuid.UUID("6f3b1f0e-6a2c-5b0e-9d0b-6a1c5f1f7d11")
    assert parsed == uuid.uuid5(namespace, "publisher\nurn:1\npublic")


def test_one_rendering_serves_all_of_a_shape() -> None:
    rendering = render(READING, shape_of(subscription()), GATEWAY)
    for address in ("http://one.example.org/", "http://two.example.org/?a&b"):
        one = subscription(consumer=EndpointReference(address, Wsa.V2005_08))
        assert shape_of(one) == shape_of(subscription())
        octets = rendering.fill(prepare(one), "urn:uuid:m")
        assert text(octets, "//s:Header/wsa:To") == address


def test_what_recurs_is_told_apart() -> None:
    """Frames are remembered; each message gets that of its own shape, topic, action, producer."""
    shapes = [
        shape_of(subscription(version, policy=Policy(raw=raw, dialect=dialect)))
        for version, raw in ((WSN, False), (WSN, True), (WSE, True))
        for dialect in (None, dialects.TOPIC_FULL)
    ]
    bare = EndpointReference("http://p.example.org/", Wsa.V2004_08)
    producers = [None, bare, replace(bare, parameters=(TENANT,)), replace(bare, wsa=Wsa.V2005_08)]
    events = [
        Notification("urn:1", "p", b"<a/>", NOW, topic(name), action, producer)
        for name in (SINGLE, PATH, ONVIF)
        for action in (None, "urn:own", "urn:other")
        for producer in producers
    ]
    recipient = prepare(subscription())

    def written(event: Notification, shape: Shape, gateway: str) -> tuple[bytes, object]:
        rendering = render(event, shape, gateway)
        return rendering.fill(recipient, "urn:uuid:m"), rendering.http_headers

    cases = list(itertools.product(events, shapes, (GATEWAY, "http://other.example.org/")))
    together = [written(*case) for case in cases]
    for case, one in zip(reversed(cases), reversed(together), strict=True):
        assert written(*case) == one
    for case, one in zip(cases, together, strict=True):
        _frame.cache_clear()
        assert written(*case) == one


def test_little_is_remembered_of_many_topics() -> None:
    shape = shape_of(subscription())
    for number in range(1500):
        event = Notification("urn:1", "p", b"<a%d/>" % number, NOW, topic(f"t{number}"))
        render(event, shape, GATEWAY)
        payload_action(event.payload)
    assert _frame.cache_info().currsize <= 1024
    assert _tag_action.cache_info().currsize <= 1024
    before = _tag_action.cache_info()
    assert payload_action(b'<a b="' + b"x" * 600 + b'"/>') == "urn:dragoman:event:a"
    assert _tag_action.cache_info() == before


# Payloads of any kind, on all ways.


def same_meaning(published: etree._Element, received: etree._Element) -> None:
    """Equal in exclusive canonical form, and every prefix that is spoken of means what it meant."""
    assert canonical(published) == canonical(received)
    text = etree.tostring(received, encoding="unicode", with_tail=False)
    for before, after in zip(scopes(published), scopes(received), strict=True):
        for prefix, uri in before.items():
            # In the middle of urn:s:a, s is no prefix, nor behind what is no ASCII.
            if prefix and re.search(rf"(?<![^:]:)(?<![\w\x80-\U0010ffff]){prefix}:\w", text):
                assert (after.get(prefix) or "") == (uri or "")
        if not before.get(None):
            assert not after.get(None)


@settings(max_examples=examples(day=75, night=400))
@given(
    payload=elements(),
    outer=st.dictionaries(st.sampled_from(["p", "q", "z"]), st.sampled_from(URIS), max_size=2),
    default=st.sampled_from(["", "urn:default"]),
    wrapped=st.booleans(),
    wsa=st.sampled_from(Wsa),
    soap=st.sampled_from(Soap),
)
def test_any_payload_survives_any_way(
    payload: str, outer: dict[str, str], default: str, wrapped: bool, wsa: Wsa, soap: Soap
) -> None:
    scope = "".join(f" xmlns:{prefix}={quoted(uri)}" for prefix, uri in outer.items())
    scope += f' xmlns="{default}"' if default else ""
    inner = payload
    if wrapped:
        inner = (
            f'<notify:Notify xmlns:notify="{WSNT}"><notify:NotificationMessage><notify:Message>'
            f"{payload}</notify:Message></notify:NotificationMessage></notify:Notify>"
        )
    published = (
        f'<env:Envelope xmlns:env="{soap.value}"{scope}><env:Body>{inner}</env:Body></env:Envelope>'
    ).encode()
    root = etree.fromstring(published)
    original = root[0][0][0][0][0] if wrapped else root[0][0]
    if not wrapped and etree.QName(original).namespace == WSNT:
        return  # That would be an operation.
    (event,) = events(published)
    for version, raw in ((WSN, False), (WSN, True), (WSE, True)):
        octets = delivered(event, version, raw, soap=soap, wsa=wsa)
        child = body(octets)[0]
        received = child[0][-1][0] if version is WSN and not raw else child
        same_meaning(original, received)
        if raw and etree.QName(child).namespace == WSNT:
            continue
        (one,) = _received(octets)
        assert canonical(one.payload) == canonical(original)


@settings(max_examples=examples(day=50, night=200))
@given(payload=elements(), version=st.sampled_from(list(SPECS)), wsa=st.sampled_from(Wsa))
def test_any_payload_can_be_published(payload: str, version: Version, wsa: Wsa) -> None:
    original = etree.fromstring(payload)
    if version is WSE and etree.QName(original).namespace == WSNT:
        return
    spec = Spec(version, SPECS[version].soap, wsa)
    _, octets = write_publish(
        spec, to=GATEWAY, payload=payload.encode(), message_id="urn:m", topic="{urn:t}a/b"
    )
    (event,) = events(octets)
    assert (clark(event.topic), event.id) == ("{urn:t}a/b", "urn:m")
    assert canonical(event.payload) == canonical(original)


@pytest.mark.hypothesis  # At night with more of them.
def test_a_sample_of_real_documents(material: Path) -> None:
    seen = 0
    for path in sorted((material / "corpus").glob("*/*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in itertools.islice(lines, 0, 400, examples(day=80, night=20)):
                document = _document(json.loads(line))
                original = etree.fromstring(document.encode())
                _, octets = write_publish(
                    SPECS[WSN], to=GATEWAY, payload=document.encode(), message_id="urn:m"
                )
                (event,) = events(octets)
                for version, raw in ((WSN, False), (WSN, True), (WSE, True)):
                    same_meaning(original, payload_of(delivered(event, version, raw)))
                seen += 1
    assert seen > 10


def _document(record: object) -> str:
    """The XML in a record of the corpus: the longest of its texts that is some."""
    texts = [value for value in _strings(record) if value.lstrip().startswith("<")]
    text_ = max(texts, key=len)
    return text_[text_.index("?>") + 2 :] if text_.startswith("<?xml") else text_


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _strings(item)]
    return []


def test_a_reading_is_a_topic_and_a_payload() -> None:
    (received,) = _received(delivered(READING, WSN, False))
    assert isinstance(received.topic, Topic)
    assert received.subscription == subscription().manager
    assert received.message_id == delivery_id(READING, "public")


def test_filters_see_the_action_that_consumers_are_sent() -> None:
    """One that the publisher gave, or the one that is made of the payload's root element."""
    bare = Notification("1", "p", b'<o:R xmlns:o="urn:o"/>', NOW)
    assert filter_event_of(bare).action == "urn:o/R"
    assert filter_event_of(replace(bare, action="urn:own")).action == "urn:own"
    # What is no XML has none, which is found out only where a filter asks for it.
    garbage = filter_event_of(replace(bare, payload=b"no XML"))
    with pytest.raises((ValueError, etree.XMLSyntaxError)):
        _ = garbage.action
