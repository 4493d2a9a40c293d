"""Order by key: messages of one key in order, and different keys side by side."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from gateway.delivery import Schedule
from gateway.store import waiting_deliveries
from gateway.store.waiting_deliveries import HeldRow
from mediation.order_keys import write_order_key
from tests.rigs.cloudevents import agreeing, event
from tests.rigs.cloudevents import publish as publish_event
from tests.rigs.consumers import (
    Connection,
    Consumers,
    Receipt,
    accept,
    consumers,
    hang,
    reset,
    status,
)
from tests.rigs.dispatching import Engine, FakeDelivery, engine, notification
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running
from tests.rigs.stores import on_each_store
from tests.rigs.waiting import until

SPEAKER = Speaker()
BY_DEVICE = "property:device"
PATIENT = Schedule(delays=(0.1,) * 100, probe=0.1)


@pytest_asyncio.fixture
async def sinks() -> AsyncIterator[Consumers]:
    async with consumers() as all_of_them:
        yield all_of_them


def publish(run: Engine, names: Iterable[str]) -> None:
    """Publish events with these names, whose keys are their letters."""
    for name in names:
        event = replace(notification(name), properties={"device": name[0]})
        run.deliveries.append(FakeDelivery(event))
        run.dispatcher.accept(run.deliveries[-1], run.entries)


class Devices:
    """A consumer that answers as is said of each key, and owes one answer of each at most."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.mute: set[str] = set()
        self.taken: list[str] = []
        self.owed: Counter[str] = Counter()
        self.most = 0
        self.waiting: list[tuple[Connection, str]] = []

    def __call__(self, connection: Connection, receipt: Receipt) -> None:
        key = receipt.number[0]
        self.owed[key] += 1
        assert self.owed[key] == 1, "two of one key at a time"
        self.most = max(self.most, self.owed.total())
        if key in self.mute:
            self.waiting.append((connection, receipt.number))
        else:
            asyncio.get_running_loop().call_soon(self.answer, connection, receipt.number)

    def answer(self, connection: Connection, name: str) -> None:
        self.owed[name[0]] -= 1
        if name[0] in self.away:
            connection.answer(503)
        else:
            if name not in self.taken:
                self.taken.append(name)
            connection.answer(202)

    def speak(self) -> None:
        self.mute.clear()
        for connection, name in self.waiting:
            self.answer(connection, name)
        self.waiting.clear()

    def have(self, key: str, number: int) -> bool:
        return len(self.of(key)) == number

    def of(self, key: str) -> list[str]:
        return [name for name in self.taken if name[0] == key]


def names(keys: str, count: int) -> list[str]:
    return [f"{key}{number}" for number in range(count) for key in keys]


@on_each_store
async def test_each_key_is_in_order_and_others_go_on(store_url: str, sinks: Consumers) -> None:
    """While one fails and another is silent, whose messages wait in the store; over a restart."""
    devices = Devices()
    consumer = sinks.add(devices)
    devices.away, devices.mute = {"a"}, {"b"}
    async with engine(store_url, PATIENT) as run:
        await run.subscribe(consumer.url, order_key=BY_DEVICE)
        publish(run, names("abcd", 25))
        for key in "cd":
            await until(partial(devices.have, key, 25))
            assert devices.of(key) == names(key, 25)
        assert devices.of("a") == devices.of("b") == []
        publish(run, names("e", 10))
        await until(lambda: devices.of("e") == names("e", 10))
        assert not run.dispatcher.outboxes.open_breakers
        devices.speak()
        await until(lambda: devices.of("b") == names("b", 25))
    assert devices.of("a") == []
    devices.away = set()
    async with engine(store_url, PATIENT) as run:
        publish(run, ["a25", "f0"])
        await run.at_rest(delivered=112, dead=0)
    assert devices.of("a") == names("a", 26)


async def test_healthy_keys_go_side_by_side_and_write_no_row(
    store_url: str, sinks: Consumers
) -> None:
    devices = Devices()
    consumer = sinks.add(devices)
    async with engine(store_url) as run:
        await run.subscribe(consumer.url, order_key=BY_DEVICE)
        for turn in range(10):
            publish(run, [f"{key}{turn}" for key in "abcde" for _ in range(1)])
            await run.settled()
        outbox = run.dispatcher.outboxes[run.entries[0]]
        assert not outbox.stored and outbox.keyed
        publish(run, names("xyz", 5))
        await run.at_rest(delivered=65)
    assert devices.most > 1
    assert all(devices.of(key) == names(key, 10) for key in "abcde")


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.nightly) for n in (2, 3))])
async def test_whatever_fails(store_url: str, sinks: Consumers, seed: int) -> None:
    """Each key in its order, none lost, and none twice but after trouble."""
    random = Random(seed)
    devices = Devices()

    def unsteady(connection: Connection, receipt: Receipt) -> None:
        key = receipt.number[0]
        devices.away = set("abcdef") if random.random() < 0.25 else set()
        if random.random() < 0.03 and not devices.owed[key]:
            reset(connection, receipt)
        else:
            devices(connection, receipt)

    consumer = sinks.add(unsteady)
    sent: list[str] = []
    for turn in range(3):
        async with engine(store_url, Schedule(delays=(0.02,) * 300, probe=0.02)) as run:
            if turn == 0:
                await run.subscribe(consumer.url, order_key=BY_DEVICE)
            for _ in range(40):
                key = random.choice("abcdef")
                sent.append(f"{key}{sum(one[0] == key for one in sent)}")
                publish(run, [sent[-1]])
                if random.random() < 0.2:
                    await asyncio.sleep(0.01)
            if turn == 2:
                consumer.behaviour = devices
                devices.away = set()
                await run.at_rest(delivered=120, dead=0)
        devices.owed.clear()
    for key in "abcdef":
        assert devices.of(key) == [one for one in sent if one[0] == key]


