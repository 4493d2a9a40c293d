"""The pump, with a real adapter and a real dispatcher."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from adapters import Delivery, XPathFilterAdapter
from adapters.memory import MemoryAdapter, MemoryDelivery
from filters import Expression, Filter, Topic, parse_clark
from filters.dialects import TOPIC_FULL
from gateway.delivery import Dispatchers
from gateway.store import StoreUnavailable, dead_letters
from gateway.subscriptions import matching
from gateway.subscriptions.filter_budgets import FilterBudgets
from gateway.subscriptions.matching import NOT_ACCEPTED, Matching, shared_settlement
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.messages import Notification, Rights
from mediation.tenants import source_in, topic_in
from tests.rigs.consumers import Connection, Receipt, consumers
from tests.rigs.dispatching import engine, notification
from tests.rigs.waiting import until

TOPIC = parse_clark("{urn:t}A")


@dataclass
class Listening:
    """What of the gateway gets messages, too."""

    key: str = "inside"
    got: list[str] = field(default_factory=list)

    def accept(self, delivery: Delivery) -> None:
        self.got.append(delivery.notification.id)
        delivery.settle()


@dataclass
class Forgetful:
    """A guard whose store is away the first *failures* times that it is asked."""

    failures: int
    asked: list[str] = field(default_factory=list)
    came: list[datetime] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime(2026, 1, 1 + len(self.asked), tzinfo=UTC)

    def guards(self, topic: Topic) -> bool:
        return True

    async def may_be_delivered(self, notification: Notification, *, came: datetime) -> bool:
        self.asked.append(notification.id)
        self.came.append(came)
        if len(self.asked) <= self.failures:
            raise StoreUnavailable
        return True

    def may_get(self, topic: Topic, rights: Rights | None, filter: Filter, owner: str) -> bool:
        return True


async def test_what_waits_for_the_store_is_delivered_and_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "RETRY", 0.0)
    settled: list[Notification] = []
    adapter = XPathFilterAdapter(MemoryAdapter(), settled=settled.append)
    listening, guard, table = Listening(), Forgetful(failures=2), SubscriptionTable()
    everything = Filter(topics=(Expression("t:A", TOPIC_FULL, (("t", "urn:t"),)),))
    async with engine(tmp_path) as run:
        dispatchers = Dispatchers(run.store, run.dispatcher.scheduler)
        dispatchers.add(None, run.dispatcher)
        assert await adapter.start({listening.key: everything}) == {}
        budgets = FilterBudgets(lambda entry, why: None)
        pump = Matching(adapter, table, dispatchers, budgets, {TOPIC: listening}, guard)
        task = asyncio.create_task(pump.run())
        try:
            sent = [replace(notification(number), topic=TOPIC) for number in ("1", "2")]
            await adapter.publish(sent)
            await until(lambda: len(settled) == 2)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await adapter.close()
    one, two = (each.id for each in sent)
    assert listening.got == [one, two]
    assert guard.asked == [one, one, one, two]
    # What was in time when it came is in time when the store is there.
    assert [each.day for each in guard.came] == [1, 1, 1, 4]


@dataclass
class Faulty(Forgetful):
    """A guard that has an error, which the first message brings out."""

    failures: int = 0

    async def may_be_delivered(self, notification: Notification, *, came: datetime) -> bool:
        if not self.asked:
            self.asked.append(notification.id)
            raise RuntimeError("ours")
        return True


async def test_what_meets_an_error_of_ours_is_set_aside(tmp_path: Path) -> None:
    """It takes no room in the messaging system's window until a restart."""
    adapter = XPathFilterAdapter(MemoryAdapter(prefetch=1))
    listening = Listening()
    everything = Filter(topics=(Expression("t:A", TOPIC_FULL, (("t", "urn:t"),)),))
    async with engine(tmp_path) as run:
        dispatchers = Dispatchers(run.store, run.dispatcher.scheduler)
        dispatchers.add(None, run.dispatcher)
        assert await adapter.start({listening.key: everything}) == {}
        budgets = FilterBudgets(lambda entry, why: None)
        table = SubscriptionTable()
        pump = Matching(adapter, table, dispatchers, budgets, {TOPIC: listening}, Faulty())
        task = asyncio.create_task(pump.run())
        try:
            sent = [replace(notification(number), topic=TOPIC) for number in ("1", "2")]
            await adapter.publish(sent)
            await until(lambda: len(listening.got) == 2)
            letters = await run.store.submit(dead_letters.listed)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await adapter.close()
    assert [one.death.failure for one in letters] == [NOT_ACCEPTED]


