"""The clock of leases."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gateway.delivery import Entry
from gateway.egress import parse_target
from gateway.security.keys import new_key, public_id
from gateway.subscriptions.lifecycle.expiry import DUE_AT_A_TIME, ExpiryClock
from gateway.subscriptions.table import SubscriptionTable
from mediation.rendering import prepare
from tests.rigs.mediation import subscription

TARGET = parse_target("http://consumer.example/")
DEADLINE = 60.0


def entered(table: SubscriptionTable, ends_in: float | None) -> Entry:
    """An entry of *table* whose lease ends *ends_in* seconds from now; never, when None."""
    end = None if ends_in is None else datetime.now(UTC) + timedelta(seconds=ends_in)
    made, key = subscription(), new_key()
    made = replace(made, key=key, id=public_id(key), lease=replace(made.lease, expires=end))
    entry = Entry(made, prepare(made), TARGET)
    table.add(entry)
    return entry


async def test_subscriptions_come_due_in_the_order_of_their_ends() -> None:
    table = SubscriptionTable()
    clock = ExpiryClock(table)
    second, first, later = (entered(table, ends_in) for ends_in in (-1.0, -2.0, 60.0))
    for entry in (second, later, first):
        clock.watch(entry.subscription)
    assert await asyncio.wait_for(clock.due(), DEADLINE) == [first, second]


async def test_an_earlier_end_is_waited_for_instead() -> None:
    table = SubscriptionTable()
    clock = ExpiryClock(table)
    clock.watch(entered(table, 60.0).subscription)
    due = asyncio.create_task(clock.due())
    await asyncio.sleep(0)
    soon = entered(table, 0.05)
    clock.watch(soon.subscription)
    assert await asyncio.wait_for(due, DEADLINE) == [soon]


async def test_a_lease_without_an_end_never_comes_due() -> None:
    table = SubscriptionTable()
    clock = ExpiryClock(table)
    clock.watch(entered(table, None).subscription)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(clock.due(), 0.05)


async def test_what_has_ended_meanwhile_is_passed_over() -> None:
    table = SubscriptionTable()
    clock = ExpiryClock(table)
    gone, there = entered(table, -2.0), entered(table, -1.0)
    for entry in (gone, there):
        clock.watch(entry.subscription)
    table.drop(gone)
    assert await asyncio.wait_for(clock.due(), DEADLINE) == [there]


async def test_few_come_due_at_a_time() -> None:
    table = SubscriptionTable()
    clock = ExpiryClock(table)
    for _ in range(DUE_AT_A_TIME + 1):
        clock.watch(entered(table, -1.0).subscription)
    numbers = [len(await asyncio.wait_for(clock.due(), DEADLINE)) for _ in range(2)]
    assert numbers == [DUE_AT_A_TIME, 1]


async def test_one_that_could_not_be_ended_is_due_again() -> None:
    table = SubscriptionTable()
    clock = ExpiryClock(table)
    entry = entered(table, -1.0)
    clock.watch(entry.subscription)
    assert await asyncio.wait_for(clock.due(), DEADLINE) == [entry]
    clock.watch_at(time.time() + 0.05, entry.subscription.key)
    assert await asyncio.wait_for(clock.due(), DEADLINE) == [entry]


async def test_renewals_do_not_pile_up() -> None:
    table = SubscriptionTable()
    clock = ExpiryClock(table)
    entry = entered(table, 60.0)
    for _ in range(5000):
        clock.watch(entry.subscription)
    assert len(clock._instants) < 1100
