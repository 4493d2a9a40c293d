"""A node's process, killed with kill -9: what it answered is so afterwards, under the same key."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from gateway.client import Client, Consumer, GatewayError
from gateway.client.discovery import Entity, Found, entity
from mediation.discovery import (
    Created,
    Descriptors,
    Dialect,
    Head,
    Query,
    Right,
    TopicDiscoveryRequest,
    TopicDiscoveryResponse,
    queries_of,
    topic_of,
)
from tests.rigs.discovery import PATH
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.processes import GatewayProcess
from tests.rigs.stores import on_each_store
from tests.rigs.waiting import until

WAIT = 20.0
"""Seconds for what surely comes."""
LONG = timedelta(minutes=9)
"""How long a request is valid: longer than a start takes on a busy machine."""


def node_process(folder: Path, store: str) -> GatewayProcess:
    found = node_settings(folder)["discovery"]
    environment = {f"DRAGOMAN_DISCOVERY__{name.upper()}": str(path) for name, path in found.items()}
    data = folder / "data"
    return GatewayProcess(data, {**environment, "DRAGOMAN_STORE": store}, "--discovery-node")


@asynccontextmanager
async def somebody(gateway: GatewayProcess, speaker: Speaker) -> AsyncIterator[Entity]:
    assert speaker.credentials is not None
    async with (
        Client(gateway.url) as client,
        Consumer() as inbox,
        entity(client, inbox, speaker.credentials, parties().trust) as made,
    ):
        yield made


async def make(owner: Entity, text: str) -> Created:
    offers = await owner.find_nodes(enough=1, wait=WAIT)
    return await owner.create_topic(Descriptors(texts=(text,)), PATH, offers=offers, wait=WAIT)


async def find(who: Entity, text: str) -> list[Found]:
    asked = who.discover(text, node=parties().node_id, wait=WAIT)
    return [found async for found in asked]


@pytest.mark.slow
@on_each_store
async def test_what_was_answered_is_there_after_a_kill(tmp_path: Path, store_url: str) -> None:
    owns, seeks = Speaker(parties().producer), Speaker(parties().consumer)
    gateway = node_process(tmp_path, store_url)
    await gateway.start()
    try:
        async with somebody(gateway, owns) as owner, somebody(gateway, seeks) as us:
            kept, withdrawn, dormant = [
                await make(owner, text) for text in ("tide north", "tide south", "tide west")
            ]
            await owner.advertise(kept)
            await owner.advertise(withdrawn)
            await owner.withdraw(withdrawn.advertisement.topic_id)
            lent = owner.delegate(kept.advertisement, us.id, Right.SUBSCRIBE)
            await owner.revoke(kept.advertisement, lent)
            [before] = await find(us, "tide")
            assert before.check().advertisement == kept.advertisement
            await gateway.kill()
        await gateway.start()
        async with somebody(gateway, owns) as owner, somebody(gateway, seeks) as us:
            [offer] = await us.find_nodes(enough=1, wait=WAIT)
            assert offer.node == parties().node_id == kept.advertisement.node
            [after] = await find(us, "tide")
            assert after.octets == before.octets
            with pytest.raises(GatewayError, match="no delegation"):
                async with us.subscribed(after, "http://127.0.0.1:9/"):
                    pass
            with pytest.raises(GatewayError, match="is revoked"):
                async with us.subscribed(after, "http://127.0.0.1:9/", delegation=lent):
                    pass
            # What the node made, and forgot, before it was killed.
            await owner.advertise(owner.take_up(dormant.signed))
            assert len(await find(us, "tide")) == 2
            # What was withdrawn does not return.
            await owner.advertise(withdrawn)
            assert len(await find(us, "tide")) == 2
    finally:
        await gateway.end()


def queries(speaker: Speaker, count: int) -> dict[UUID, bytes]:
    """Requests of *speaker*, by their ids."""
    now = datetime.now(UTC)
    heads = [Head(uuid4(), speaker.id, now, now + LONG) for _ in range(count)]
    query = Query(Dialect.STRING.value, "tide")
    return {head.message_id: speaker.signed(TopicDiscoveryRequest(head, query)) for head in heads}


async def say(gateway: GatewayProcess, several: Iterable[bytes]) -> None:
    """Have the node's gateway accept all of them."""
    there = str(queries_of(parties().node_id))
    async with Client(gateway.url) as client:
        await asyncio.gather(*(client.publish(octets, topic=there) for octets in several))


@pytest.mark.slow
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_what_was_accepted_is_answered_once_though_it_was_killed(
    tmp_path: Path, store_url: str
) -> None:
    owns, seeks = Speaker(parties().producer), Speaker(parties().consumer)
    gateway = node_process(tmp_path, store_url)
    gateway.environment["DRAGOMAN_DISCOVERY__QUERIES_PER_SECOND"] = "10000"
    await gateway.start()
    answers: dict[UUID, set[bytes]] = defaultdict(set)

    async def hear(inbox: Consumer) -> None:
        async for message in inbox:
            for one in message.notifications:
                answer = seeks.read(one.payload, datetime.now(UTC)).message
                assert isinstance(answer, TopicDiscoveryResponse)
                assert answer.head.in_reply_to is not None
                answers[answer.head.in_reply_to].add(one.payload)

    try:
        async with somebody(gateway, owns) as owner:
            created = await make(owner, "tide north")
            await owner.advertise(created)
        async with Consumer() as inbox, Client(gateway.url) as client:
            hearing = asyncio.create_task(hear(inbox))
            await client.subscribe(inbox.address, topic=str(topic_of(seeks.id)))
            for count in (50, 200, 400):
                asked = queries(seeks, count)
                await say(gateway, asked.values())
                await gateway.kill()
                left = [one for one in asked if one not in answers]
                await gateway.start()
                await until(lambda: all(one in answers for one in asked), 2 * WAIT)  # noqa: B023
                if left:
                    break
            assert left, "all was answered before the kill: it shows nothing"
            # Whoever copied a request gets no second answer: which shows in that of the next one.
            last = queries(seeks, 1)
            await say(gateway, list(asked.values())[:5])
            await say(gateway, last.values())
            await until(lambda: all(one in answers for one in last), WAIT)
            hearing.cancel()
        assert {len(each) for each in answers.values()} == {1}
    finally:
        await gateway.end()