async def test_who_fills_the_memory_stops_no_other_tenant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next event waits, until its consumers answer; the event behind that does not."""
    monkeypatch.setattr("gateway.delivery.settlement.CROWD", 4)
    for where in ("outboxes.LATE", "outboxes.PATIENCE", "dispatcher.PATIENCE", "dispatcher.HURRY"):
        monkeypatch.setattr(f"gateway.delivery.{where}", 60.0)
    unanswered: list[Connection] = []
    accepted: list[str] = []
    unsettled: list[float] = []
    adapter, table = XPathFilterAdapter(MemoryAdapter()), SubscriptionTable()
    quick = asyncio.Event()

    def be_slow(connection: Connection, _: Receipt) -> None:
        unanswered.append(connection)
        if quick.is_set():
            answer_all()

    def be_quick(connection: Connection, _: Receipt) -> None:
        connection.answer(202)
        quick.set()
        answer_all()

    def answer_all() -> None:
        while unanswered:
            unanswered.pop().answer(202)

    async with consumers() as sinks, engine(tmp_path) as run:
        dispatchers = Dispatchers(run.store, run.dispatcher.scheduler)
        dispatchers.add(None, run.dispatcher)
        filters, tenants = dict[str, Filter](), dict[str, str]()
        for tenant, behaviour, count in (("crowd", be_slow, 6), ("few", be_quick, 1)):
            topics = (Expression("t:A", TOPIC_FULL, (("t", "urn:t"),)),)
            for _ in range(count):
                entry = await run.subscribe(sinks.add(behaviour).url)
                table.add(entry)
                filters[entry.subscription.key] = Filter(topics=topics)
                tenants[entry.subscription.key] = tenant
        assert await adapter.start(filters, tenants) == {}
        accept = dispatchers.accept

        pump = Matching(adapter, table, dispatchers, FilterBudgets(lambda entry, why: None))

        def note(delivery: Delivery, *entries: Any) -> None:
            accepted.append(delivery.notification.id)
            unsettled.extend(one.values[()] for one in pump.metrics() if one.name == "unsettled")
            accept(delivery, *entries)

        monkeypatch.setattr(dispatchers, "accept", note)
        task = asyncio.create_task(pump.run())
        try:
            sent = [
                replace(
                    notification(str(number)),
                    topic=topic_in(tenant, TOPIC),
                    source=f"{source_in(tenant)}one",
                )
                for number, tenant in enumerate(("crowd", "crowd", "crowd", "few"))
            ]
            await adapter.publish(sent)
            await until(lambda: len(accepted) == len(sent))
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            answer_all()
            await adapter.close()
    assert accepted == [sent[number].id for number in (0, 3, 1, 2)]
    assert unsettled == [0, 2, 1, 0], "those that wait for room"


class Unsettling(MemoryDelivery):
    """A delivery of an adapter that raises when it is settled."""

    def settle(self) -> None:
        raise OSError("the connection is gone")


def test_parts_of_a_delivery_that_cannot_be_settled_end_nothing() -> None:
    """Those who have them (the node of discovery, a dispatcher) go on; the message comes again."""
    event = Notification("urn:test:1", "urn:test:us", b"<e/>", datetime.now(UTC), TOPIC)
    with capture_logs() as logs:
        for part in shared_settlement(Unsettling(MemoryAdapter(), event), 2):
            part.settle()
    assert [log["event"] for log in logs] == ["delivery.not-settled"]
