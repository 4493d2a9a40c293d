"""``--spool`` in front of real brokers: publishers are answered as ever while a broker is away."""

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from gateway.checks.findings import Verdict
from gateway.checks.peers import check_port
from gateway.settings.settings import read_settings
from tests.rigs.activemq import needs_activemq, own_activemq
from tests.rigs.brokers import RabbitMQ, needs_rabbitmq, own_rabbitmq, wire_to
from tests.rigs.consumers import consumers
from tests.rigs.outage_traffic import SECONDS, judge, refused, subscribed
from tests.rigs.processes import SPEAKER, GatewayProcess, Publisher, event, gateway_process
from tests.rigs.waiting import until

ROOM = 60


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    needs_rabbitmq()
    return own_rabbitmq()


def environment(url: str, *settings: str) -> dict[str, str]:
    """What makes a gateway spool in front of *url*, with queues of its own there."""
    query = "&".join([f"name=test-{uuid.uuid4().hex[:12]}", *settings])
    return {
        "DRAGOMAN_ADAPTER": f"{url}?{query}",
        "DRAGOMAN_SPOOL": "true",
        "DRAGOMAN_SPOOL_MESSAGES": str(ROOM),
    }


def on_topics(gateway: GatewayProcess) -> list[Publisher]:
    return [Publisher(gateway, name, path=f"/soap/topic/{name}") for name in "ab"]


async def publish(publishers: list[Publisher], count: int) -> None:
    """All are accepted."""
    for one in publishers:
        assert [await one.publish() for _ in range(count)] == [202] * count


async def ready(gateway: GatewayProcess) -> dict[str, Any]:
    answer = await gateway.request("GET", "/readyz")
    assert answer.status == 200, "a gateway that spools is ready"
    broker: dict[str, Any] = json.loads(answer.body)["broker"]
    return broker


async def shows(gateway: GatewayProcess, **values: float) -> dict[str, float]:
    """Wait until the metrics show *values*."""
    metrics: dict[str, float] = {}

    async def shown() -> bool:
        metrics.update(await gateway.metrics())
        return values.items() <= metrics.items()

    await until(shown, SECONDS)
    return metrics


async def drained(gateway: GatewayProcess) -> None:
    metrics = await shows(gateway, spool_messages=0)
    assert (metrics["spool_bytes"], metrics["spool_oldest_seconds"]) == (0, 0)
    await gateway.at_rest()


def broker_finding(gateway: GatewayProcess) -> tuple[Verdict, str]:
    """What the doctor says of the broker while the gateway runs."""
    findings = check_port(read_settings(port=gateway.port), True)
    [found] = [each for each in findings if each.what == "broker"]
    return found.verdict, found.text


async def test_rabbitmq_is_away(broker: RabbitMQ, tmp_path: Path) -> None:
    """Meanwhile the gateway is killed, a publisher repeats itself, and the spool is full."""
    async with wire_to(broker.port) as wire, consumers() as sinks:
        settings = environment(broker.at(wire.port), f"exchange=test-{uuid.uuid4().hex[:12]}")
        async with gateway_process(tmp_path / "data", settings) as gateway:
            publishers, consumer = on_topics(gateway), sinks.add()
            await subscribed(gateway, consumer)
            await publish(publishers, 2)
            await consumer.have(4, SECONDS)
            await gateway.at_rest()
            await shows(gateway, spool_messages=0, adapter_up=1, adapter_blocked=0)
            assert (await ready(gateway))["connected"]
            verdict, _ = await asyncio.to_thread(broker_finding, gateway)
            assert verdict is Verdict.OK

            await wire.cut()
            await publish(publishers, 10)
            await shows(gateway, spool_messages=20, adapter_up=0)
            state = await ready(gateway)
            assert not state["connected"] and state["last_error"]
            verdict, text = await asyncio.to_thread(broker_finding, gateway)
            # It tries again meanwhile, and fails in another way.
            errors = [one["last_error"] for one in (state, await ready(gateway))]
            assert verdict is Verdict.FAIL and any(error in text for error in errors)

            for one in publishers:
                one.close()
            await gateway.kill()
            await gateway.start()
            metrics = await gateway.metrics()
            assert metrics["spool_messages"] == 20 and metrics["spool_oldest_seconds"] > 0
            media_type = SPEAKER.soap.media_type
            for number in ("b7", "a5", "a5"):
                path = f"/soap/topic/{number[0]}"
                answer = await gateway.request("POST", path, event(number), content_type=media_type)
                assert answer.status == 202
            await publish(publishers, 5)
            assert (await gateway.metrics())["spool_messages"] == 30

            await refused(publishers[0])
            assert (await gateway.metrics())["spool_messages"] == ROOM
            await wire.join()
            await drained(gateway)
            await publish(publishers, 3)
            await consumer.have_all([number for one in publishers for number in one.acknowledged])
            await drained(gateway)
            assert judge(publishers, [consumer]) == 0
            await shows(gateway, adapter_up=1)
            state = await ready(gateway)
            assert state["connected"] and state["last_error"]
            assert state["last_error_at"] <= state["since"]
            verdict, text = await asyncio.to_thread(broker_finding, gateway)
            assert verdict is Verdict.OK and state["last_error_at"] in text
            for one in publishers:
                one.close()


