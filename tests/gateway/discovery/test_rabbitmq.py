"""A node behind AMQP: what is published goes to a real RabbitMQ, and comes from there."""

import contextlib
import uuid
from pathlib import Path

import pika
import pytest

from tests.rigs.brokers import needs_rabbitmq, rabbitmq, wire_to
from tests.rigs.consumers import Consumers
from tests.rigs.discovery_exchange import exchange
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.discovery_rights import (
    NAMESPACE,
    native_messages_need_the_right,
    protected_topic,
    what_the_broker_was_away_for_arrives,
)
from tests.rigs.gateways import running

needs_rabbitmq()

pytestmark = pytest.mark.slow


def names() -> tuple[str, str]:
    """A name for an exchange and queues, and the query of a URL that names it."""
    name = f"discovery-{uuid.uuid4().hex[:8]}"
    return name, f"?name={name}&exchange={name}&prefix.tide={NAMESPACE}"


async def test_a_node_behind_amqp(tmp_path: Path) -> None:
    settings = {**node_settings(tmp_path), "adapter": rabbitmq().url + names()[1]}
    async with Consumers() as consumers, running(tmp_path, **settings) as run:
        await exchange(run, consumers)


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