@on_each_store
async def test_a_blocked_key_does_not_hide_others_in_the_store(
    store_url: str, sinks: Consumers
) -> None:
    """However much waits of it."""
    async with engine(store_url) as run:
        entry = await run.subscribe(sinks.add(accept).url, order_key=BY_DEVICE)
        work = []
        for number in range(1000):
            key = "z" if number == 999 else "a"
            row = HeldRow(entry.id, number + 1, 10, time.time(), due=1e12, order_key=key)
            work.append((notification(str(number)), row._replace(due=0.0 if key == "z" else 1e12)))
        await run.store.submit(partial(waiting_deliveries.hold, work=work))
        load = partial(
            waiting_deliveries.load,
            subscription=entry.id, limit=16, due=time.time(), under_way=frozenset(),
        )  # fmt: skip
        [(row, _)] = await run.store.submit(load)
        assert row.order_key == "z"
        nothing = partial(load, under_way=frozenset({row.position}))
        assert await run.store.submit(nothing) == []
        due = partial(
            waiting_deliveries.next_due, subscription=entry.id, under_way=frozenset({row.position})
        )
        assert await run.store.submit(due) == 1e12
        await run.end(entry)


async def test_whoever_asks_gets_it(tmp_path: Path) -> None:
    """In SOAP, and in CloudEvents, whose attributes are properties."""
    async with running(tmp_path) as run, consumers() as sinks:
        one, other = sinks.add(hang), sinks.add(agreeing(hang))
        key = write_order_key("topic")
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(one.url, raw=True, policy=key))
        config = {"order_key": "property:device"}
        body = json.dumps({"sink": other.url, "protocol": "HTTP", "config": config}).encode()
        answer = await run.request(
            "POST", "/events/subscriptions", body, content_type="application/json"
        )
        assert json.loads(answer.body)["config"]["order_key"] == "property:device"
        listed = json.loads((await run.api("GET", "/subscriptions")).body)["subscriptions"]
        assert {view["order_key"] for view in listed} == {"topic", "property:device"}
        for topic, device in (("a", "1"), ("a", "2"), ("b", "1")):
            await publish_event(run, event(device=device, topic=topic))
        await one.have(2)
        await other.have(3)  # The handshake, and two.
        assert (one.count, other.count) == (2, 3)
        for sink in (one, other):
            sink.behaviour = accept
        for connection in list(sinks.connections):
            connection.answer(202)
        await one.have(3)
        await other.have(4)
        await run.quiet()


@on_each_store
@pytest.mark.parametrize(
    ("keys", "attempts", "policy"),
    [
        ("abcdef", 1, {"order_key": BY_DEVICE}),
        ("a", 5, {"order_key": BY_DEVICE}),
        ("abcdef", 1, {"ordered": False}),
    ],
)
@pytest.mark.runs_once("it counts what operations do")
async def test_a_consumer_that_is_back_is_noticed_soon(
    store_url: str,
    sinks: Consumers,
    keys: str,
    attempts: int,
    policy: Mapping[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However late its messages are due after these attempts; nobody reads the store again and again meanwhile."""
    monkeypatch.setattr("gateway.delivery.backlog.LAST_PROBE", 0.05)
    consumer, loads = sinks.add(status(503)), 0

    def counted(*args: Any, **values: Any) -> Any:
        nonlocal loads
        loads += 1
        return load(*args, **values)

    load = waiting_deliveries.load
    monkeypatch.setattr(waiting_deliveries, "load", counted)
    delays = (*(0.02,) * (attempts - 1), *(3600.0,) * 9)
    async with engine(store_url, Schedule(delays=delays, probe=0.02)) as run:
        await run.subscribe(consumer.url, **policy)
        publish(run, names(keys, 6 // len(keys)))
        await consumer.have(8)
        assert loads < 3 * consumer.count
        consumer.behaviour = accept
        await run.at_rest(delivered=6, dead=0)


@on_each_store
async def test_after_a_restart_others_need_not_wait_for_the_first(
    store_url: str, sinks: Consumers
) -> None:
    consumer = sinks.add(accept)
    async with engine(store_url) as run:
        entry = await run.subscribe(consumer.url, order_key=BY_DEVICE)
        work = []
        for number, key in enumerate("aabb"):
            row = HeldRow(entry.id, number + 1, 10, time.time(), order_key=key)
            row = row._replace(attempts=1, answered=1, due=1e12) if number == 0 else row
            work.append((notification(f"{key}{number}"), row))
        await run.store.submit(partial(waiting_deliveries.hold, work=work))
    async with engine(store_url) as run:
        await run.conservation_when(delivered=2, waiting=2)
        await run.end(run.entries[0])
