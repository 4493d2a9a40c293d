"""A node behind STOMP: what is published goes to a real ActiveMQ, and comes from there."""

import queue
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import stomp

from mediation.names import TDN
from tests.rigs.activemq import activemq, needs_activemq
from tests.rigs.brokers import PASSWORD, USER, wire_to
from tests.rigs.discovery_exchange import native, native_exchange
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.discovery_rights import (
    NAMESPACE,
    native_messages_need_the_right,
    protected_topic,
    what_the_broker_was_away_for_arrives,
)
from tests.rigs.gateways import running

needs_activemq()

pytestmark = pytest.mark.slow
SECONDS = 20.0
"""For an answer."""


def names() -> tuple[str, str]:
    """The first word of destinations, and the query of a URL that names it."""
    name = f"discovery-{uuid.uuid4().hex[:8]}"
    return name, f"?name={name}&root={name}&prefix.tide={NAMESPACE}"


class Answers(stomp.ConnectionListener):  # type: ignore[misc]  # It has no types.
    """Keeps what comes."""

    def __init__(self) -> None:
        self.queue: queue.Queue[bytes] = queue.Queue()

    def on_message(self, frame: Any) -> None:
        self.queue.put(frame.body.encode())


async def test_an_entity_that_speaks_stomp_alone(tmp_path: Path) -> None:
    root, query = names()
    url = f"{activemq().url}{query}&prefix.tdn={TDN}"
    async with running(tmp_path, **node_settings(tmp_path), adapter=url) as run:
        connection, answers = stomp.Connection12([("127.0.0.1", activemq().port)]), Answers()
        connection.set_listener("", answers)
        connection.connect(USER, PASSWORD, wait=True, with_connect_command=True)

        def place(levels: Sequence[str]) -> str:
            return ".".join([f"/topic/VirtualTopic.{root}.tdn", *levels])

        def send(levels: Sequence[str], body: bytes) -> None:
            connection.send(place(levels), body.decode())

        try:
            own = place(["Entity", native().id])
            connection.subscribe(own, id="1", ack="auto", headers={"receipt": "listens"})
            await native_exchange(run, send, lambda: answers.queue.get(timeout=SECONDS))
        finally:
            connection.disconnect()


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