@pytest.mark.nightly
async def test_rabbitmq_is_short_of_memory(broker: RabbitMQ, tmp_path: Path) -> None:
    settings = environment(broker.url, f"exchange=test-{uuid.uuid4().hex[:12]}")
    async with consumers() as sinks, gateway_process(tmp_path / "data", settings) as gateway:
        publishers, consumer = on_topics(gateway), sinks.add()
        await subscribed(gateway, consumer)
        limit = "set_vm_memory_high_watermark"
        await asyncio.to_thread(broker.control, limit, "0.0000001")
        try:
            await publish(publishers, 5)  # The first tells the broker that it has to say so.
            await shows(gateway, adapter_up=1, adapter_blocked=1)
            assert (await ready(gateway))["blocked"]
            verdict, text = await asyncio.to_thread(broker_finding, gateway)
            assert verdict is Verdict.WARN and "takes no messages" in text
            await publish(publishers, 5)
            assert (await gateway.metrics())["spool_messages"] >= 10
        finally:
            await asyncio.to_thread(broker.control, limit, "0.6")
        await consumer.have_all([number for one in publishers for number in one.acknowledged])
        await drained(gateway)
        await publish(publishers, 1)
        await shows(gateway, adapter_blocked=0)
        judge(publishers, [consumer])
        for one in publishers:
            one.close()


@pytest.mark.nightly
async def test_several_gateways(broker: RabbitMQ, tmp_path: Path, postgresql_url: str) -> None:
    """One publisher speaks to both in turn: its order holds. The one that would publish what waits
    is killed meanwhile."""
    media_type = SPEAKER.soap.media_type
    async with wire_to(broker.port) as wire, consumers() as sinks:
        settings = environment(broker.at(wire.port), f"exchange=test-{uuid.uuid4().hex[:12]}")
        settings["DRAGOMAN_STORE"] = postgresql_url
        async with (
            gateway_process(tmp_path / "first", settings) as first,
            gateway_process(tmp_path / "second", settings) as second,
        ):
            publisher, consumer = Publisher(first, "a"), sinks.add()
            await subscribed(first, consumer)

            async def publish_through(*gateways: GatewayProcess) -> None:
                for gateway in gateways:
                    number = f"a{len(publisher.attempted) + 1}"
                    publisher.attempted.append(number)
                    answer = await gateway.request(
                        "POST", "/soap/topic/a", event(number), content_type=media_type
                    )
                    assert answer.status == 202
                    publisher.acknowledged.append(number)

            await publish_through(first, second)
            await wire.cut()
            await publish_through(*[first, second] * 8)
            for gateway in (first, second):
                await shows(gateway, spool_messages=16, adapter_up=0)
            answer = await first.request("GET", "/readyz")
            keeper, other = (
                (first, second) if json.loads(answer.body)["keeps_house"] else (second, first)
            )
            await keeper.kill()
            await wire.join()
            await publish_through(*[other] * 4)
            await consumer.have_all(publisher.acknowledged)
            await shows(other, spool_messages=0, adapter_up=1)
            await keeper.start()
            await publish_through(*[first, second] * 4)
            await consumer.have_all(publisher.acknowledged)
            judge([publisher], [consumer])


async def test_activemq_is_stopped(tmp_path: Path) -> None:
    """It ends for real, and so does the gateway meanwhile, politely; started again without a spool
    it publishes what lies there, and takes no more."""
    needs_activemq()
    broker = own_activemq()
    settings = environment(broker.url, f"root=test-{uuid.uuid4().hex[:12]}")
    async with consumers() as sinks:
        consumer = sinks.add()
        async with gateway_process(tmp_path / "data", settings) as gateway:
            publishers = on_topics(gateway)
            await subscribed(gateway, consumer)
            await publish(publishers, 2)
            await consumer.have(4, SECONDS)
            await gateway.at_rest()
            await asyncio.to_thread(broker.stop)
            try:
                await publish(publishers, 5)
                await shows(gateway, adapter_up=0, spool_messages=10)
                for one in publishers:
                    one.close()
                assert await gateway.end() == 0
                gateway.environment["DRAGOMAN_SPOOL"] = "false"
                await gateway.start()
                await refused(publishers[0])
                assert (await gateway.metrics())["spool_messages"] == 10
            finally:
                await broker.start_again()
            await consumer.have_all([number for one in publishers for number in one.acknowledged])
            await drained(gateway)
            await shows(gateway, adapter_up=1)
            assert judge(publishers, [consumer]) == 0
            for one in publishers:
                one.close()
