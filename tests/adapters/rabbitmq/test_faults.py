"""What RabbitMQ, its operators and the network do to the adapter."""

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pika
import pika.exceptions
import pytest

from adapters import EVERYTHING_WANTED, Adapter, AdapterUnavailable, Interest
from adapters.rabbitmq import publishing
from adapters.testing import Inbox
from filters import Expression, Step, Topic
from filters.dialects import TOPIC_FULL
from tests.rigs.adapters import (
    SECONDS,
    STORM,
    published,
    reasons,
    storm,
    told,
    until_told,
)
from tests.rigs.broker_trials import FaultTrials
from tests.rigs.brokers import RabbitMQ, needs_rabbitmq, own_rabbitmq, rabbitmq_node, wire_to
from tests.rigs.rabbitmq_adapters import running

needs_rabbitmq()


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return own_rabbitmq()


class TestFaults(FaultTrials):
    heartbeat = ("2", 20.0)
    wants_while_cut = False
    second_publishes = True

    def running(
        self, url: str, name: str, data: Path, *interests: Interest, **settings: str
    ) -> AbstractAsyncContextManager[Adapter]:
        return running(url, name, *interests, **settings)

    def secure_url(self, broker: RabbitMQ) -> str:
        url = broker.at(broker.tls_port)
        return url.replace("amqp:", "amqps:").replace("127.0.0.1", "localhost")


async def test_a_broker_that_is_silent(
    broker: RabbitMQ, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "CONFIRMATION", 0.3)
    async with wire_to(broker.port) as wire, running(broker.at(wire.port), name) as adapter:
        wire.fall_silent()
        with pytest.raises(AdapterUnavailable, match="in time"):
            await adapter.publish([storm()])
        async with asyncio.timeout(20):
            await adapter.close()


async def test_no_broker_at_the_start(
    broker: RabbitMQ, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "adapters")
    async with wire_to(broker.port) as wire:
        await wire.cut()
        async with running(broker.at(wire.port), name) as adapter:
            with pytest.raises(AdapterUnavailable, match="no connection"):
                await adapter.publish([storm()])
            assert reasons(caplog) == "Connection refused"
            await wire.join()
            await published(adapter, storm())  # What is wanted is not confirmed without a queue.
            inbox = Inbox(adapter, SECONDS)
            await inbox.next()
            await adapter.publish([last := storm()])
            assert await inbox.until(last.id) == []
            connected = await until_told(caplog, "adapter.connected")
        assert (connected["adapter"], connected["seconds"] > 0) == ("rabbitmq", True)


