"""Nobody waits for a stranger: consumers that are dead, slow, endless or malicious."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gateway.consumers import OneConsumer, consumers, drip, endless, hang, reset
from tests.gateway.processes import GatewayProcess, Publisher, gateway_process
from tests.gateway.test_reliability_kill import judge

GOOD = 50
RATE = 5.0
BAD = ((hang, 1000), (reset, 100), (drip, 100), (endless, 100))
CEILING = 512 * 2**20
AT_ONCE = {"DRAGOMAN_RETRY_DELAYS": "[0.5, 0.5, 1, 1, 2, 2, 4, 4, 8, 8, 8, 8, 8]"}
"""A schedule for tests: who was away is tried again soon."""
MORE = 0.05
"""Seconds by which bad consumers may worsen the good ones' p99."""


async def latencies(
    gateway: GatewayProcess, those: Sequence[OneConsumer], *, rate: float, seconds: float
) -> list[float]:
    """Publish for *seconds*; from each attempt to each receipt."""
    attempted: dict[str, float] = {}
    for consumer in those:
        consumer.received.clear()
    publisher = Publisher(gateway, f"l{time.monotonic_ns()}-")
    end = time.monotonic() + seconds
    due = time.monotonic()
    while time.monotonic() < end:
        began = time.monotonic()
        assert await publisher.publish() == 202
        attempted[publisher.attempted[-1]] = began
        due += 1 / rate
        await asyncio.sleep(due - time.monotonic())
    publisher.close()
    for consumer in those:
        await consumer.have_all(attempted)
        assert len(consumer.received) == len(attempted), "twice"
    return [
        receipt.at - attempted[receipt.number]
        for consumer in those
        for receipt in consumer.received
    ]


def p99(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


async def isolation(data: Path, *, seconds: float, factor: float) -> str:
    """Compare the good consumers' latencies without and with bad ones."""
    async with consumers() as sinks, gateway_process(data, {"DRAGOMAN_DRAIN": "0.5"}) as gateway:
        good = [sinks.add() for _ in range(GOOD)]
        for consumer in good:
            await gateway.subscribe(consumer.url)
        alone = p99(await latencies(gateway, good, rate=RATE, seconds=seconds / 3))
        bad = [sinks.add(behaviour, keep=False) for behaviour, n in BAD for _ in range(n)]
        for consumer in bad:
            await gateway.subscribe(consumer.url)
        await latencies(gateway, good, rate=RATE, seconds=0.5)  # 1,300 connections are made.
        for consumer in bad:
            await consumer.have(1)
        together = p99(await latencies(gateway, good, rate=RATE, seconds=seconds))
        memory = gateway.memory()
        figures = (
            f"p99 of {GOOD} good ones: {alone * 1e3:.0f} ms, with {len(bad)} bad ones "
            f"{together * 1e3:.0f} ms; resident {memory >> 20} MiB"
        )
        assert together - alone < MORE * factor, figures
        assert memory < CEILING, figures
        await sinks.leave()
        await gateway.at_rest(waiting=None)
    return figures


async def test_strangers_delay_nobody(tmp_path: Path) -> None:
    print(await isolation(tmp_path / "data", seconds=20, factor=10))


@pytest.mark.release
async def test_strangers_delay_nobody_for_an_hour(tmp_path: Path) -> None:
    print(await isolation(tmp_path / "data", seconds=3600, factor=1))


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
    """1,000 consumers are away, 10,000 deliveries wait; a restart; they return."""
    async with consumers() as sinks, gateway_process(tmp_path / "data", AT_ONCE) as gateway:
        those = [sinks.add(keep=False) for _ in range(1000)]
        for consumer in those:
            await gateway.subscribe(consumer.url)
        await sinks.leave()
        publisher = Publisher(gateway, "a")
        for _ in range(10):
            assert await publisher.publish() == 202
        publisher.close()
        await gateway.at_rest(waiting=10_000)
        before = gateway.memory()
        await gateway.kill()
        began = time.monotonic()
        await gateway.start()
        ready = time.monotonic() - began
        assert ready < 5 * 10
        await sinks.listen()
        await gateway.at_rest()
        drained = time.monotonic() - began
        judge([publisher], those)
        print(
            f"ready in {ready:.1f} s, drained in {drained:.1f} s, resident {before >> 20} MiB "
            f"while they were away, {gateway.memory() >> 20} MiB after"
        )
        assert gateway.memory() < CEILING
