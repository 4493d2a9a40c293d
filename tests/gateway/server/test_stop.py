"""A polite stop, a quick start, and one process for one data folder."""

import random
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from gateway.security.keys import new_key, public_id
from gateway.store import Store, waiting_deliveries
from gateway.store import subscriptions as rows
from mediation.model.messages import EndpointReference, Lease, Subscription
from mediation.model.versions import Soap, Spec, Version, Wsa
from tests.gateway.server.test_kill import judge, more_acknowledged
from tests.rigs.consumers import accept, consumers, hang, slow
from tests.rigs.dispatching import notification
from tests.rigs.processes import GatewayProcess, gateway_process, publishing


async def test_stop_in_traffic(tmp_path: Path) -> None:
    """SIGTERM five times: exit 0, nothing lost, nothing twice."""
    choose = random.Random(4)
    async with consumers() as sinks, gateway_process(tmp_path / "data") as gateway:
        those = [sinks.add(slow(0.05) if n % 5 == 0 else accept) for n in range(20)]
        for consumer in those:
            await gateway.subscribe(consumer.url)
        async with publishing(gateway, 50) as publishers:
            for _ in range(5):
                await more_acknowledged(publishers, choose.randrange(5, 25))
                assert await gateway.end() == 0
                await gateway.start()
            await more_acknowledged(publishers, 10)
        await gateway.at_rest()
        judge(publishers, those)


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
        assert await gateway.end() == 0
        bad.received.clear()  # It took one and never answered.
        bad.behaviour = accept
        await gateway.start()
        await gateway.at_rest()
        judge(publishers, [good, bad])


async def start_with_a_backlog(data: Path, *, subscriptions: int, messages: int) -> None:
    """A gateway that has so many of each waiting is ready before it has delivered them."""
    data.mkdir()
    async with consumers() as sinks:
        hosts = [sinks.add(keep=False) for _ in range(4)]
        store = Store.at(data)
        await store.start()
        ids = []
        for number in range(subscriptions):
            key = new_key()
            ids.append(public_id(key))
            subscription = Subscription(
                key,
                ids[-1],
                "anonymous:127.0.0.1",
                Spec(Version.WSE_2004_08, Soap.V1_2, Wsa.V2004_08),
                EndpointReference(hosts[number % 4].url, Wsa.V2004_08),
                Lease(datetime.now(UTC), None),
            )
            insert = partial(rows.insert, subscription=subscription)
            inserted = store.submit(insert)
            if number % 1000 == 999:
                await inserted
        for number in range(messages):
            hold = partial(
                waiting_deliveries.hold_all, notification=notification(str(number)), subscriptions=ids,
                position=number + 1, octets=100, since=time.time(),
            )  # fmt: skip
            await store.submit(hold)
        await store.close()
        gateway = GatewayProcess(data)
        await gateway.start()
        ready = time.monotonic()
        for host in hosts:
            await host.have(20)
            elapsed = host.received[-1].at - ready
            assert host.count <= 60 + 100 * max(0.0, elapsed), "a burst"
        law = await gateway.metrics()
        assert law["matched_total"] == subscriptions * messages
        assert law["conservation_error"] == 0
        await gateway.end()


async def test_quick_start(tmp_path: Path) -> None:
    await start_with_a_backlog(tmp_path / "data", subscriptions=2000, messages=10)


@pytest.mark.release
async def test_quick_start_of_10000(tmp_path: Path) -> None:
    await start_with_a_backlog(tmp_path / "data", subscriptions=10_000, messages=10)


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
