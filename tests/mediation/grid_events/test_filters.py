"""Filter by example: what a pattern takes, row by row, decided by the engine itself."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import EVERYTHING, FilterSet, compile, parse_clark
from mediation.grid_events import EVENT_TYPES, Event, Further, TypeName, filter_of, write_payload
from mediation.grid_events.types import MACHINE_UTILIZATION
from mediation.model.messages import Notification
from mediation.rendering import filter_event_of
from tests.rigs.cases import for_each
from tests.rigs.grid_events import lease, lease_in
from tests.rigs.mediation import NOW
from tests.rigs.pace import growth

NAMESPACE = "http://example.org/lab"
VOLCANO = TypeName("urn:example:types", "VolcanoEvent")
JAVA = TypeName("urn:soaprmi-v11:temp-java-xml-type", "org.example.VolcanoEvent")


def takes(pattern: Event | None, one: Event) -> bool:
    """Whether *pattern* takes *one*, in the set of filters and by the compiled filter alike."""
    seen = filter_event_of(Notification("urn:1", "p", write_payload(one), NOW, one.topic))
    filter_ = filter_of(pattern)
    every = FilterSet[str]()
    every.add("key", filter_)
    found = every.match(seen) == ["key"]
    assert found is compile(filter_).matches(seen)
    return found


def machine(**fields: str) -> Event:
    further = tuple(Further(name, text) for name, text in fields.items())
    return Event(type_name=MACHINE_UTILIZATION.name, further=further)


def kept(name: TypeName, field: str) -> Event:
    octets = f"<size xmlns:x='http://www.w3.org/2001/XMLSchema'>{field}</size>"
    return Event(type_name=name, further=(Further("size", field, octets.encode()),))


TYPE = "resdata.machine"
ROWS: dict[str, list[tuple[Event | None, Event, bool]]] = {
    "none": [(None, Event(), True), (None, Event(type="a"), True)],
    "empty fields": [
        (Event(), Event(type="a", source="b"), True),
        (Event("", "", "", 0, 0, ""), Event(type="a", source="b"), True),
    ],
    "namespace": [
        (Event(namespace=NAMESPACE), Event(namespace=NAMESPACE), True),
        (Event(namespace=NAMESPACE), Event(namespace=NAMESPACE, type="a"), True),
        (Event(namespace=NAMESPACE), Event(namespace=f"{NAMESPACE}2"), False),
        (Event(namespace=NAMESPACE), Event(namespace=f"{NAMESPACE}#Run"), False),
        (Event(namespace=f"{NAMESPACE}#Run"), Event(namespace=f"{NAMESPACE}#Run"), True),
        (Event(namespace=f"{NAMESPACE}#Run"), Event(namespace=NAMESPACE), False),
        (Event(namespace=NAMESPACE), Event(), False),
        (Event(NAMESPACE, TYPE), Event(NAMESPACE, "resdata.machine.load"), True),
        (Event(NAMESPACE, TYPE), Event("urn:other", TYPE), False),
        (Event(NAMESPACE, TYPE), Event(f"{NAMESPACE}#a", TYPE), False),
        (Event('it\'s "no" URI', TYPE), Event('it\'s "no" URI', TYPE), True),
    ],
    "type": [
        (Event(type=TYPE), Event(type=TYPE), True),
        (Event(type=TYPE), Event(type="resdata.machine.utilization"), True),
        (Event(type=TYPE), Event(NAMESPACE, "resdata.machine.utilization.now"), True),
        (Event(type=TYPE), Event(type="resdata.machinery"), False),
        (Event(type=TYPE), Event(type="resdata"), False),
        (Event(type=TYPE), Event(type="Resdata.machine"), False),
        (Event(type=TYPE), Event(), False),
        (Event(type="1 a..b"), Event(type="1 a..b.c"), True),
        (Event(type="a."), Event(type="a.b"), False),
    ],
    "source": [
        (Event(source="Node.Example.org"), Event(source="node.example.ORG"), True),
        (Event(source="node.example.org"), Event(source="a.node.example.org"), False),
        (Event(source=".Example.org"), Event(source="node.example.ORG"), True),
        (Event(source=".example.org"), Event(source="example.org"), False),
        (Event(source=".example.org"), Event(source="badexample.org"), False),
        (Event(source=".example.org"), Event(source=".example.org.net"), False),
        (Event(source="É'\"x"), Event(source="é'\"X"), True),
        (Event(source="a"), Event(), False),
    ],
    "message": [
        (Event(message='it\'s "it"'), Event(message='it\'s "it"'), True),
        (Event(message="a"), Event(message=" a"), False),
    ],
    "numbers": [
        (Event(timestamp=17), Event(timestamp=17), True),
        (Event(timestamp=17), Event(timestamp=18), False),
        (Event(timestamp=0, number=0), Event(timestamp=18, number=3), True),
        (Event(number=-3), Event(number=-3), True),
        (Event(number=3), Event(), False),
    ],
    "handback": [(Event(handback="a"), Event(handback="b"), True)],
    "derived type": [
        (machine(), machine(cpuUtilization="1"), True),
        (machine(), Event(), False),
        (machine(), Event(type_name=VOLCANO), False),
        (Event(), machine(), True),
        (Event(type_name=VOLCANO), Event(type_name=VOLCANO), True),
        (Event(type_name=VOLCANO), Event(type_name=TypeName("urn:x", "VolcanoEvent")), False),
        (Event(type_name=VOLCANO), Event(type_name=TypeName(VOLCANO[0], "Other")), False),
        (Event(type_name=VOLCANO), Event(), False),
        (Event(type_name=JAVA), Event(type_name=JAVA._replace(local="a.b.VolcanoEvent")), True),
        (Event(type_name=JAVA), Event(type_name=JAVA._replace(local="VolcanoEvent")), True),
        (Event(type_name=JAVA), Event(type_name=JAVA._replace(local="a.MyVolcanoEvent")), False),
    ],
    "further fields": [
        (machine(cpuUtilization="0.88"), machine(cpuUtilization="0.88"), True),
        (machine(cpuUtilization="0.88"), machine(cpuUtilization="0.880"), False),
        (machine(cpuUtilization="0.0", memoryUsed="0"), machine(cpuUtilization="7"), True),
        (machine(cpuUtilization="1"), machine(), False),
        (kept(VOLCANO, "big"), kept(VOLCANO, "big"), True),
        (kept(VOLCANO, "big"), kept(VOLCANO, "small"), False),
        (kept(VOLCANO, "0"), kept(VOLCANO, "9"), True),
    ],
    "all together": [
        (Event(NAMESPACE, TYPE, ".org"), Event(NAMESPACE, TYPE, "a.org"), True),
        (Event(NAMESPACE, TYPE, ".org"), Event(NAMESPACE, TYPE, "a.net"), False),
    ],
}


@for_each(
    ("pattern", "one", "taken"),
    [row for rows in ROWS.values() for row in rows],
    ids=[f"{name} {at}" for name, rows in ROWS.items() for at in range(len(rows))],
)
def test_what_a_pattern_takes(pattern: Event | None, one: Event, taken: bool) -> None:
    assert takes(pattern, one) is taken


def test_what_came_in_another_specification() -> None:
    def taken(pattern: Event, topic: str) -> bool:
        payload = b'<w:Storm xmlns:w="urn:weather"/>'
        seen = filter_event_of(Notification("urn:1", "p", payload, NOW, parse_clark(topic)))
        return compile(filter_of(pattern)).matches(seen)

    assert taken(Event(type="storms"), "{urn:w}storms/coast")
    assert taken(Event("urn:w", "storms.coast"), "{urn:w}storms/coast")
    assert not taken(Event("urn:w", "storm"), "{urn:w}storms/coast")
    assert taken(Event("urn:weather"), "{urn:w}storms/coast"), "that of its payload"
    assert not taken(Event(source="buoy7"), "{urn:w}storms/coast")


def test_it_is_no_loop() -> None:
    """A pattern becomes expressions that the engine knows, and nothing else."""
    found = filter_of(replace(machine(memoryUsed="1"), namespace=NAMESPACE, type=TYPE, number=2))
    assert (len(found.topics), len(found.contents), found.others) == (1, 4, ())
    assert filter_of(None) == filter_of(Event()) == EVERYTHING


def test_patterns_of_messages() -> None:
    assert lease_in(lease()).filter == EVERYTHING
    pattern = "<eventType>a.b</eventType><seqNo>0</seqNo><source xsi:nil='true'/>"
    assert lease_in(lease(pattern=pattern)).filter == filter_of(Event(type="a.b"))


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=8).map(
    lambda text: text.strip(" ")
)


@given(TEXTS, TEXTS, TEXTS.filter(lambda text: not text.startswith(".")), TEXTS)
def test_an_event_is_an_example_of_itself(
    namespace: str, type_: str, source: str, message: str
) -> None:
    one = Event(namespace, type_, source, 5, 7, message)
    assert takes(one, one)


def test_every_known_type_can_be_a_pattern() -> None:
    for name in EVENT_TYPES:
        assert takes(Event(type_name=name), Event(type_name=name))


@pytest.mark.parametrize("text", ["{}x", "{}.x", ".{}x", "0.{}x", "0e{}x"])
def test_a_long_text_is_soon_seen_to_be_no_zero(text: str) -> None:
    def filter_with(size: int) -> None:
        filter_of(Event(further=(Further("extra", text.format("0" * size)),)))

    assert growth(filter_with, 4000) < 3
