"""Events in all their spellings, as payloads, and as calls again."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filters import Reason, parse_document
from mediation.grid_events import Event, Further, TypeName, read_payload, write_payload
from mediation.grid_events.events import LATEST, steps_of, topic_namespace, type_of_topic
from mediation.grid_events.types import MACHINE_UTILIZATION
from mediation.grid_events.v1 import SPECIFICATION
from mediation.model.calling import Calling, CallRules
from mediation.model.messages import Notification, Policy
from mediation.model.requests import EndpointRules, Publish
from mediation.model.versions import Soap, Version
from mediation.rendering import prepare, render
from tests.rigs.cases import for_each
from tests.rigs.grid_events import EVENTS, SPELLINGS, event_in, handle, sample
from tests.rigs.mediation import ARRIVAL, NOW, canonical, incoming, refused, subscription

STORM = Event(
    "http://example.org/weather",
    "storm.coast.Warning",
    "buoy7.example.org",
    1016000000123,
    41,
    "waves of <9> metres",
    "",
)
MACHINE = Event(
    "http://www.extreme.indiana.edu/soap/events/resdat#MachineUtilizationEvent",
    "resdata.machine.utilization",
    "node3.cluster.example.org",
    1016000000456,
    0,
    "",
    "desk-5",
    MACHINE_UTILIZATION.name,
    (Further("cpuUtilization", "0.25"), Further("memoryUsed", "7341056")),
)
MEANT = {
    "event": STORM,
    "derived": MACHINE,
    "by-reference": replace(MACHINE, number=None, message=None, handback=None),
    "untyped": Event(type="storm.coast", source="buoy7.example.org", timestamp=1016000000123),
}


@pytest.mark.parametrize("name", EVENTS)
@for_each("spelling", SPELLINGS)
def test_events_in_every_spelling(name: str, spelling: str) -> None:
    assert event_in(SPELLINGS[spelling](sample(name))) == MEANT[name]


def test_a_payload() -> None:
    expected = """
    <r:MachineUtilizationEvent xmlns:r="http://www.extreme.indiana.edu/soap/events/resdat/">
    <eventNamespace>http://www.extreme.indiana.edu/soap/events/resdat#MachineUtilizationEvent</eventNamespace>
    <eventType>resdata.machine.utilization</eventType>
    <source>node3.cluster.example.org</source>
    <timestamp>1016000000456</timestamp>
    <seqNo>0</seqNo>
    <message/>
    <handback>desk-5</handback>
    <cpuUtilization>0.25</cpuUtilization>
    <memoryUsed>7341056</memoryUsed>
    </r:MachineUtilizationEvent>"""
    expected = "".join(line.strip() for line in expected.splitlines())
    assert canonical(write_payload(MACHINE)) == canonical(expected.encode())


def test_a_notification() -> None:
    request = incoming(sample("derived")).request
    assert isinstance(request, Publish)
    (one,) = request.notifications
    said = "{http://www.extreme.indiana.edu/soap/events/resdat}resdata/machine/utilization"
    assert str(one.topic) == said
    assert one.time == datetime(2002, 3, 13, 6, 13, 20, 456000, UTC)
    assert one.id == ARRIVAL.fresh_id, "its publisher numbers none"
    assert request.answered


def test_repetitions_have_one_id() -> None:
    """The five fields of an event that is numbered; all else may differ."""

    def id_of(octets: bytes) -> str:
        request = incoming(octets).request
        assert isinstance(request, Publish)
        return request.notifications[0].id

    one = sample("event")
    assert id_of(one) == id_of(SPELLINGS["1999"](one)) == id_of(one.replace(b"waves", b"rain"))
    for field in (b"weather", b"Warning", b"buoy7", b"000123", b">41<"):
        assert id_of(one.replace(field, b">42<" if field == b">41<" else field[::-1])) != id_of(one)


def test_an_unknown_type_is_carried() -> None:
    octets = handle(
        "<eventType>lava</eventType><height xsi:type='xsd:double'>3.5</height>"
        "<crater href='#c'/><list xsi:type='enc:Array' enc:arrayType='xsd:string[999999999]'>"
        "<i>a</i><i>b</i></list>",
        "v:VolcanoEvent",
        behind="<c id='c' enc:root='0'><name>north</name></c>",
    ).replace(b"xmlns:m=", b"xmlns:v='urn:example:types' xmlns:m=")
    event = event_in(octets)
    assert event.type_name == TypeName("urn:example:types", "VolcanoEvent")
    assert [(field.name, field.text) for field in event.further] == [
        ("height", "3.5"),
        ("crater", None),
        ("list", "ab"),
    ]
    payload = etree.fromstring(write_payload(event))
    assert payload.tag == "{http://www.extreme.indiana.edu/soap/events}Event"
    assert payload.findtext("crater/name") == "north"
    (crater,) = payload.iter("crater")
    assert not crater.keys(), "no ids, no roots"
    assert event_in(_called(event)) == _sent(event)


def _sent(event: Event) -> Event:
    """*event* as a listener gets it: numbers of Java are never null."""
    further = tuple(field for field in event.further if field.text is not None or field.octets)
    numbered = replace(event, timestamp=event.timestamp or 0, number=event.number or 0)
    return replace(numbered, handback="back", further=further)


def test_an_unknown_type_may_be_refused() -> None:
    arrival = replace(ARRIVAL, rules=EndpointRules(calls=CallRules(known_types=True)))
    octets = handle("<eventType>lava</eventType>", "v:Volcano").replace(
        b"xmlns:m=", b"xmlns:v='urn:types' xmlns:m="
    )
    caught = refused(octets, arrival).refused
    assert (caught.reason, caught.names) == (Reason.EVENT_TYPE, ("{urn:types}Volcano",))
    array = handle("<message enc:arrayType='xsd:string[2]'><i>a</i></message>")
    assert refused(array, arrival).refused.reason is Reason.MESSAGE_INVALID
    assert event_in(sample("derived"), arrival) == MACHINE


@pytest.mark.parametrize(
    "fields",
    [
        "<timestamp>-1</timestamp>",
        f"<timestamp>{LATEST + 1}</timestamp>",
        "<timestamp>soon</timestamp>",
        "<seqNo>9223372036854775808</seqNo>",
        "<seqNo>1.5</seqNo>",
        "<source><host>a</host></source>",
        f"<eventType>{'a' * 1025}</eventType>",
        f"<eventType>{'.'.join('a' * 33)}</eventType>",
        f"<handback>{'é' * 513}</handback>",
        "<source href='#nowhere'/>",
        "<source href='http://elsewhere.example.org/'/>",
        "<source id='a' href='#b'/><message id='b' href='#a'/>",
        "<source id='a'>x</source><message id='a'>y</message>",
    ],
)
def test_values_that_are_none(fields: str) -> None:
    assert refused(handle(fields)).refused.reason is Reason.MESSAGE_INVALID


@pytest.mark.parametrize(
    ("text", "number"),
    [("000000000017", 17), ("+5", 5), (" 7\n", 7), ("-9223372036854775808", -(2**63))],
)
def test_numbers(text: str, number: int) -> None:
    assert event_in(handle(f"<seqNo>{text}</seqNo>")).number == number


def test_what_is_shared_is_copied_within_bounds() -> None:
    """A few objects that name each other many times do not become billions."""
    width = "".join("<x href='#o{0}'/>" for _ in range(10))
    objects = "".join(f"<o id='o{n}'>{width.format(n + 1)}</o>" for n in range(9))
    octets = handle("<x href='#o0'/>", behind=f"{objects}<o id='o9'>end</o>")
    assert refused(octets).refused.reason is Reason.MESSAGE_INVALID
    one = handle("<x href='#a'/>", behind="<a id='a'><b href='#a'/></a>")
    assert refused(one).refused.reason is Reason.MESSAGE_INVALID
    ids = "".join(f"<i id='i{n}'/>" for n in range(1001))
    assert refused(handle("", behind=ids)).refused.reason is Reason.MESSAGE_INVALID


def test_no_document_type() -> None:
    caught = refused(b"<!DOCTYPE a [<!ENTITY b 'c'>]>" + sample("event"))
    assert caught.refused.reason is Reason.DTD


# ---- inverses -----------------------------------------------------------------------------------

XML_TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\ufffe\uffff", exclude_categories=["Cc"])
    | st.sampled_from("\t\n\r"),
    max_size=20,
)
TEXT = st.none() | XML_TEXT.map(lambda text: text.strip(" \t\r\n"))
LONGS = st.none() | st.integers(-(2**63), 2**63 - 1)


def events_of(type_names: st.SearchStrategy[TypeName]) -> st.SearchStrategy[Event]:
    return st.builds(
        Event,
        TEXT | st.sampled_from(["http://a.example/b#c", "no uri", "a b#", "http://[", "#d"]),
        TEXT | st.sampled_from(["a.b", "..", "a..b", "1.2", "_x0041_.b", "\U000f0000.\U0001f600"]),
        TEXT,
        st.none() | st.integers(0, LATEST),
        LONGS,
        st.none() | XML_TEXT | st.just("]]>"),
        st.none() | XML_TEXT,
        type_names,
    )


BASE_EVENTS = events_of(
    st.sampled_from([Event().type_name, TypeName("urn:t", "T"), TypeName("", "Bare")])
)
MACHINES = st.builds(
    lambda event, cpu, memory: replace(
        event,
        further=tuple(
            Further(name, text)
            for name, text in (("cpuUtilization", cpu), ("memoryUsed", memory))
            if text is not None
        ),
    ),
    events_of(st.just(MACHINE_UTILIZATION.name)),
    TEXT,
    TEXT,
)


@given(BASE_EVENTS | MACHINES)
def test_payloads_are_read_as_they_were_written(event: Event) -> None:
    payload = write_payload(event)
    parse_document(payload)
    assert read_payload(payload) == event


def _called(event: Event, types: str = "schema", schema: str = "2001") -> bytes:
    """The call of a listener with *event*."""
    policy = Policy(calling=Calling("back", types, schema))
    assert SPECIFICATION.bodies is not None
    shape = SPECIFICATION.bodies.shape(Soap.V1_1, policy)
    one = replace(subscription(Version.GRID_EVENTS), policy=policy)
    notification = Notification("urn:1", "p", write_payload(event), NOW, event.topic)
    return render(notification, shape, "http://gateway.example.org/soap").fill(
        prepare(one), "urn:m"
    )


@given(
    BASE_EVENTS | MACHINES,
    st.sampled_from(["schema", "java"]),
    st.sampled_from(["2001", "2000", "1999"]),
)
def test_there_and_back(event: Event, types: str, schema: str) -> None:
    """An event to a payload, to a listener, and back, is the same: with the listener's handback,
    and numbers where Java has no null."""
    assert event_in(_called(event, types, schema)) == _sent(event)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1))
def test_types_are_topics_and_back(type_: str) -> None:
    event = Event(type=type_)
    assert event.topic is not None
    assert type_of_topic(event.topic) == type_


def test_topics() -> None:
    assert steps_of("a.1b._x0041_.é..") == (
        "a",
        "_x0031_b",
        "_x005F_x0041_",
        "é",
        "_x0000_",
        "_x0000_",
    )
    assert Event(namespace="urn:a").topic is None
    assert topic_namespace("#x") == "http://www.extreme.indiana.edu/soap/events"
    assert topic_namespace("a b#c") == "a%20b"
