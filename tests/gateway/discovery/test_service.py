"""A gateway that is a topic discovery node, spoken to by messages alone; and what is left of each
message that is lost, or doubled, or handled when the process is killed."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from gateway.discovery import service
from gateway.discovery.limits import NodeLimits
from gateway.discovery.node import Node
from gateway.store import advertisements, claims
from mediation.discovery import (
    NODES,
    NodeDiscoveryResponse,
    Refusal,
    SignedTopicAdvertisement,
    queries_of,
    read_as,
    topic_of,
)
from tests.rigs.consumers import Consumers
from tests.rigs.discovery_at_work import (
    CONSUMER,
    PRODUCER,
    Published,
    advertise,
    at_work,
    message,
    now,
)
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_exchange import exchange
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.gateways import running
from tests.rigs.stores import on_each_store, sqlite_url
from tests.rigs.waiting import until


@on_each_store
async def test_what_is_advertised_outlives_the_process(store_url: str) -> None:
    async with at_work(store_url) as node:
        await advertise(node)
        assert await node.ask() == 1
    async with at_work(store_url) as node:
        assert await node.ask() == 1


@on_each_store
async def test_what_is_withdrawn_is_not_found_and_does_not_return(store_url: str) -> None:
    async with at_work(store_url) as node:
        advertisement = await advertise(node)
        topic_id = read_as(SignedTopicAdvertisement, advertisement).value.topic_id
        await node.tell(CONSUMER.withdrawal(topic_id, now()))
        assert await node.ask() == 1, "only its creator withdraws a topic"
        await node.tell(PRODUCER.withdrawal(topic_id, now()))
        assert await node.ask() == 0
        await node.tell(advertisement)
        assert await node.ask() == 0


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_the_loss_of_each_message(store_url: str) -> None:
    """Whatever does not come leaves nothing behind at the node, and repeating it gets on."""
    node_id = parties().node_id
    async with at_work(store_url) as node:
        # The search for nodes, or its answer, is lost: it is sent again.
        for _ in range(2):
            await node.tell(PRODUCER.look_for_nodes(now()), NODES)
        offers = [
            PRODUCER.read(each.payload, now()).message for each in node.published.to(PRODUCER)
        ]
        assert [type(offer) for offer in offers] == [NodeDiscoveryResponse] * 2
        # The answer to a creation is lost: another topic is made, the first one is nowhere.
        for _ in range(2):
            request = PRODUCER.creation(now())
            await node.tell(PRODUCER.for_node(request), topic_of(node_id))
        assert len(node.service.node.catalogue) == 0
        assert await node.ask() == 0
        created = PRODUCER.made(request, node.published.to(PRODUCER)[-1].payload, now())
        # The advertisement is lost: it is published again.
        await node.tell(PRODUCER.advertisement(created, now()))
        assert await node.ask() == 1
        # The answer to the query is lost: it is asked again.
        assert await node.ask() == 1
        assert len(node.service.node.catalogue) == 1


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_doubled_and_replayed(store_url: str) -> None:
    async with at_work(store_url) as node:
        octets = PRODUCER.look_for_nodes(now())
        first = await node.tell(octets, NODES)
        await node.tell(octets, NODES)  # Somebody copied it.
        assert len(node.published.to(PRODUCER)) == 1
        first.settled = False
        await node.again(first)  # The messaging system yields it once more.
        assert len(node.published.to(PRODUCER)) == 1


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_killed_between_steps(store_url: str) -> None:
    """Before the answer is published, and before the message is settled: it comes again, and is
    answered once. What was kept is kept once."""
    published = Published(failures=10**9)
    request = PRODUCER.creation(now())
    asked = message(PRODUCER.for_node(request), topic_of(parties().node_id))
    async with at_work(store_url, published) as node:
        node.service.accept(asked)
        await until(lambda: published.failures < 10**9)
    assert not asked.settled
    published.failures = 0
    async with at_work(store_url, published) as node:
        await node.again(asked)
        [answer] = published.to(PRODUCER)
    asked.settled = False
    async with at_work(store_url, published) as node:
        await node.again(asked)
        assert published.to(PRODUCER) == [answer]
        created = PRODUCER.made(request, answer.payload, now())
        advertised = await node.tell(PRODUCER.advertisement(created, now()))
    advertised.settled = False
    async with at_work(store_url, published) as node:
        await node.again(advertised)
        assert await node.ask() == 1


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_creations_a_minute_are_counted_across_restarts(store_url: str) -> None:
    few = NodeLimits(creations=2)
    for number in range(3):
        async with at_work(store_url, node=few) as node:
            request = PRODUCER.creation(now())
            await node.tell(PRODUCER.for_node(request), topic_of(parties().node_id))
            [answer] = node.published.to(PRODUCER)
            refused = isinstance(PRODUCER.read(answer.payload, now()).message, Refusal)
            assert refused is (number == 2)


async def test_replicas_are_one_node(postgresql_url: str) -> None:
    async with (
        at_work(postgresql_url, shared=True) as one,
        at_work(postgresql_url, shared=True) as other,
    ):
        await advertise(one)
        assert await other.ask() == 1
        assert one.service.protected_topics == other.service.protected_topics
        assert len(one.service.protected_topics) == 1
        octets = PRODUCER.look_for_nodes(now())
        await one.tell(octets, NODES)
        await other.tell(octets, NODES)  # A copy: one of them has answered.
        assert len(other.published.to(PRODUCER)) == 0


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_a_node_restarted_empty_is_full_after_the_next_round(
    store_url: str, tmp_path: Path
) -> None:
    async with at_work(store_url) as node:
        advertisement = await advertise(node)
    empty = tmp_path / "empty"
    empty.mkdir()
    async with at_work(sqlite_url(empty)) as node:
        assert await node.ask() == 0
        await node.tell(advertisement)
        await node.tell(advertisement)  # And another node hands on the same.
        assert await node.ask() == 1


async def test_a_failure_does_not_end_the_purge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def fail_once(self: Node, now: datetime) -> Iterator[str]:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise RuntimeError("a defect")
        return iter(())

    monkeypatch.setattr(service, "PURGE", 0.0)
    monkeypatch.setattr(Node, "expired", fail_once)
    async with at_work(sqlite_url(tmp_path)):
        await until(lambda: looks > 1)


@pytest.mark.runs_once("it counts what operations do")
async def test_whoever_keeps_house_counts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it begins to, and from time to time: a gateway of an older version may count nothing."""
    recounts, purges, keeps = 0, 0, False
    recount, purge = claims.recount, advertisements.purge

    def recounted(connection: Connection) -> bool:
        nonlocal recounts
        recounts += 1
        return recount(connection)

    def purged(connection: Connection, now: float) -> bool:
        nonlocal purges
        purges += 1
        return purge(connection, now)

    async def rounds() -> int:
        """The counts after two more rounds."""
        seen = purges
        await until(lambda: purges > seen + 2)
        return recounts

    monkeypatch.setattr(service, "PURGE", 0.0)
    monkeypatch.setattr(claims, "recount", recounted)
    monkeypatch.setattr(advertisements, "purge", purged)
    async with at_work(sqlite_url(tmp_path), keeps_house=lambda: keeps):
        assert await rounds() == 0
        keeps = True
        assert [await rounds(), await rounds()] == [1, 1]
        keeps = False
        await rounds()
        keeps = True
        assert await rounds() == 2
        monkeypatch.setattr(service, "RECOUNT", 0.0)
        assert await rounds() > 3


