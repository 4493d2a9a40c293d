"""Brokers that are restarted again and again under load, or away for long: nothing lost, nobody stuck.

The campaign that precedes a release restarts each broker 100 times, or as often as the environment
variable ``RESTARTS`` says; every night does the same twice. In every run each broker is killed once in
traffic: `tests.rigs.broker_gateways`.
"""

import asyncio
import os
import random
import signal
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.rigs.activemq import ActiveMQ, needs_activemq, own_activemq
from tests.rigs.brokers import RabbitMQ, needs_rabbitmq, own_rabbitmq
from tests.rigs.consumers import Consumer, consumers, slow
from tests.rigs.outage_traffic import judge, subscribed
from tests.rigs.processes import Publisher, gateway_process, publishing
from tests.rigs.waiting import until

RESTARTS = int(os.environ.get("RESTARTS", "100"))
RATE = 200.0
CONSUMERS = 3
SLOW = 0.003
"""Seconds that one of the consumers takes to answer, so that there is always something under way."""
BACK = 60.0
"""Seconds after a restart within which every publisher is accepted and every consumer hears it."""
TOLD = 10
"""Restarts after which a campaign says how far it is, each time."""

DRILL_RATE = 10.0
"""Messages a second while a broker is away for long."""
Broker = RabbitMQ | ActiveMQ


@dataclass(frozen=True)
class Outcome:
    """What became of a campaign in which nothing was lost."""

    acknowledged: int
    refused: int
    """Answered with 503."""
    repeats: int
    """Deliveries beyond the first of a message to a consumer, each with the same id."""
    longest: float
    """Seconds from a broker that takes connections to the last consumer that hears what is new."""


def rabbitmq_for_tests() -> RabbitMQ:
    needs_rabbitmq()
    return own_rabbitmq()


def activemq_for_tests() -> ActiveMQ:
    needs_activemq()
    return own_activemq()


on_each_broker = pytest.mark.parametrize("broker", [rabbitmq_for_tests, activemq_for_tests])


