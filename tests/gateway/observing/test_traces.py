"""What is remembered of messages: of the last ones, and within bounds."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from gateway.observing.traces import NAMED, MessageTraces, delivered_as
from mediation.model.messages import Notification
from mediation.rendering import delivery_id_of
from mediation.tenants import topic_in

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Subscriber:
    id: str


@dataclass
class Followed:
    notification: Notification
    resolved: list[tuple[Subscriber, str]] = field(default_factory=list)


def message(id_: str) -> Followed:
    return Followed(Notification(id_, "urn:publisher", b"<a/>", NOW))


def test_the_oldest_are_forgotten() -> None:
    traces = MessageTraces(kept=3)
    for number in range(5):
        traces.accepted(message(f"urn:{number}").notification, "somebody", 1.0)
    assert [trace.id for trace in traces.snapshot()] == ["urn:2", "urn:3", "urn:4"]
    assert traces.find("urn:1") == []


def test_tenants_are_remembered_no_longer_than_their_traces() -> None:
    traces = MessageTraces(kept=3)
    for number in range(20):
        one = replace(message("urn:a").notification, topic=topic_in(f"t{number}", None))
        traces.accepted(one, "somebody", 1.0)
        assert {one.tenant for one in traces.find("urn:a")} == set(traces._tenants)
    assert len(traces._tenants) == 3


def test_deliveries_are_counted_while_they_are_under_way_and_when_they_are_not() -> None:
    traces, one = MessageTraces(), message("urn:a")
    traces.matched(one, NAMED + 10)
    one.resolved += [(Subscriber(f"s{number}"), "delivered") for number in range(NAMED + 5)]
    [trace] = traces.find("urn:a")
    before = trace.ends()
    traces.settled(one)
    assert trace.message is None and trace.ends() == before
    ended, named = before
    assert ended == {"delivered": NAMED + 5} and len(named) == NAMED
    traces.delivered(one.notification, "held")
    traces.settled(one)  # Again: nothing is counted twice.
    assert trace.ends()[0] == {"delivered": NAMED + 6}


def test_a_message_is_found_by_each_of_its_ids() -> None:
    traces = MessageTraces()
    for number in (1, 2):
        one = message(f"urn:batch#{number}")
        traces.matched(one, 1)
        one.resolved.append((Subscriber("s"), "delivered"))
        traces.settled(one)
    assert [trace.id for trace in traces.find("urn:batch")] == ["urn:batch#1", "urn:batch#2"]
    assert [trace.id for trace in traces.find("urn:batch#2")] == ["urn:batch#2"]
    told = delivery_id_of("urn:publisher", "urn:batch#2", "s")
    assert [trace.id for trace in delivered_as(traces.snapshot(), told)] == ["urn:batch#2"]