async def test_wrong_credentials(
    broker: RabbitMQ, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Once there is such a user, with the permissions of the guide, all goes well."""
    url = broker.at(broker.port, user="late", password="pass/word")
    orders = f"orders-{name}"
    rows = json.dumps([{"exchange": orders, "pattern": "#", "namespace": "urn:orders"}])
    with native(broker) as connection:
        connection.channel().exchange_declare(orders, "topic", durable=True)
    wanted = Interest(Expression("o:*//.", TOPIC_FULL, (("o", "urn:orders"),)))
    async with running(url, name, wanted, destinations=rows) as adapter:
        with pytest.raises(AdapterUnavailable):
            await adapter.publish([storm()])
        assert reasons(caplog) == "the broker refused the user's name or password"
        assert "pass/word" not in str([vars(record) for record in caplog.records])
        await asyncio.to_thread(broker.control, "add_user", "late", "pass/word")
        both = f"^({name}|{orders}$)"
        await asyncio.to_thread(broker.control, "set_permissions", "late", f"^{name}", both, both)
        sent = replace(storm(), topic=Topic((Step("urn:orders", "new"),)))
        await published(adapter, sent)
        assert (await Inbox(adapter, SECONDS).take(1))[0].notification == sent
    await asyncio.to_thread(broker.control, "delete_user", "late")


async def test_a_queue_that_is_full(broker: RabbitMQ, name: str) -> None:
    policy = '{"max-length": 1, "overflow": "reject-publish"}'
    await asyncio.to_thread(broker.control, "set_policy", name, f"^{name}", policy)
    async with running(broker.url, name, partitions="1", prefetch="1") as adapter:
        sent = [storm(number) for number in range(5)]
        with pytest.raises(AdapterUnavailable, match="refused"):
            for one in sent:
                await adapter.publish([one])
        assert (await Inbox(adapter, SECONDS).take(1))[0].notification == sent[0]
    await asyncio.to_thread(broker.control, "clear_policy", name)


async def test_a_queue_is_deleted(broker: RabbitMQ, name: str) -> None:
    async with running(broker.url, name, partitions="1") as adapter:
        inbox = Inbox(adapter, SECONDS)
        await adapter.publish([storm()])
        await inbox.take(1)
        await asyncio.to_thread(broker.control, "delete_queue", f"{name}.00")
        sent = [storm(number) for number in range(20)]
        for one in sent:
            await published(adapter, one)
        ids = [one.id for one in sent]
        assert [delivery.notification.id for delivery in await inbox.take(20)] == ids


async def test_queues_that_were_deleted_meanwhile_are_told(
    broker: RabbitMQ, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Not at the first start, nor when all are there."""
    for _ in range(2):
        async with running(broker.url, name) as adapter:
            assert adapter.capabilities.reporting().gone == ()  # type: ignore[misc, union-attr]
    assert told(caplog, "adapter.queues_gone") == []
    for partition in (3, 12):
        await asyncio.to_thread(broker.control, "delete_queue", f"{name}.{partition:02}")
    async with running(broker.url, name) as adapter:
        [gone] = told(caplog, "adapter.queues_gone")
        assert gone["queues"] == [f"{name}.03", f"{name}.12"]
        assert list(adapter.capabilities.reporting().gone) == gone["queues"]  # type: ignore[misc, union-attr]


async def test_an_exchange_is_deleted(broker: RabbitMQ, name: str) -> None:
    """Nobody tells a consumer that a binding is gone: publishing to what is wanted does."""
    async with running(broker.url, name) as adapter:
        inbox = Inbox(adapter, SECONDS)
        # There is no command for it, so another connection does it.
        for gone in (f"{name}.interests.a", name):
            await asyncio.to_thread(_delete_exchange, broker, gone)
            assert await published(adapter, sent := storm()) > 0
            assert (await inbox.take(1))[0].notification == sent


def _delete_exchange(broker: RabbitMQ, exchange: str) -> None:
    with native(broker) as connection:
        connection.channel().exchange_delete(exchange)


async def test_an_alarm(broker: RabbitMQ, name: str) -> None:
    """A broker short of memory takes nothing, and gives what it has."""
    async with running(broker.url, name) as adapter:
        inbox = Inbox(adapter, SECONDS)
        sent = [storm(number) for number in range(200)]
        doubtful = storm(1000)
        await adapter.publish(sent)
        limit = "set_vm_memory_high_watermark"
        await asyncio.to_thread(broker.control, limit, "0.0000001")
        try:
            for _ in range(3):
                with pytest.raises(AdapterUnavailable) as refused:
                    await adapter.publish([doubtful])
                assert refused.value.retry_after == publishing.BLOCKED
            taken = await inbox.take(200)
            assert [delivery.notification for delivery in taken] == sent
        finally:
            await asyncio.to_thread(broker.control, limit, "0.6")
        last = storm(1001)
        await published(adapter, last)
        assert set(await inbox.until(last.id)) <= {doubtful.id}


async def test_a_crash_between_the_old_interests_and_the_new(broker: RabbitMQ, name: str) -> None:
    """Whatever exchanges it left: all that is wanted arrives, once, and nothing else is there."""
    async with running(broker.url, name):
        pass
    for slots in ("", "a", "b", "c", "ab", "bc", "ca", "abc"):
        await asyncio.to_thread(leave, broker, name, slots)
        async with running(broker.url, name) as adapter:
            calm, sent, last = storm(0, "calm"), storm(1), storm(2)
            await adapter.publish([calm, sent, last])
            assert await Inbox(adapter, SECONDS).until(last.id) == [sent.id]
        with native(broker) as connection:
            waiting = [
                connection.channel().queue_declare(f"{name}.{partition:02}", passive=True)
                for partition in range(16)
            ]
            assert [frame.method.message_count for frame in waiting] == [0] * 16
            assert sum(exists(connection, f"{name}.interests.{slot}") for slot in "abc") == 1


async def test_no_gap_between_runs(broker: RabbitMQ, name: str) -> None:
    """A native program publishes all the time; gateways come and go. All comes, and once."""
    async with running(broker.url, name):
        pass
    stop = threading.Event()
    publishing = asyncio.create_task(asyncio.to_thread(publish_on_and_on, broker, name, stop))
    taken: list[str] = []
    for _ in range(6):
        async with running(broker.url, name, STORM) as adapter:
            inbox = Inbox(adapter, SECONDS)
            taken += [one.notification.id for one in await inbox.take(20)]
        await asyncio.sleep(0.05)  # The program publishes between two runs, too.
    stop.set()
    count = await publishing
    async with running(broker.url, name, STORM) as adapter:
        taken += [
            one.notification.id for one in await Inbox(adapter, SECONDS).take(count - len(taken))
        ]
    assert sorted(taken, key=int) == [str(number) for number in range(count)]


def publish_on_and_on(broker: RabbitMQ, name: str, stop: threading.Event) -> int:
    """Publish numbered messages, each confirmed; how many."""
    number = 0
    with native(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        while not stop.is_set():
            key = f"dragoman.adhoc.storm.{number % 7}"
            properties = pika.BasicProperties(message_id=str(number), delivery_mode=2)
            channel.basic_publish(name, key, b"<a/>", properties, mandatory=True)
            number += 1
    return number


def leave(broker: RabbitMQ, name: str, slots: str) -> None:
    """Leave exactly *slots*, all of which want everything."""
    with native(broker) as connection:
        channel = connection.channel()
        for slot in "abc":
            channel.exchange_delete(f"{name}.interests.{slot}")
        for slot in slots:
            exchange = f"{name}.interests.{slot}"
            channel.exchange_declare(exchange, "fanout", durable=True, internal=True)
            channel.exchange_bind(exchange, name, "#")
            channel.exchange_bind(f"{name}.partitions", exchange)


def exists(connection: pika.BlockingConnection, exchange: str) -> bool:
    try:
        connection.channel().exchange_declare(exchange, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    return True


@contextlib.contextmanager
def native(broker: RabbitMQ) -> Iterator[pika.BlockingConnection]:
    """A program that knows no Dragoman."""
    with contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
        yield connection


async def test_a_broker_that_cannot_hash(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with rabbitmq_node("[].\n") as node:
        for _ in range(2):
            async with running(node.url, name) as adapter:
                sent = [
                    storm(number, topic) for number in range(5) for topic in ("storm", "storms")
                ]
                await adapter.want(Interest(Expression("storms", TOPIC_FULL)))
                await adapter.publish(sent)
                taken = await Inbox(adapter, SECONDS).take(10)
                assert [delivery.notification for delivery in taken] == sent
                assert {delivery.partition for delivery in taken} == {0}
        said = told(caplog, "adapter.partitions_unavailable")
        assert len(said) == 2  # once in each run
        assert "rabbitmq-plugins enable rabbitmq_consistent_hash_exchange" in said[0]["mend"]


async def test_a_restart(broker: RabbitMQ, name: str) -> None:
    """What was confirmed comes, in the order of its topic."""
    topics = [f"storm{number}" for number in range(30)]
    confirmed = [storm(number, topic) for number in range(3) for topic in topics]
    async with running(broker.url, name, EVERYTHING_WANTED) as adapter:
        inbox = Inbox(adapter, SECONDS)
        await adapter.publish(confirmed)
        held = await inbox.take(40, settle=False)
        assert len({delivery.partition for delivery in held}) > 1
        await asyncio.to_thread(broker.stop)
        with pytest.raises(AdapterUnavailable):
            await adapter.publish([storm()])
        await broker.start_again()
        for delivery in held:
            delivery.settle()
        await published(adapter, last := storm(9, "last"))
        taken = [delivery.notification for delivery in await inbox.take(91)]
        assert {one.id for one in taken} == {one.id for one in [*confirmed, last]}
        for one in topics:
            topic = Topic((Step(None, one),))
            assert [each for each in taken if each.topic == topic] == [
                each for each in confirmed if each.topic == topic
            ]