def environment(broker: Broker) -> dict[str, str]:
    """What makes a gateway stand in front of *broker*, with queues of its own, else as it comes."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    apart = f"exchange={name}" if isinstance(broker, RabbitMQ) else f"root={name}"
    return {"DRAGOMAN_ADAPTER": f"{broker.url}?name={name}&{apart}"}


async def restart_often(broker: Broker, data: Path, restarts: int) -> Outcome:
    """Restart *broker* in traffic, in turn with SIGTERM and SIGKILL."""
    choose = random.Random(4)
    longest = 0.0
    clock = asyncio.get_running_loop().time
    async with consumers() as sinks, gateway_process(data, environment(broker)) as gateway:
        those = [sinks.add(keep=False) for _ in range(CONSUMERS - 1)]
        those.append(sinks.add(slow(SLOW), keep=False))
        for consumer in those:
            await subscribed(gateway, consumer)
        async with publishing(gateway, RATE, topics=True) as publishers:
            await those[0].have(20, BACK)
            for number in range(restarts):
                await asyncio.sleep(choose.uniform(0.2, 1.5))
                how = signal.SIGKILL if number % 2 else signal.SIGTERM
                await asyncio.to_thread(broker.stop, how)
                await broker.start_again()
                there = clock()
                await all_is_well(publishers, those, f"after restart {number + 1}, {how.name}")
                longest = max(longest, clock() - there)
                if (number + 1) % TOLD == 0:
                    accepted = sum(len(one.acknowledged) for one in publishers)
                    print(
                        f"restart {number + 1} of {restarts}: {accepted} acknowledged, "
                        f"longest {longest:.1f} s",
                        flush=True,
                    )
        acknowledged = {number for one in publishers for number in one.acknowledged}
        await delivered(acknowledged, those)
        await gateway.at_rest()
        return Outcome(
            len(acknowledged),
            sum(one.statuses.get(503, 0) for one in publishers),
            repeats(publishers, those),
            longest,
        )


async def kill_for(seconds: float, broker: Broker, data: Path) -> tuple[int, int]:
    """Kill *broker* for so long while a gateway with a spool is published to: how many messages
    were accepted, none lost and all in order, and how many came again."""
    spools = {**environment(broker), "DRAGOMAN_SPOOL": "true"}
    async with consumers() as sinks, gateway_process(data, spools) as gateway:
        those = [sinks.add(keep=False) for _ in range(CONSUMERS)]
        for consumer in those:
            await subscribed(gateway, consumer)
        async with publishing(gateway, DRILL_RATE) as publishers:
            await those[0].have(20, BACK)
            await asyncio.to_thread(broker.stop, signal.SIGKILL)
            await asyncio.sleep(seconds)
            await broker.start_again()
            await those[0].have(those[0].count + 20, BACK)
        acknowledged = {number for one in publishers for number in one.acknowledged}
        assert all(one.statuses.keys() <= {202} for one in publishers), "a publisher was refused"
        await delivered(acknowledged, those)
        await gateway.at_rest()
        return len(acknowledged), judge(publishers, those)


async def all_is_well(
    publishers: Sequence[Publisher], those: Sequence[Consumer], when: str
) -> None:
    """Wait until every publisher was accepted, and every consumer has heard of it."""
    before = [len(one.acknowledged) for one in publishers]
    heard = [consumer.count for consumer in those]

    def accepted() -> bool:
        return all(len(one.acknowledged) > n for one, n in zip(publishers, before, strict=True))

    try:
        await until(accepted, BACK)
    except TimeoutError:
        pytest.fail(f"a publisher is stuck {when}")
    fresh = {one.acknowledged[n] for one, n in zip(publishers, before, strict=True)}
    for consumer, start in zip(those, heard, strict=True):
        try:
            await consumer.until(since(consumer, start, fresh), BACK)
        except TimeoutError:
            pytest.fail(f"{consumer.url} is stuck {when}")


def since(consumer: Consumer, start: int, numbers: set[str]) -> Callable[[], bool]:
    """Whether all of *numbers* are among what *consumer* got after the first *start* messages."""
    return lambda: numbers <= {receipt.number for receipt in consumer.received[start:]}


async def delivered(acknowledged: set[str], those: Sequence[Consumer]) -> None:
    """Wait until each consumer has everything; what does not come is lost."""
    for consumer in those:
        try:
            await consumer.have_all(acknowledged, 2 * BACK)
        except TimeoutError:
            lost = acknowledged - set(consumer.numbers)
            pytest.fail(f"{len(lost)} messages are lost: {sorted(lost)[:20]}")


def repeats(publishers: Sequence[Publisher], those: Sequence[Consumer]) -> int:
    """How much came more than once, each time with the same id; and nothing is unexpected."""
    attempted = {number for one in publishers for number in one.attempted}
    count = 0
    for consumer in those:
        ids: dict[str, str] = {}
        for receipt in consumer.received:
            assert receipt.number in attempted, "unexpected"
            count += receipt.number in ids
            first = ids.setdefault(receipt.number, receipt.id)
            assert receipt.id == first, "another message id"
    return count


@pytest.mark.nightly
@on_each_broker
async def test_restarted_twice(broker: Callable[[], Broker], tmp_path: Path) -> None:
    outcome = await restart_often(broker(), tmp_path / "data", 2)
    assert outcome.acknowledged > 50
    assert outcome.refused > 0, "the broker was never away"


@pytest.mark.release
@on_each_broker
async def test_restarted_often(broker: Callable[[], Broker], tmp_path: Path) -> None:
    outcome = await restart_often(broker(), tmp_path / "data", RESTARTS)
    print(f"{broker.__name__}: {RESTARTS} restarts, 0 lost, 0 stuck, {outcome}")
    assert outcome.acknowledged > 25 * RESTARTS


@pytest.mark.nightly
@on_each_broker
async def test_killed_for_ten_seconds(broker: Callable[[], Broker], tmp_path: Path) -> None:
    accepted, _ = await kill_for(10.0, broker(), tmp_path / "data")
    assert accepted > 10 * DRILL_RATE


@pytest.mark.release
@on_each_broker
async def test_killed_for_ten_minutes(broker: Callable[[], Broker], tmp_path: Path) -> None:
    accepted, repeats = await kill_for(600.0, broker(), tmp_path / "data")
    print(f"{broker.__name__}: away for ten minutes, {accepted} accepted, 0 lost, {repeats} again")
    assert accepted > 600 * DRILL_RATE
