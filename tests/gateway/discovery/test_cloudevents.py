"""An entity that speaks nothing but HTTP and JSON: it asks a node by CloudEvents, and is answered by
one."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from filters import Topic
from mediation.discovery import (
    NODES,
    TOPICS,
    NodeDiscoveryResponse,
    TopicDiscoveryResponse,
    topic_of,
)
from tests.rigs.cloudevents import agreeing, event, post, publish, received
from tests.rigs.consumers import Consumer, Consumers
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

HEADERS = {"specversion": "1.0", "source": "urn:elsewhere", "type": "tdn"}


def now() -> datetime:
    return datetime.now(UTC)


def clark(topic: Topic) -> str:
    first, *others = topic.steps
    return "/".join([f"{{{first.namespace}}}{first.name}", *(one.name for one in others)])


async def listen(run: Running, sink: Consumer, topic: Topic) -> None:
    wanted = {"sink": sink.url, "protocol": "HTTP", "config": {"topic": clark(topic)}}
    answer = await post(
        run, json.dumps(wanted).encode(), "application/json", "/events/subscriptions"
    )
    assert answer.status == 201, answer.body


async def say(run: Running, octets: bytes, topic: Topic, **more: Any) -> None:
    told = event(
        topic=clark(topic), datacontenttype="application/xml", data=octets.decode(), **more
    )
    answer = await publish(run, told)
    assert answer.status == 202, answer.body


async def say_in_binary(run: Running, octets: bytes, topic: Topic) -> None:
    headers = {f"ce_{name}": value for name, value in HEADERS.items()}
    headers |= {"ce_id": "1", "ce_topic": clark(topic)}
    answer = await post(run, octets, "application/xml", **headers)
    assert answer.status == 202, answer.body


async def answer_in(sink: Consumer) -> bytes:
    while True:
        receipt = await sink.next()
        if receipt.method == "POST":  # Else it is the handshake.
            return str(received(receipt)["data"]).encode()


@pytest.mark.parametrize("say_it", [say, say_in_binary])
@pytest.mark.parametrize("stranger", [False, True], ids=["with a key", "without"])
async def test_a_query_by_a_post_is_answered(tmp_path: Path, say_it: Any, stranger: bool) -> None:
    asks = Speaker(None if stranger else parties().consumer)
    owns = Speaker(parties().producer)
    async with Consumers() as consumers, running(tmp_path, **node_settings(tmp_path)) as run:
        theirs, ours = consumers.add(agreeing()), consumers.add(agreeing())
        await listen(run, theirs, topic_of(owns.id))
        request = owns.creation(now())
        await say(run, owns.for_node(request), topic_of(parties().node_id))
        created = owns.made(request, await answer_in(theirs), now())
        await say(run, owns.advertisement(created, now()), TOPICS)
        service = run.gateway.discovery
        assert service is not None
        await until(lambda: len(service.protected_topics) == 1)

        await listen(run, ours, topic_of(asks.id))
        await say(run, asks.look_for_nodes(now()), NODES)
        offer = asks.read(await answer_in(ours), now()).message
        assert isinstance(offer, NodeDiscoveryResponse)
        await say_it(run, asks.query(now(), "mole"), TOPICS)
        octets = await answer_in(ours)
        assert (b"EncryptedData" in octets) is not stranger
        found = asks.read(octets, now()).message
        assert isinstance(found, TopicDiscoveryResponse)
        assert len(found.advertisements) == 1
