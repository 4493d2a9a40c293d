"""Nobody waits for a stranger: consumers that are dead, slow, endless or malicious."""

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gateway.server.test_kill import judge
from tests.rigs.consumers import Consumer, consumers, drip, endless, hang, reset
from tests.rigs.processes import GatewayProcess, Publisher, gateway_process

GOOD = 50
BAD = ((hang, 1000), (reset, 100), (drip, 100), (endless, 100))
CEILING = 512 * 2**20
LEAST = 1.0
"""Seconds: a turn in memory takes 6 ms, of which 27 pass while another process has the cores."""
AT_ONCE = {"DRAGOMAN_RETRY_DELAYS": "[0.5, 0.5, 1, 1, 2, 2, 4, 4, 8, 8, 8, 8, 8]"}
"""A schedule for tests: who was away is tried again soon."""


async def turns(
    gateway: GatewayProcess, those: Sequence[Consumer], count: int, *, filling: int = 0
) -> list[float]:
    """Publish *count* messages, each once all of *those* have the one before; the seconds that
    each took to reach them all."""
    for consumer in those:
        consumer.received.clear()
        consumer.count = 0
    publisher = Publisher(gateway, f"l{time.monotonic_ns()}-", filling=filling)
    took = []
    for _ in range(count):
        began = time.monotonic()
        assert await publisher.publish() == 202
        for consumer in those:
            await consumer.have_all(publisher.attempted)
        took.append(time.monotonic() - began)
    publisher.close()
    for consumer in those:
        assert consumer.numbers == publisher.attempted, "twice, or out of order"
    return took


async def isolation(data: Path, *, count: int) -> str:
    """Compare the turns of the good consumers without and with bad ones.

    A message for 27 times as many consumers may take 27 times as long to go out, and `LEAST`
    where a turn is short. One that waits for a single bad consumer waits for an attempt's whole
    time, 15 s.
    """
    async with consumers() as sinks, gateway_process(data, {"DRAGOMAN_DRAIN": "0.5"}) as gateway:
        good = [sinks.add() for _ in range(GOOD)]
        for consumer in good:
            await gateway.subscribe(consumer.url)
        alone = statistics.median(await turns(gateway, good, count))
        bad = [sinks.add(behaviour, keep=False) for behaviour, n in BAD for _ in range(n)]
        for consumer in bad:
            await gateway.subscribe(consumer.url)
        await turns(gateway, good, 1)  # 1,300 connections are made.
        for consumer in bad:
            await consumer.have(1)
        together = statistics.median(await turns(gateway, good, count))
        memory = gateway.memory()
        figures = (
            f"a turn of {GOOD} good ones: {alone * 1e3:.0f} ms, with {len(bad)} bad ones "
            f"{together * 1e3:.0f} ms; resident {memory >> 20} MiB"
        )
        assert together < max(alone * (GOOD + len(bad)) / GOOD, LEAST), figures
        assert memory < CEILING, figures
        await sinks.leave()
        await gateway.at_rest(waiting=None)
    return figures


async def test_strangers_delay_nobody(tmp_path: Path) -> None:
    print(await isolation(tmp_path / "data", count=10))


@pytest.mark.release
async def test_strangers_delay_nobody_for_an_hour(tmp_path: Path) -> None:
    print(await isolation(tmp_path / "data", count=50_000))


@pytest.mark.nightly
async def test_memory_while_consumers_are_away(tmp_path: Path) -> None:
    """Large messages for many that are away: what waits lies on the disk, and comes in order."""
    async with consumers() as sinks, gateway_process(tmp_path / "data", AT_ONCE) as gateway:
        those = [sinks.add(keep=False) for _ in range(50)]
        for consumer in those:
            await gateway.subscribe(consumer.url)
        await sinks.leave()
        publisher = Publisher(gateway, "a", filling=2**19)
        for _ in range(100):
            assert await publisher.publish() == 202
            assert gateway.memory() < CEILING
        publisher.close()
        await gateway.at_rest(waiting=50 * 100)
        await gateway.kill()
        await gateway.start()
        await sinks.listen()
        await gateway.at_rest()
        assert gateway.memory() < CEILING
        judge([publisher], those)


async def test_memory_while_large_messages_hang(tmp_path: Path) -> None:
    """What is under way is bounded in octets, and a good consumer still gets its own."""
    environment = {"DRAGOMAN_DRAIN": "0.5", "DRAGOMAN_RETRY_DELAYS": "[600]"}
    async with consumers() as sinks, gateway_process(tmp_path / "data", environment) as gateway:
        hung = [sinks.add(hang, keep=False) for _ in range(400)]
        good = sinks.add(keep=False)
        for consumer in (*hung, good):
            await gateway.subscribe(consumer.url)
        publisher = Publisher(gateway, "a", filling=2**20)
        for _ in range(3):
            assert await publisher.publish() == 202
        publisher.close()
        await good.have(3, 60)
        for consumer in hung:
            await consumer.have(1, 60)
            assert gateway.memory() < CEILING
        print(f"resident {gateway.memory() >> 20} MiB")
        await sinks.leave()
        await gateway.at_rest(waiting=None)


async def test_backlog(tmp_path: Path) -> None:
    """500 consumers are away, 5,000 deliveries wait; a restart; they return."""
    async with consumers() as sinks, gateway_process(tmp_path / "data", AT_ONCE) as gateway:
        those = [sinks.add(keep=False) for _ in range(500)]
        for consumer in those:
            await gateway.subscribe(consumer.url)
        await sinks.leave()
        publisher = Publisher(gateway, "a")
        for _ in range(10):
            assert await publisher.publish() == 202
        publisher.close()
        await gateway.at_rest(waiting=5_000)
        before = gateway.memory()
        await gateway.kill()
        await gateway.start()
        await sinks.listen()
        await gateway.at_rest()
        judge([publisher], those)
        print(
            f"resident {before >> 20} MiB while they were away, {gateway.memory() >> 20} MiB after"
        )
        assert gateway.memory() < CEILING
