"""The consumer of sequences, at a real gateway."""

import asyncio
from pathlib import Path

import pytest

from gateway.client import Client, GatewayError, subscribed
from gateway.client.sequence_consumer import SequenceConsumer
from mediation.model.versions import Version
from tests.rigs.gateways import Running, running
from tests.rigs.lossy_relay import Mishap, relay
from tests.rigs.waiting import DEADLINE

SETTINGS = {"adapter": "embedded:", "retry_delays": ",".join(["0.05"] * 30)}
LOSING = {Mishap.LOSE_REQUEST: 0.15, Mishap.LOSE_ANSWER: 0.2, Mishap.DOUBLE: 0.2}


async def payloads(consumer: SequenceConsumer, number: int) -> list[str]:
    found: list[str] = []
    async with asyncio.timeout(DEADLINE):
        while len(found) < number:
            for each in (await consumer.receive()).notifications:
                found.append(each.payload.decode())
    return found


def client_of(run: Running, version: Version = Version.WSN_1_3) -> Client:
    return Client(run.url, version)


@pytest.mark.slow
@pytest.mark.parametrize(
    "version",
    [
        pytest.param(Version.WSE_2004_08, marks=pytest.mark.nightly),
        pytest.param(Version.WSE_2011_03, marks=pytest.mark.nightly),
        Version.WSN_1_3,
    ],
)
async def test_each_once_in_order_over_a_net_that_loses(tmp_path: Path, version: Version) -> None:
    async with (
        running(tmp_path, **SETTINGS) as run,
        SequenceConsumer() as consumer,
        client_of(run, version) as client,
    ):
        with relay({}, seed=3, target=consumer.address) as between:
            path = consumer.address.partition("//")[2].partition("/")[2]
            granted = await client.subscribe(f"{between.url}/{path}", reliable=True)
            between.odds = LOSING
            wanted = [f"<n>{number}</n>" for number in range(12)]
            for payload in wanted:
                await client.publish(payload.encode())
            assert await payloads(consumer, len(wanted)) == wanted
            assert sum(between.counts.values()) > 0
            between.odds = {}
            await client.unsubscribe(granted)
        assert consumer._queue.empty()


async def test_it_leaves_when_the_sequence_has_ended(tmp_path: Path) -> None:
    async with running(tmp_path, **SETTINGS) as run, client_of(run) as client:
        async with (
            SequenceConsumer() as consumer,
            subscribed(client, consumer.address, reliable=True),
        ):
            await client.publish(b"<n>1</n>")
            assert await payloads(consumer, 1) == ["<n>1</n>"]
        assert consumer._ended.is_set()


async def test_what_comes_in_no_sequence(tmp_path: Path) -> None:
    async with (
        running(tmp_path, **SETTINGS) as run,
        client_of(run) as client,
        SequenceConsumer() as consumer,
        subscribed(client, consumer.address),
    ):
        await client.publish(b"<n>1</n>")
        assert await payloads(consumer, 1) == ["<n>1</n>"]


async def test_more_than_there_is_room_for(tmp_path: Path) -> None:
    """It is sent again, and comes in its turn."""
    async with (
        running(tmp_path, **SETTINGS) as run,
        client_of(run) as client,
        SequenceConsumer(waiting=2) as consumer,
        subscribed(client, consumer.address, reliable=True),
    ):
        wanted = [f"<n>{number}</n>" for number in range(6)]
        for payload in wanted:
            await client.publish(payload.encode())
        await run.until(lambda: consumer._queue.full())
        assert await payloads(consumer, 6) == wanted


async def test_a_gateway_that_keeps_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as run, client_of(run) as client, SequenceConsumer() as consumer:
        with pytest.raises(GatewayError, match="keeps nothing"):
            await client.subscribe(consumer.address, reliable=True)
