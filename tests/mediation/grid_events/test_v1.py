"""Listeners are called as SoapRMI calls them."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from filters import Topic
from mediation.client import read_received
from mediation.grid_events import Generation, Port, TypeNames, port_reference, read_payload
from mediation.grid_events.events import write_fields
from mediation.grid_events.making import made_event
from mediation.grid_events.rpc import type_attributes
from mediation.grid_events.v1 import CallShape, identity_of
from mediation.model.calling import Calling
from mediation.model.facts import Fact
from mediation.model.messages import EndpointReference, Notification, Policy, Subscription
from mediation.model.requests import Rejected
from mediation.model.versions import Version, Wsa
from mediation.rendering import Recipient, prepare, render, shape_of
from tests.rigs.grid_events import LOCATION, event_in, lease, lease_in, sample
from tests.rigs.mediation import events, subscription, topic
from tests.rigs.payloads import elements

GATEWAY = "http://gateway.example.org/soap"


DESK = Port(LOCATION, "urn:desk")
JAVA = Calling("desk-5", "java")


def listening(calling: Calling = JAVA, port: Port = DESK) -> Subscription:
    one = replace(subscription(Version.GRID_EVENTS), consumer=port_reference(port))
    return replace(one, policy=Policy(calling=calling))


def called(one: Subscription, notification: Notification, number: int = 1) -> bytes:
    recipient = replace(prepare(one), number=number)
    return render(notification, shape_of(one), GATEWAY).fill(recipient, "urn:m")


EXPECTED = (
    "<SOAP-ENV:Envelope xmlns:SOAP-ENV='http://schemas.xmlsoap.org/soap/envelope/' "
    "xmlns:SOAP-ENC='http://schemas.xmlsoap.org/soap/encoding/' "
    "xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' "
    "xmlns:xsd='http://www.w3.org/2001/XMLSchema' "
    "SOAP-ENV:encodingStyle='http://schemas.xmlsoap.org/soap/encoding/'>"
    "<SOAP-ENV:Header><d:via xmlns:d='urn:dragoman:grid-events:1'>http://gateway.example.org/soap"
    "</d:via></SOAP-ENV:Header><SOAP-ENV:Body>"
    "<m:handleEvent xmlns:m='urn:desk'>"
    "<p1 xsi:type='n1:soaprmi.events.Event' xmlns:n1='urn:soaprmi-v11:temp-java-xml-type'>"
    "<eventNamespace xsi:type='xsd:string'>http://example.org/weather</eventNamespace>"
    "<eventType xsi:type='xsd:string'>storm.coast.Warning</eventType>"
    "<source xsi:type='xsd:string'>buoy7.example.org</source>"
    "<timestamp xsi:type='xsd:long'>1016000000123</timestamp>"
    "<seqNo xsi:type='xsd:long'>41</seqNo>"
    "<message xsi:type='xsd:string'>waves of &lt;9&gt; metres</message>"
    "<handback xsi:type='xsd:string'>desk-5</handback>"
    "</p1></m:handleEvent></SOAP-ENV:Body></SOAP-ENV:Envelope>"
)


def test_a_call() -> None:
    (one,) = events(sample("event"))
    assert called(listening(), one).decode() == EXPECTED
    recipient = prepare(listening())
    assert recipient.http_headers == (("SOAPAction", '"urn:desk#handleEvent"'),)
    headers = render(one, recipient.shape, GATEWAY).http_headers
    assert headers == (("Content-Type", "text/xml; charset=utf-8"),)


def test_a_derived_event() -> None:
    (one,) = events(sample("derived"))
    for types, name in (
        ("java", "n1:soaprmi.events.MachineUtilizationEvent"),
        ("schema", "n1:MachineUtilizationEvent"),
    ):
        octets = called(listening(Calling(types=types)), one)
        assert f"xsi:type='{name}'".encode() in octets
        assert b"<handback xsi:nil='1'/><cpuUtilization xsi:type='xsd:double'>0.25<" in octets
        assert event_in(octets) == replace(event_in(sample("derived")), handback=None)


def test_the_generation_of_the_subscriber() -> None:
    (one,) = events(sample("by-reference"))
    octets = called(listening(Calling(schema="1999")), one)
    assert b"xmlns:xsi='http://www.w3.org/1999/XMLSchema-instance'" in octets
    assert b"<message xsi:null='1'/><handback xsi:null='1'/>" in octets
    assert b"<seqNo xsi:type='xsd:long'>0</seqNo>" in octets
    assert b"2001" not in octets


def test_without_a_binding_name() -> None:
    (one,) = events(sample("event"))
    listener = listening(port=Port(LOCATION))
    octets = called(listener, one)
    assert b"<SOAP-ENV:Body><handleEvent><p1 " in octets and b"</p1></handleEvent><" in octets
    assert prepare(listener).http_headers == (("SOAPAction", '""'),)


def test_names_and_handbacks_cannot_break_out() -> None:
    (one,) = events(sample("event"))
    handback = "a'b\"c]]><d>&\r\nX-Header: 1"
    binding = "urn:a'b&c'/><!--"
    body = etree.fromstring(called(listening(Calling(handback), Port(LOCATION, binding[:9])), one))
    assert body[-1][0].tag == f"{{{binding[:9]}}}handleEvent"
    assert body[-1][0][0].findtext("handback") == handback
    quoted = prepare(listening(port=Port(LOCATION, 'urn:"x')))
    assert quoted.http_headers == (("SOAPAction", '""'),)
    for name in (binding, "a b", "urn:x\r\nX-Header: 1"):
        octets = lease().replace(b"urn:desk", name.encode().replace(b"<", b"&lt;"))
        with pytest.raises(Rejected):
            lease_in(octets)


def test_what_came_in_another_specification() -> None:
    payload = '<w:Storm xmlns:w="urn:weather">]]&gt; &amp; \U0001f300</w:Storm>'.encode()
    one = Notification(
        "urn:1", "p", payload, datetime(2026, 1, 2, tzinfo=UTC), topic("{urn:w}storms/_x0031_b")
    )
    event = event_in(called(listening(), one, number=12))
    assert event.base == (
        "urn:w",
        "storms.1b",
        GATEWAY,
        1767312000000,
        12,
        payload.decode(),
        "desk-5",
    )
    producer = EndpointReference("http://Camera.example.org:80/x", Wsa.V2005_08)
    bare = replace(one, topic=None, producer=producer)
    event = event_in(called(listening(), bare))
    assert (event.namespace, event.type, event.source) == (
        "urn:weather",
        "Storm",
        "camera.example.org",
    )
    assert event.number == 1


def test_what_looks_like_an_event_and_is_none() -> None:
    payload = (
        b'<e:Event xmlns:e="http://www.extreme.indiana.edu/soap/events"><seqNo>x</seqNo></e:Event>'
    )
    assert read_payload(payload) is None
    one = Notification("urn:1", "p", payload, datetime(2026, 1, 2, tzinfo=UTC))
    assert event_in(called(listening(), one)).message == payload.decode()


def test_what_an_event_has_passed() -> None:
    (one,) = events(sample("event"))
    passed = replace(one, properties={"dragoman_via": "http://a/ http://b/"})
    (again,) = events(called(listening(), passed))
    assert again.properties == {"dragoman_via": f"http://a/ http://b/ {GATEWAY}"}


def test_what_it_tells() -> None:
    assert Fact.TIME in shape_of(listening()).tells


def test_who_renews() -> None:
    """The same listener, filter and handback; not how they are written, nor what says nothing."""
    one = lease_in(lease())

    def identity(octets: bytes) -> str:
        asked = lease_in(octets)
        return identity_of(
            replace(
                subscription(Version.GRID_EVENTS),
                consumer=asked.consumer,
                filter=asked.filter,
                policy=Policy(calling=asked.calling),
            )
        )

    first = identity(lease())
    assert one.calling is not None
    assert first == identity(lease(milliseconds="1"))
    assert first == identity(lease().replace(b"<endpoint>", b"<userName>me</userName><endpoint>"))
    assert first == identity(lease().replace(b"<location>", b"\n <location> "))
    for other in (
        lease(handback="i"),
        lease(pattern="<eventType>a</eventType>"),
        lease().replace(b"urn:desk", b"urn:other"),
        lease().replace(b":4561", b":4562"),
        lease().replace(b"<endpoint>", b"<portType><uri>urn:p</uri></portType><endpoint>"),
    ):
        assert identity(other) != first


@pytest.mark.parametrize("types", ["java", "schema"])
def test_shapes_are_shared(types: str) -> None:
    one, other = listening(Calling("a", types)), listening(Calling("b", types), Port("http://x/"))
    assert shape_of(one) == shape_of(other)
    assert prepare(one) != prepare(other)


@settings(max_examples=50)
@given(
    payload=elements(),
    spaces=st.sampled_from(["", "\r\n", "\n", "&#13;", "]]&gt;"]),
    source=st.sampled_from(
        ["", "http://h.example.org/a?b&c<", "\x01", "<timestamp xsi:type='xsd:long'>"]
    ),
    types=st.sampled_from(TypeNames),
    generation=st.sampled_from(Generation),
    name=st.none() | st.sampled_from(["storms", "{urn:w&x}a/b", "a_x005F_b"]).map(topic),
)
def test_what_is_made_of_others_is_written_as_any_event(
    payload: str,
    spaces: str,
    source: str,
    types: TypeNames,
    generation: Generation,
    name: Topic | None,
) -> None:
    octets = f"<e:e xmlns:e='urn:e'>{payload}{spaces}</e:e>".encode()
    notification = Notification("1", "p", octets, datetime(1969, 1, 1, 0, 0, 0, 1999, UTC), name)
    shape = CallShape(types, generation)
    event = replace(made_event(notification, source), number=77)
    fields = write_fields(event, generation)[0]
    expected = (
        f"<p1 {type_attributes(event, types)}>{fields}</p1></SOAP-ENV:Body></SOAP-ENV:Envelope>"
    )
    rendered = shape.render(notification, source).fill(Recipient(shape, number=77), "urn:m")
    assert rendered.endswith(expected.encode())


@pytest.mark.parametrize("name", [None, "storms", "{urn:w}storms/_x0031_b", "{urn:w}a/{urn:v}b"])
def test_what_a_gateway_made_an_event_of_is_read_as_it_was(name: str | None) -> None:
    payload = '<w:Storm xmlns:w="urn:weather">]]&gt; &amp; \U0001f300</w:Storm>'.encode()
    said = None if name is None else topic(name)
    one = Notification("urn:1", "p", payload, datetime(2026, 1, 2, tzinfo=UTC), said)
    octets = called(listening(), one)
    (read,) = events(octets)
    assert (read.topic, read.payload) == (said, payload)
    received = read_received(octets)
    assert isinstance(received, tuple)
    assert [(each.topic, each.payload) for each in received] == [(said, payload)]


def test_an_empty_namespace_is_that_of_a_plain_topic() -> None:
    one = Notification("1", "p", b"<w:W xmlns:w='urn:w'/>", datetime(2026, 1, 2, tzinfo=UTC))
    event = made_event(replace(one, topic=topic("storms")), "")
    assert (event.namespace, event.topic) == ("", topic("storms"))
    said = replace(event, namespace=None).topic
    assert said is not None
    assert said.steps[0].namespace == "http://www.extreme.indiana.edu/soap/events"
