"""Events of the gateway itself: told to who may read and asks for them, and never about themselves."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lxml import etree

from adapters import AdapterState
from filters import Expression, Filter, parse_clark
from gateway.identities.file_editing import add_key, add_user, create_identities
from gateway.observing.system_events import (
    AWAY,
    BACK,
    MOST,
    TOPICS,
    SystemEvents,
    asks_for_system_topics,
    write_event,
)
from gateway.security.principals import owner_in
from gateway.subscriptions.system_topics import SystemTopics
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.messages import Notification
from mediation.names import DRAGOMAN_SYSTEM
from tests.conftest import ROOT
from tests.rigs.cloudevents import event, publish
from tests.rigs.consumers import Consumer, Consumers, accept, status
from tests.rigs.envelopes import FULL, WSE, Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.system_events import EVERY, system_event
from tests.rigs.waiting import until

SPEAKER = Speaker()
RULES = """
[[rights]]
who = ["user:reader"]
may = ["read", "subscribe"]

[[rights]]
who = ["user:other"]
may = ["subscribe"]
"""
PAGE = (ROOT / "docs" / "system-events.md").read_text()
SCHEMA = etree.XMLSchema(etree.fromstring(PAGE.partition("```xml\n")[2].partition("```")[0]))


async def listen(run: Running, consumer: Consumer) -> None:
    """Subscribe *consumer* to all events of the gateway."""
    await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(consumer.url, filter=EVERY, raw=True))


async def next_event(consumer: Consumer) -> tuple[str, dict[str, str]]:
    """The kind and the fields of the next event."""
    return system_event((await consumer.next()).body)


async def test_the_life_of_a_subscription_is_told(tmp_path: Path) -> None:
    async with running(tmp_path, retry_delays=[0.2]) as run, Consumers() as consumers:
        heard, other = consumers.add(), consumers.add()
        await listen(run, heard)
        other.behaviour = status(503)
        path = await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(other.url))
        kind, created = await next_event(heard)
        assert (kind, created["consumer"], created["spec"]) == (
            "subscription/created",
            other.url.rpartition("/")[0],
            "wse-2004-08",
        )
        await run.ask(SPEAKER, f'<e:Renew xmlns:e="{WSE}"/>', path)
        kind, renewed = await next_event(heard)
        assert (kind, renewed["subscription"]) == ("subscription/renewed", created["subscription"])
        await run.publish("<a/>")
        kind, failing = await next_event(heard)
        assert (kind, failing["error"]) == (
            "subscription/failing",
            "answered 503 Service Unavailable",
        )
        other.behaviour = accept
        kind, recovered = await next_event(heard)
        assert (kind, int(recovered["failures"]) > 0) == ("subscription/recovered", True)
        other.behaviour = status(400)
        await run.publish("<secret/>")
        died = dict([await next_event(heard), await next_event(heard)])
        assert sorted(died) == ["deadletter", "subscription/failing"]
        assert died["deadletter"]["reason"] == "rejected"
        await run.ask(SPEAKER, f'<e:Unsubscribe xmlns:e="{WSE}"/>', path)
        kind, ended = await next_event(heard)
        assert (kind, ended["why"]) == ("subscription/ended", "unsubscribed")
        assert not any(b"secret" in one.body for one in heard.received)


async def test_nothing_is_told_of_who_hears_it(tmp_path: Path) -> None:
    async with running(tmp_path, retry_delays="none") as run, Consumers() as consumers:
        heard, deaf, ordinary, everything = (consumers.add() for _ in range(4))
        deaf.behaviour = status(400)
        await listen(run, deaf)
        await listen(run, heard)  # Neither is told of the other's beginning.
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(everything.url))
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(ordinary.url))
        kinds = [await next_event(heard) for _ in range(2)]
        assert {kind for kind, _ in kinds} == {"subscription/created"}
        await run.quiet()  # The deaf one failed, and has dead letters, of which nobody is told.
        assert heard.waiting == 0 and not everything.received


async def test_strangers_get_none(tmp_path: Path) -> None:
    async with running(tmp_path, trusted=[]) as run, Consumers() as consumers:
        answer = await run.ask(SPEAKER, SPEAKER.wsn_subscribe(consumers.add().url, filter=EVERY))
        assert answer.status == 403
        assert b"right to read" in answer.body


async def test_nobody_else_publishes_there(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumers() as consumers:
        heard = consumers.add()
        await listen(run, heard)
        answer = await publish(run, event(topic=str(AWAY)))
        assert answer.status == 403 and b"gateway itself" in answer.body
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(consumers.add().url))
        assert (await next_event(heard))[0] == "subscription/created"


async def test_events_are_lost_rather_than_waited_for() -> None:
    events = SystemEvents("urn:gateway")
    events.tell(AWAY)
    assert events.lost == 0  # Nobody wants them.
    events.wanted = True
    for _ in range(MOST + 3):
        events.tell(AWAY, error="refused")
    [sample] = events.metrics()
    assert sample.values == {("told",): 0, ("lost",): 3}


async def test_one_that_cannot_be_delivered_does_not_stop_the_others() -> None:
    events = SystemEvents("urn:gateway")
    events.wanted = True
    events.tell(AWAY)
    events.tell(BACK)
    taken: asyncio.Queue[Notification] = asyncio.Queue()

    async def take(notification: Notification, _: str) -> None:
        if notification.topic == AWAY:
            raise ValueError("refused")
        taken.put_nowait(notification)

    work = asyncio.create_task(events.run(take))
    came = asyncio.create_task(taken.get())
    await asyncio.wait([work, came], return_when=asyncio.FIRST_COMPLETED)
    assert came.done() and not work.done()
    work.cancel()
    await asyncio.wait([work])
    [sample] = events.metrics()
    assert sample.values == {("told",): 1, ("lost",): 1}


@pytest.mark.parametrize("topic", TOPICS, ids=str)
def test_payloads_are_xml_whatever_is_in_them(topic: object) -> None:
    assert str(topic).startswith(f"{{{DRAGOMAN_SYSTEM}}}")
    wild = "\x00\x1b]&<a b='\"'>\ufffe\udc80" + "x" * 10_000
    fields = {"error": wild, "nothing": None, "number": 3}
    written = write_event(parse_clark(str(topic)), datetime.now(UTC), fields)
    found = etree.fromstring(written)
    assert SCHEMA.validate(found), SCHEMA.error_log
    assert [etree.QName(one).localname for one in found] == ["error", "number"]
    assert len(found[0].text or "") == 500


def test_who_asks_for_everything_does_not_ask_for_them() -> None:
    scope = (("sys", DRAGOMAN_SYSTEM),)
    assert not asks_for_system_topics(Filter())
    assert not asks_for_system_topics(Filter((Expression("//.", FULL),)))
    assert asks_for_system_topics(Filter((Expression("sys:adapter/*", FULL, scope),)))


async def test_who_may_read_gets_them(tmp_path: Path) -> None:
    file = tmp_path / "identities.toml"
    create_identities(file)
    for name in ("reader", "other"):
        add_user(file, name, None, [])
    file.write_text(file.read_text() + RULES)
    keys = {name: add_key(file, name) for name in ("reader", "other")}
    async with running(tmp_path / "data", identities=file) as run, Consumers() as consumers:
        answers = {}
        for name, key in keys.items():
            body = SPEAKER.wsn_subscribe(consumers.add().url, filter=EVERY)
            octets = SPEAKER.envelope(body, message_id=fresh_id())
            answers[name] = await run.post(octets, type=SPEAKER.type, authorization=f"Bearer {key}")
        assert {name: answer.status for name, answer in answers.items()} == {
            "reader": 200,
            "other": 403,
        }
        may_read = run.gateway.serving.site.asking.identification.may_read
        assert may_read("user:reader", "") and may_read("user:reader", "user:other")
        assert not may_read("user:reader", owner_in("acme", "user:x"))
        assert not may_read(owner_in("acme", "user:reader"), "")


async def test_the_broker_that_goes_and_comes_is_told(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    state = AdapterState(True, now)
    async with running(tmp_path) as run:
        events = SystemEvents("urn:gateway")
        events.wanted = True
        topics = SystemTopics(
            events,
            SubscriptionTable(),
            run.gateway.dispatchers,
            lambda *_: True,
            lambda: state,
            look=0.01,
        )
        told: list[Notification] = []

        async def take(notification: Notification, _: str) -> None:
            told.append(notification)

        works = [asyncio.create_task(topics.watch()), asyncio.create_task(events.run(take))]
        state = AdapterState(False, now, last_error="connection refused")
        await until(lambda: len(told) == 1)
        state = AdapterState(True, now)
        await until(lambda: len(told) == 2)
        for work in works:
            work.cancel()
        await asyncio.wait(works)
    assert [one.topic for one in told] == [AWAY, BACK]
    assert b"<error>connection refused</error>" in told[0].payload


def test_each_topic_is_on_the_page() -> None:
    rows = [line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert rows == ["/".join(step.name for step in topic.steps) for topic in TOPICS]
