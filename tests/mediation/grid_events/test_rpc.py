"""Calls: how they are known, what their parameters are, and what is answered."""

from dataclasses import replace
from datetime import timedelta

import pytest
from lxml import etree

from filters import Reason
from mediation.faults import write_fault
from mediation.grid_events import VIA_PROPERTY, Event, filter_of
from mediation.model.calling import Calling, CallRules
from mediation.model.expiry import Duration, Expiry
from mediation.model.messages import Lease, Policy
from mediation.model.requests import (
    Context,
    EndpointRules,
    Operation,
    Publish,
    Published,
    Subscribed,
)
from mediation.model.versions import Soap, Version
from mediation.responses import write_response
from tests.rigs.grid_events import (
    EVENTS,
    SPELLINGS,
    call,
    event_in,
    handle,
    lease,
    lease_in,
    sample,
)
from tests.rigs.mediation import ARRIVAL, NOW, events, incoming, refused, subscription


@pytest.mark.parametrize("name", EVENTS)
def test_what_is_called_decides(name: str) -> None:
    """Not the namespace of the method, nor the SOAPAction."""
    arrival = replace(ARRIVAL, http_action="urn:other#subscribeLease")
    context = incoming(sample(name).replace(b"urn:example:listener", b"urn:x"), arrival).context
    assert (context.version, context.operation) == (Version.GRID_EVENTS, Operation.PUBLISH)
    assert context.wsa is None


def test_a_message_with_an_action_is_none() -> None:
    wsa = "http://www.w3.org/2005/08/addressing"
    header = f"<a:Action xmlns:a='{wsa}'>urn:handle</a:Action>"
    context = incoming(handle("<eventType>a</eventType>", header=header)).context
    assert context.version is None, "a bare event"


def test_soap_1_2_is_refused_in_1_1() -> None:
    octets = sample("event").replace(Soap.V1_1.value.encode(), Soap.V1_2.value.encode())
    rejected = refused(octets)
    assert rejected.refused.reason is Reason.VERSION_MISMATCH
    status, _, fault = write_fault(rejected.refused, rejected.context, now=NOW, message_id="urn:f")
    assert status == 500
    root = etree.fromstring(fault)
    assert etree.QName(root).namespace == Soap.V1_1.value
    assert (root.findtext(".//faultcode") or "").endswith(":VersionMismatch")


def test_mandatory_headers() -> None:
    """Those for us, or for the next one, are refused; others are ignored."""
    block = "<x:y xmlns:x='urn:x' s:mustUnderstand='1'{}/>"
    next_ = " s:actor='http://schemas.xmlsoap.org/soap/actor/next'"
    for actor in ("", next_):
        caught = refused(handle("", header=block.format(actor))).refused
        assert (caught.reason, caught.names) == (Reason.NOT_UNDERSTOOD, ("{urn:x}y",))
    event_in(handle("", header=block.format(" s:actor='urn:another'")))
    event_in(handle("", header=block.replace("'1'", "'0'").format("")))


@pytest.mark.parametrize(
    "names",
    [
        ("listener", "filter", "leaseDuration", "handback"),
        ("p1", "p2", "p3", "p4"),
        ("a", "b", "c", "d"),
        ("p0", "filter", "x", "handback"),
    ],
)
def test_parameters(names: tuple[str, ...]) -> None:
    octets = lease(pattern="<eventType>a</eventType>").decode()
    for old, new in zip(("listener", "filter", "leaseDuration", "handback"), names, strict=True):
        octets = octets.replace(f"<{old}>", f"<{new}>").replace(f"</{old}>", f"</{new}>")
    request = lease_in(octets.encode())
    assert request.filter == filter_of(Event(type="a"))
    assert request.calling == Calling("h")


@pytest.mark.parametrize(
    ("numbered", "swapped"), [("p", False), ("", True)], ids=["numbers", "names"]
)
def test_parameters_in_another_order(numbered: str, swapped: bool) -> None:
    """GSOAP leaves parameters without a value out, so that places do not count there."""
    listener, filter_, duration, handback = (
        ("p1", "p2", "p3", "p4")
        if numbered
        else ("listener", "filter", "leaseDuration", "handback")
    )
    parts = [
        f"<{duration}>60000</{duration}>",
        f"<{listener}><endpoint><location>http://a.example.org/</location></endpoint></{listener}>",
    ]
    request = lease_in(call("subscribeLease", "".join(parts if swapped else reversed(parts))))
    assert request.consumer.address == "http://a.example.org/"
    assert request.calling == Calling()
    assert request.filter == filter_of(None), (filter_, handback)


