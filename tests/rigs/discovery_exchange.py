"""The whole exchange of topic discovery with a gateway that is a node, in several dialects."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from urllib.parse import quote

from lxml import etree

from filters import Topic
from mediation.discovery import (
    NODES,
    TOPICS,
    NodeDiscoveryResponse,
    TopicDiscoveryResponse,
    queries_of,
    topic_of,
)
from tests.rigs.consumers import Consumer, Consumers
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties
from tests.rigs.envelopes import Speaker as Peer
from tests.rigs.envelopes import topic_expression, wse_filter
from tests.rigs.gateways import Running
from tests.rigs.waiting import until

TDN = 'xmlns:tdn="urn:dragoman:tdn:1"'


def _now() -> datetime:
    return datetime.now(UTC)


async def say(run: Running, octets: bytes, topic: Topic) -> None:
    """Publish a message as WS-Eventing's publishers do."""
    await run.publish(octets.decode(), path=f"/soap/topic/{quote(str(topic), safe='')}")


async def answer_to(consumer: Consumer) -> bytes:
    receipt = await consumer.next()
    return etree.tostring(receipt.payload)


async def exchange(run: Running, consumers: Consumers) -> None:
    """A creator listens in WS-Eventing, who looks for topics in WS-Notification."""
    node = parties().node_id
    creates, seeks = Speaker(parties().producer), Speaker(parties().consumer)
    creator, seeker, peer = consumers.add(), consumers.add(), Peer()
    full = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete"
    where = wse_filter(f"tdn:Entity/{creates.id}", full, TDN)
    await run.subscribe(peer, peer.wse_subscribe(creator.url, filter=where))
    there = topic_expression(f"tdn:Entity/{seeks.id}", scope=TDN)
    await run.subscribe(peer, peer.wsn_subscribe(seeker.url, filter=there))

    await say(run, creates.look_for_nodes(_now()), NODES)
    offer = creates.read(await answer_to(creator), _now()).message
    assert isinstance(offer, NodeDiscoveryResponse)
    request = creates.creation(_now())
    await say(run, creates.for_node(request), topic_of(node))
    created = creates.made(request, await answer_to(creator), _now())
    await say(run, creates.advertisement(created, _now()), TOPICS)
    await until(
        lambda: run.gateway.discovery is not None and bool(run.gateway.discovery.protected_topics)
    )
    await say(run, seeks.query(_now(), "mole"), queries_of(node))
    answer = seeks.read(await answer_to(seeker), _now()).message
    assert isinstance(answer, TopicDiscoveryResponse)
    assert len(answer.advertisements) == 1


@cache
def native() -> Speaker:
    """Who speaks to a broker natively."""
    return Speaker(parties().producer)


async def native_exchange(
    run: Running,
    send: Callable[[Sequence[str], bytes], None],
    next_answer: Callable[[], bytes],
) -> None:
    """An entity that speaks to the broker alone makes a topic, and finds it.

    Args:
        send: Publishes on a topic of topic discovery, by its levels.
        next_answer: Waits for what comes to the own topic of `native()`.
    """

    async def say(octets: bytes, topic: Topic) -> None:
        await asyncio.to_thread(send, [step.name for step in topic.steps], octets)

    async def answer() -> bytes:
        return await asyncio.to_thread(next_answer)

    node, us = parties().node_id, native()
    await say(us.look_for_nodes(_now()), NODES)
    offer = us.read(await answer(), _now()).message
    assert isinstance(offer, NodeDiscoveryResponse)
    request = us.creation(_now())
    await say(us.for_node(request), topic_of(node))
    created = us.made(request, await answer(), _now())
    await say(us.advertisement(created, _now()), TOPICS)
    await until(
        lambda: run.gateway.discovery is not None and bool(run.gateway.discovery.protected_topics)
    )
    await say(us.query(_now(), "mole"), queries_of(node))
    found = us.read(await answer(), _now()).message
    assert isinstance(found, TopicDiscoveryResponse)
    assert len(found.advertisements) == 1
