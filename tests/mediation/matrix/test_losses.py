"""The loss report is exact: what it names is really not there, and all else is."""

from dataclasses import replace
from datetime import timedelta

import pytest

from filters import DEFAULT_TOPIC, Step, Topic
from mediation.client import read_received
from mediation.matrix import NOTIFIED, PUBLISHING, Dialect, Fact, Loss, losses, lost_between
from mediation.model.messages import Attachment, EndpointReference, Notification, Packaging
from mediation.model.versions import Form, Soap, Version, Wsa
from mediation.specifications import SPECIFICATIONS
from tests.rigs.cases import for_each
from tests.rigs.matrix import (
    GATEWAY,
    decoded,
    delivered,
    facts_of,
    handed_over,
    messages,
    read_facts,
    source,
)
from tests.rigs.mediation import NOW, canonical, topic

CELLS = [
    pytest.param(one, other, id=f"{one.name} to {other.name}")
    for one in PUBLISHING
    for other in NOTIFIED
]
OF_EVENTS = frozenset(Fact) - {
    Fact.SEVERAL,
    Fact.SUBSCRIPTION,
    Fact.ATTACHMENTS,
    Fact.SIGNATURE,  # tests/mediation/event_signatures has signatures that are true.
}
MADE = {Fact.TOPIC_ELEMENT, Fact.ID, Fact.TIME, Fact.ATTRIBUTES}
"""Facts of the reading or of the form, where the publisher said nothing."""
RICH = Notification(
    "urn:uuid:1",
    "publisher",
    b'<o:Reading xmlns:o="http://ocean.example.org/ns">65</o:Reading>',
    NOW,
    topic("{http://weather.example.org/topics}storms/tropical"),
    "http://ocean.example.org/ns/Reading",
    EndpointReference(
        "http://buoy.example.org/",
        Wsa.V2004_08,
        (b'<b:Kind xmlns:b="urn:b">buoy</b:Kind>',),
        (b'<b:Number xmlns:b="urn:b">46042</b:Number>',),
    ),
    NOW + timedelta(hours=1),
    {"priority": "4"},
    (b'<x:Trace xmlns:x="urn:x">7</x:Trace>',),
)
EVENTS = [
    pytest.param(RICH, id="all"),
    pytest.param(Notification("urn:uuid:2", "p", b"<a/>", NOW), id="nothing"),
    pytest.param(replace(RICH, topic=topic("plain"), action=None), id="one level"),
    pytest.param(replace(RICH, topic=topic("a/b"), producer=None), id="no namespace"),
    pytest.param(replace(RICH, topic=topic("{urn:w}storms")), id="one level with a namespace"),
    *(
        pytest.param(replace(RICH, topic=Topic((Step(None, name),))), id=f"a topic named {name}")
        for name in ("a/b", "a/b/c")
    ),
    pytest.param(
        replace(
            RICH,
            producer=EndpointReference(
                "http://buoy.example.org/",
                Wsa.V2005_08,
                metadata=(
                    b'<wsa:Metadata xmlns:wsa="http://www.w3.org/2005/08/addressing">'
                    b'<m:m xmlns:m="urn:m"/></wsa:Metadata>',
                ),
            ),
        ),
        id="metadata",
    ),
    pytest.param(
        replace(
            RICH,
            topic=topic("storms"),
            topic_header=(
                b'<t:Topic xmlns:t="http://www.ibm.com/xmlns/stdwip/web-services/'
                b'WS-BaseNotification" xmlns:w="urn:w" Dialect="http://www.ibm.com/xmlns/stdwip/'
                b'web-services/WS-Topics/TopicExpression/simple">w:storms</t:Topic>'
            ),
        ),
        id="WS-Messenger's topic",
    ),
]


def check(event: Notification, dialect: Dialect, form: Form) -> tuple[Loss, ...]:
    """Render, read, and hold what was read against the report."""
    delivery = delivered(event, dialect, form)
    one = decoded(delivery, dialect)
    assert canonical(one.notification.payload) == canonical(event.payload)
    said, told = facts_of(event), read_facts(one, dialect)
    report = losses(event, dialect.shape(form), GATEWAY, tells=dialect.tells)
    lost = {loss.fact: loss for loss in report}
    assert len(lost) == len(report)
    # The source of a CloudEvent is named always.
    made = MADE if dialect.in_soap else MADE | {Fact.PRODUCER}
    for fact in OF_EVENTS:
        loss = lost.get(fact)
        if loss is None:
            assert said[fact] == told[fact] or (said[fact] is None and fact in made), fact
        else:
            # The fields of a call make an id, which may be that of the event.
            made_again = fact is Fact.ID and dialect.version is Version.GRID_EVENTS
            assert said[fact] != told[fact] or made_again, fact
            assert bool(loss.said) is (said[fact] is not None), fact
    for fact in (Fact.TOPIC, Fact.ACTION, Fact.PRODUCER):
        if fact in lost and lost[fact].read:
            assert told[fact] in (lost[fact].read, str(DEFAULT_TOPIC))
    return report