async def test_what_waits_for_the_messaging_system_is_no_replay_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "RETRY", 0.0)
    stranger = Speaker(None)
    async with at_work(sqlite_url(tmp_path)) as node:
        await advertise(node)
        node.published.failures = 2
        await node.tell(stranger.query(now(), "mole"))
        assert len(node.published.to(stranger)) == 1


async def test_a_message_that_fails_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Node.read

    def fail_at_nonsense(self: Node, octets: bytes, *args: Any, **more: Any) -> Any:
        if octets == b"nonsense":
            raise RuntimeError("a defect")
        return read(self, octets, *args, **more)

    monkeypatch.setattr(Node, "read", fail_at_nonsense)
    stranger = Speaker(None)
    async with at_work(sqlite_url(tmp_path)) as node:
        await advertise(node)
        told = [message(stranger.query(now(), "mole")), message(b"nonsense")]
        for each in told:  # Both are of one batch.
            node.service.accept(each)
        await until(lambda: all(each.settled for each in told))
        assert len(node.published.to(stranger)) == 1


async def test_one_source_leaves_room_for_others(tmp_path: Path) -> None:
    async with at_work(sqlite_url(tmp_path)) as node:
        await advertise(node)
        flood = [message(b"<") for _ in range(service.WAITING + 1)]
        query = message(CONSUMER.query(now(), "mole"), queries_of(parties().node_id))
        query.notification = replace(query.notification, source="urn:another")
        for each in [*flood, query]:  # Nothing is handled meanwhile.
            node.service.accept(each)
        assert sum(each.settled for each in flood) == len(flood) - service.OF_SOURCE
        assert not query.settled
        await until(lambda: query.settled)
        assert node.found() == 1
        for each in (message(b"<") for _ in range(service.OF_SOURCE)):
            node.service.accept(each)
            assert not each.settled, "there is room again"


# The whole gateway, in several dialects.


async def test_dialects_meet(tmp_path: Path) -> None:
    async with Consumers() as consumers, running(tmp_path, **node_settings(tmp_path)) as run:
        await exchange(run, consumers)
        metrics = (await run.admin("GET", "/metrics")).body.decode()
        assert "dragoman_discovery_advertisements 1.0" in metrics
        assert 'dragoman_discovery_messages_total{outcome="created"} 1.0' in metrics
