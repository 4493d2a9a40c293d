"""A polite stop, a quick start, and one process for one data folder."""

import asyncio
import random
import time
from pathlib import Path

from tests.gateway.consumers import accept, consumers, hang, slow
from tests.gateway.processes import GatewayProcess, gateway_process, publishing
from tests.gateway.test_reliability_kill import judge

STOP = 25.0


async def test_stop_in_traffic(tmp_path: Path) -> None:
    """SIGTERM ten times: exit 0 in time, nothing lost, nothing twice."""
    choose = random.Random(4)
    async with consumers() as sinks, gateway_process(tmp_path / "data") as gateway:
        those = [sinks.add(slow(0.05) if n % 5 == 0 else accept) for n in range(20)]
        for consumer in those:
            await gateway.subscribe(consumer.url)
        async with publishing(gateway, 50) as publishers:
            for _ in range(10):
                await asyncio.sleep(choose.uniform(0.1, 0.5))
                began = time.monotonic()
                assert await gateway.end() == 0
                assert time.monotonic() - began < STOP
                await gateway.start()
            await asyncio.sleep(0.3)
        await gateway.at_rest()
        judge(publishers, those)
        assert sum(len(one.acknowledged) for one in publishers) > 100


async def test_stop_with_a_hung_consumer(tmp_path: Path) -> None:
    """What hangs gets its seconds, and waits in the store for the next start."""
    environment = {"DRAGOMAN_DRAIN": "1"}
    async with consumers() as sinks, gateway_process(tmp_path / "data", environment) as gateway:
        good, bad = sinks.add(), sinks.add(hang)
        for consumer in (good, bad):
            await gateway.subscribe(consumer.url)
        async with publishing(gateway, 50) as publishers:
            await bad.have(1)
            await good.have(20)
        began = time.monotonic()
        assert await gateway.end() == 0
        assert time.monotonic() - began < 10
        bad.received.clear()  # It took one and never answered.
        bad.behaviour = accept
        await gateway.start()
        await gateway.at_rest()
        judge(publishers, [good, bad])


async def test_second_process(tmp_path: Path) -> None:
    """It ends with one line and EX_TEMPFAIL, and leaves the first alone."""
    async with gateway_process(tmp_path / "data") as gateway:
        second = GatewayProcess(gateway.data)
        second.log = tmp_path / "second.log"
        try:
            await second.start()
        except AssertionError:
            assert second.process is not None
            assert await second.process.wait() == 75
        else:
            raise AssertionError("two processes share one folder")
        [line] = second.log.read_text().splitlines()
        assert str(gateway.data) in line
        assert (await gateway.metrics())["conservation_error"] == 0