@for_each("target", NOTIFIED)
@pytest.mark.parametrize("event", EVENTS)
def test_what_is_reported_is_lost_and_nothing_else(event: Notification, target: Dialect) -> None:
    for form in target.forms:
        check(event, target, form)


@pytest.mark.parametrize("name", ["b:c", "a b", "*", "x|y", "/x", ">"])
def test_a_topic_that_no_expression_can_name_is_lost(name: str) -> None:
    """Names of WS-Messenger's topics and of brokers' may have any character."""
    event = replace(RICH, topic=Topic((Step(None, name),)))
    for target in NOTIFIED:
        if Fact.LEVELS not in target.tells or SPECIFICATIONS[target.version].bodies is not None:
            continue
        delivery = delivered(event, target, target.forms[-1])
        received = read_received(handed_over(delivery.octets, target))
        assert isinstance(received, tuple)
        read = received[0].topic
        (loss,) = (
            one
            for one in losses(event, target.shape(), tells=target.tells)
            if one.fact in (Fact.TOPIC, Fact.LEVELS)
        )
        assert (loss.said, loss.read) == (name, "" if read is None else str(read))


@for_each(("origin", "target"), CELLS)
def test_the_table_is_what_happens(origin: Dialect, target: Dialect) -> None:
    """Of a publication that says all that its dialect says, what the table names is lost."""
    for form_in in origin.forms:
        (event,) = source(origin, "storm", form_in)
        for form in target.forms:
            lost = {loss.fact for loss in check(event, target, form) if loss.said}
            events = OF_EVENTS - {Fact.TIME}
            assert lost - {Fact.TIME} == lost_between(origin, target) & events


@pytest.mark.parametrize("origin", PUBLISHING, ids=lambda one: one.name)
def test_what_publications_say_is_read(origin: Dialect) -> None:
    """The stored messages say all that their dialect can, and nothing that it cannot."""
    for form in origin.forms:
        (event,) = source(origin, "storm", form)
        said = {fact for fact, value in facts_of(event).items() if value is not None}
        wanted = origin.says - {Fact.SEVERAL, Fact.ATTACHMENTS, Fact.SIGNATURE}
        assert said - {Fact.TIME} == wanted


def test_several_events_become_messages_of_their_own() -> None:
    for origin in PUBLISHING:
        if Fact.SEVERAL not in origin.says:
            assert "several" not in messages(origin)
            continue
        events = source(origin, "several")
        assert len({event.id for event in events}) == len(events) == 2
        assert all(Fact.SEVERAL in lost_between(origin, target) for target in NOTIFIED)


def test_attachments_are_lost_where_none_are_read() -> None:
    event = replace(RICH, attachments=(Attachment("cid:1", "image/png", b"x"),))
    for target in NOTIFIED:
        shape = target.shape()
        for packaging in Packaging:
            report = losses(event, shape, packaging=packaging, tells=target.tells)
            lost = Fact.ATTACHMENTS in {loss.fact for loss in report}
            kept = packaging is not Packaging.NONE and Fact.ATTACHMENTS in target.tells
            assert lost is not kept
        written = target.in_soap and SPECIFICATIONS[target.version].bodies is None
        sent = written and target.fetching is None and not target.delivery.batched
        assert (Fact.ATTACHMENTS in target.tells) is sent


def test_a_report_says_what_was_said_and_what_stands_instead() -> None:
    bare = next(one for one in NOTIFIED if one.name == "wse-2004-08").shape(Soap.V1_2)
    event = Notification("urn:uuid:2", "p", b'<a xmlns="urn:a"/>', NOW)
    assert losses(event, bare) == (
        Loss(Fact.TOPIC, "", str(DEFAULT_TOPIC)),
        Loss(Fact.ACTION, "", "urn:a/a"),
        Loss(Fact.ID, "urn:uuid:2"),
        Loss(Fact.TIME, "2026-01-31T10:00:00+00:00"),
    )
    wrapped = next(one for one in NOTIFIED if one.name == "wsn-1.3").shape(Soap.V1_2)
    assert Loss(Fact.ACTION, "http://ocean.example.org/ns/Reading") in losses(RICH, wrapped)
    assert Loss(Fact.PRODUCER, "", GATEWAY) in losses(event, wrapped, GATEWAY)


def test_every_way_to_notify_is_in_the_table() -> None:
    rows = {getattr(one.shape(form), "wrapping", None) for one in NOTIFIED for form in one.forms}
    for specification in SPECIFICATIONS.values():
        if specification.notifications is None:
            continue
        for soap in Soap:
            for raw in (False, True):
                wrapping = specification.notifications.wrapping(soap, raw=raw, dialect=None)
                assert wrapping in rows, (specification.title, soap, raw)
