"""A node behind STOMP: what is published goes to a real ActiveMQ, and comes from there."""

import uuid
from pathlib import Path

import pytest
import stomp

from tests.rigs.activemq import activemq, needs_activemq
from tests.rigs.brokers import PASSWORD, USER, wire_to
from tests.rigs.discovery_rights import (
    NAMESPACE,
    native_messages_need_the_right,
    protected_topic,
    what_the_broker_was_away_for_arrives,
)

needs_activemq()

pytestmark = pytest.mark.slow


def names() -> tuple[str, str]:
    """The first word of destinations, and the query of a URL that names it."""
    name = f"discovery-{uuid.uuid4().hex[:8]}"
    return name, f"?name={name}&root={name}&prefix.tide={NAMESPACE}"


async def test_native_messages_on_protected_topics(tmp_path: Path) -> None:
    root, query = names()

    def send(destination: str, body: bytes, headers: dict[str, str]) -> None:
        connection = stomp.Connection12([("127.0.0.1", activemq().port)])
        connection.connect(USER, PASSWORD, wait=True, with_connect_command=True)
        connection.send(destination, body.decode(), headers=headers)
        connection.disconnect(receipt="done")

    async with protected_topic(tmp_path, adapter=activemq().url + query) as rig:
        steps = ".".join(step.name for step in rig.topic.steps)
        destination = f"/topic/VirtualTopic.{root}.tide.{steps}"
        await native_messages_need_the_right(rig, destination, send)


async def test_what_was_accepted_outlives_an_outage_of_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with wire_to(activemq().port) as wire:
        url = activemq().at(wire.port) + names()[1]
        async with protected_topic(tmp_path, adapter=url, spool=True) as rig:
            await what_the_broker_was_away_for_arrives(rig, wire, monkeypatch)