@pytest.mark.parametrize(
    "octets",
    [
        call("handleEvent", ""),
        call("handleEvent", "<p1 xsi:nil='1'/>"),
        call("subscribeLease", ""),
        lease().replace(b"<listener>", b"<listener xsi:nil='1'>"),
        call("subscribeLease", "<p1><endpoint><location>http://a/</location></endpoint></p1>"),
        lease(milliseconds="soon"),
        lease(handback="x" * 1025),
        handle("", type_="undeclared:Event"),
        handle("", type_="ev:"),
    ],
)
def test_calls_that_are_none(octets: bytes) -> None:
    rejected = refused(octets)
    assert rejected.refused.reason is Reason.MESSAGE_INVALID
    assert rejected.context.version is Version.GRID_EVENTS
    _, _, fault = write_fault(rejected.refused, rejected.context, now=NOW, message_id="urn:f")
    assert (etree.fromstring(fault).findtext(".//faultcode") or "").endswith(":Client")


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        (1, 10_000),
        (9_999, 10_000),
        (60_000, 60_000),
        (86_400_001, 86_400_000),
        (2**63 - 1, 86_400_000),
        (0, 600_000),
        (-5, 600_000),
    ],
)
def test_leases(asked: int, granted: int) -> None:
    """No duration is refused."""
    expires = lease_in(lease(milliseconds=str(asked))).expires
    lasting = Duration(0, timedelta(milliseconds=granted))
    assert expires == Expiry(duration=lasting, best_effort=True)


def test_leases_of_an_endpoint() -> None:
    rules = EndpointRules(calls=CallRules(lease=7, shortest=5, longest=9))
    for asked, granted in ((0, 7), (1, 5), (100, 9)):
        octets = lease(milliseconds=str(asked))
        expires = lease_in(octets, replace(ARRIVAL, rules=rules)).expires
        assert expires.duration == Duration(0, timedelta(milliseconds=granted))


@pytest.mark.parametrize(("spelling", "schema"), [("as it is", "2001"), ("1999", "1999")])
def test_how_a_listener_wants_to_be_called(spelling: str, schema: str) -> None:
    calling = lease_in(SPELLINGS[spelling](sample("subscribe-lease"))).calling
    assert calling == Calling("desk-5", "java", schema)
    assert lease_in(lease()).calling == Calling("h", "schema", "2001")


def _context(octets: bytes) -> Context:
    return incoming(octets).context


def test_answers() -> None:
    _, octets = write_response(Published("urn:1"), _context(sample("event")), message_id="urn:m")
    (answer,) = etree.fromstring(octets)[0]
    assert answer.tag == "{urn:example:listener}handleEventResponse"
    assert len(answer) == 0 and not answer.text
    _, octets = write_response(Published("urn:1"), _context(sample("untyped")), message_id="urn:m")
    assert etree.fromstring(octets)[0][0].tag == "handleEventResponse"


@pytest.mark.parametrize(
    ("calling", "type_"),
    [
        (Calling(types="java"), "{urn:soaprmi-v11:temp-java-xml-type}soaprmi.events.EventLease"),
        (
            Calling(types="schema", schema="1999"),
            "{http://www.extreme.indiana.edu/soap/events}EventLease",
        ),
    ],
)
def test_the_answer_with_a_lease(calling: Calling, type_: str) -> None:
    one = replace(
        subscription(Version.GRID_EVENTS),
        lease=Lease(NOW, NOW + timedelta(seconds=45)),
        policy=Policy(calling=calling),
    )
    context = _context(sample("subscribe-lease"))
    _, octets = write_response(Subscribed(one, NOW), context, message_id="urn:m")
    (answer,) = etree.fromstring(octets)[0]
    assert answer.tag == "{http://channel.example.org:4566/channel}subscribeLeaseResponse"
    returned = answer.find("return")
    assert returned is not None
    assert returned.findtext("leaseDuration") == "45000"
    xsi = f"{{http://www.w3.org/{calling.schema}/XMLSchema-instance}}type"
    prefix, _, local = (returned.get(xsi) or "").partition(":")
    assert f"{{{returned.nsmap[prefix]}}}{local}" == type_


VIA = "<d:via xmlns:d='urn:dragoman:grid-events:1'>{}</d:via>"


def test_what_was_passed() -> None:
    passed = [f"http://channel{n}.example.org/soap" for n in range(8)]
    (one,) = events(handle("", header=VIA.format("\n ".join(passed))))
    assert one.properties == {VIA_PROPERTY: " ".join(passed)}
    assert not one.headers, "the block is for us"
    caught = refused(handle("", header=VIA.format(" ".join(["http://a/"] * 9)))).refused
    assert caught.reason is Reason.LOOP
    long = refused(handle("", header=VIA.format("http://a/" + "a" * 1024))).refused
    assert long.reason is Reason.MESSAGE_INVALID


def test_the_fault_of_an_unknown_type() -> None:
    rules = EndpointRules(calls=CallRules(known_types=True))
    octets = handle("", "v:Volcano").replace(b"xmlns:m=", b"xmlns:v='urn:types' xmlns:m=")
    rejected = refused(octets, replace(ARRIVAL, rules=rules))
    for status in (500, 200):
        told, _, fault = write_fault(
            rejected.refused,
            rejected.context,
            now=NOW,
            message_id="urn:f",
            status_of_calls=status,
        )
        assert told == status
        named = etree.fromstring(fault).find(
            ".//detail/{urn:dragoman:grid-events:1}UnknownEventType"
        )
        assert named is not None
        assert named.text == "{urn:types}Volcano"


def test_one_call_is_one_event() -> None:
    request = incoming(sample("event")).request
    assert isinstance(request, Publish)
    assert len(request.notifications) == 1
