"""A node behind AMQP: what is published goes to a real RabbitMQ, and comes from there."""

import contextlib
import uuid
from collections.abc import Sequence
from pathlib import Path

import pika
import pytest

from mediation.names import TDN
from tests.gateway.discovery.test_revocations import id_of, lend, lent, revocation, tell
from tests.rigs.brokers import needs_rabbitmq, rabbitmq, wire_to
from tests.rigs.consumers import Consumers
from tests.rigs.discovery_exchange import exchange, native, native_exchange
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.discovery_rights import (
    NAMESPACE,
    OWNER,
    Rig,
    native_messages_need_the_right,
    numbers,
    protected_topic,
    what_the_broker_was_away_for_arrives,
)
from tests.rigs.gateways import running
from tests.rigs.waiting import seconds_of, until

needs_rabbitmq()

pytestmark = pytest.mark.slow
SECONDS = 20.0
"""For an answer."""


def names() -> tuple[str, str]:
    """A name for an exchange and queues, and the query of a URL that names it."""
    name = f"discovery-{uuid.uuid4().hex[:8]}"
    return name, f"?name={name}&exchange={name}&prefix.tide={NAMESPACE}"


async def test_a_node_behind_amqp(tmp_path: Path) -> None:
    settings = {**node_settings(tmp_path), "adapter": rabbitmq().url + names()[1]}
    async with Consumers() as consumers, running(tmp_path, **settings) as run:
        await exchange(run, consumers)


async def test_an_entity_that_speaks_amqp_alone(tmp_path: Path) -> None:
    name, query = names()
    url = f"{rabbitmq().url}{query}&prefix.tdn={TDN}"
    async with running(tmp_path, **node_settings(tmp_path), adapter=url) as run:
        parameters = pika.URLParameters(rabbitmq().url)
        with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
            channel = connection.channel()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.queue_bind(queue, name, f"dragoman.tdn.Entity.{native().id}")

            def send(levels: Sequence[str], body: bytes) -> None:
                channel.basic_publish(name, ".".join(["dragoman.tdn", *levels]), body)

            def next_answer() -> bytes:
                for _, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=SECONDS):
                    assert body is not None, "no answer comes"
                    return bytes(body)
                raise AssertionError("the queue is gone")

            await native_exchange(run, send, next_answer)


async def test_native_messages_on_protected_topics(tmp_path: Path) -> None:
    name, query = names()

    def send(destination: str, body: bytes, headers: dict[str, str]) -> None:
        parameters = pika.URLParameters(rabbitmq().url)
        with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
            properties = pika.BasicProperties(headers=headers)
            connection.channel().basic_publish(name, destination, body, properties)

    async with protected_topic(tmp_path, adapter=rabbitmq().url + query) as rig:
        key = ".".join(["dragoman.tide", *(step.name for step in rig.topic.steps)])
        await native_messages_need_the_right(rig, key, send)


async def test_what_was_accepted_outlives_an_outage_of_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with wire_to(rabbitmq().port) as wire:
        url = rabbitmq().at(wire.port) + names()[1]
        async with protected_topic(tmp_path, adapter=url, spool=True) as rig:
            await what_the_broker_was_away_for_arrives(rig, wire, monkeypatch)


async def test_gateways_with_stores_of_their_own_obey_a_revocation(tmp_path: Path) -> None:
    """It is published at one of two nodes that share a broker alone."""
    name = f"discovery-{uuid.uuid4().hex[:8]}"
    urls = [
        f"{rabbitmq().url}?name={name}-{each}&exchange={name}&prefix.tide={NAMESPACE}"
        for each in "ab"
    ]
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
    chosen = {**node_settings(tmp_path / "b"), "trusted": ("127.0.0.1",), "adapter": urls[1]}
    async with (
        running(tmp_path / "b", **chosen) as there,
        protected_topic(tmp_path / "a", adapter=urls[0]) as rig,
    ):
        other = Rig(there, rig.consumers, rig.topic, rig.advertisement)
        assert there.gateway.discovery is not None
        known = there.gateway.discovery.protected_topics
        await until(lambda: len(known) == 1, SECONDS)
        sink, delegation = await lend(other)
        assert (await other.publish(1, OWNER)).status == 202
        await until(lambda: numbers(sink) == ["1"], SECONDS)
        await tell(rig, revocation(rig.topic_id, id_of(delegation)))
        assert await seconds_of(until(lambda: not lent(other), SECONDS)) < 5.0
        again = await other.owner_subscribes()
        assert (await other.publish(2, OWNER)).status == 202
        await until(lambda: numbers(again) == ["2"], SECONDS)
        assert numbers(sink) == ["1"]
