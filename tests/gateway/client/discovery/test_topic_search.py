"""Answers of several nodes: late ones come, doubles do not; who is asked; where nobody answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from filters.queries import Conditions
from gateway.client import GatewayError
from gateway.client.discovery import Entity, Found, read_query
from mediation.discovery import (
    Descriptors,
    Dialect,
    EncryptedAdvertisement,
    Purpose,
    Role,
    hand_on,
    read_advertisement,
)
from tests.rigs.discovery import DESCRIPTORS, PATH
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_substrate import NodeThere, Substrate, on, other_authority
from tests.rigs.waiting import until

LONG = 30.0
"""Seconds that no test waits: it ends by what comes."""
SHORT = 0.2


@asynccontextmanager
async def several(count: int) -> AsyncIterator[tuple[Substrate, list[NodeThere], Entity, Entity]]:
    """Nodes, an entity that has topics, and one that looks for them."""
    substrate = Substrate()
    nodes = [substrate.node(name) for name in ("", "north", "south")[:count]]
    async with on(substrate, parties().producer) as owner, on(substrate, parties().consumer) as us:
        yield substrate, nodes, owner, us


async def topic_at(owner: Entity, node: NodeThere, text: str) -> str:
    """Have *node* make a topic, and advertise it to all."""
    offers = await owner.find_nodes(nodes=[node.id], enough=1, wait=LONG)
    made = await owner.create_topic(Descriptors(texts=(text,)), PATH, offers=offers, wait=LONG)
    await owner.advertise(made)
    return str(made.advertisement.topic_id)


def ids(found: list[Found]) -> list[str]:
    return [str(one.topic_id) for one in found]


async def test_a_late_answer_comes_and_doubles_do_not() -> None:
    async with several(3) as (substrate, nodes, owner, us):
        common = await topic_at(owner, nodes[0], "north mole")
        nodes[0].node.remove(common)
        late = await topic_at(owner, nodes[2], "north pier")
        for there in nodes[:2]:
            there.node.remove(late)
        nodes[2].held = []
        found = []
        async with aclosing(us.discover("north", wait=LONG, most=2)) as answers:
            async for one in answers:
                found.append(one)
                if nodes[2].held is not None:
                    assert ids(found) == [common]
                    substrate.release(nodes[2])
        assert sorted(ids(found)) == sorted([common, late]), "each once, though two nodes know one"
        assert [one.answered_by for one in found] == [nodes[1].id, nodes[2].id]
        assert all(one.is_genuine for one in found)


async def test_an_encrypted_topic_is_found_by_its_id_and_read_with_a_key() -> None:
    async with several(1) as (_, _nodes, owner, us):
        offers = await owner.find_nodes(enough=1, wait=LONG)
        made = await owner.create_topic(DESCRIPTORS, PATH, encrypted=True, offers=offers, wait=LONG)
        await owner.advertise(made)
        query = read_query(f"id={made.advertisement.topic_id}")
        [found] = [one async for one in us.discover(query, wait=LONG, most=1)]
        assert us.open(found) is None
        with pytest.raises(GatewayError, match="encrypted"):
            us.subscribed(found, "urn:sink")
        hidden = read_advertisement(made.signed).value
        assert isinstance(hidden, EncryptedAdvertisement)
        known = parties()
        ours, another = (
            hand_on(hidden.data, owner.id, known.producer, id_, credentials.certificate)
            for id_, credentials in ((us.id, known.consumer), (owner.id, known.producer))
        )
        assert us.open(found, another) is None
        assert us.open(found, b"<none/>", another, ours) == made.advertisement
        [found] = [one async for one in owner.discover(query, wait=LONG, most=1)]
        assert owner.open(found) == made.advertisement


async def test_what_was_not_looked_at_is_said_where_nothing_was_found() -> None:
    async with several(1) as (_, [node], owner, us):
        await topic_at(owner, node, "north mole")
        for offers in ((), await us.find_nodes(wait=LONG, enough=1)):
            node.seconds = 0.0
            text = "//*[local-name()='Text']"
            cut = us.discover(text, Dialect.XPATH, offers=offers, wait=SHORT, creators=False)
            assert [one async for one in cut] == []
            assert cut.more
            node.seconds = 5.0
            whole = us.discover(text, Dialect.XPATH, offers=offers, wait=SHORT, creators=False)
            assert len([one async for one in whole]) == 1
            assert not whole.more


async def test_what_comes_after_the_time_is_dropped() -> None:
    async with several(1) as (substrate, [node], owner, us):
        await topic_at(owner, node, "north mole")
        node.held = []
        found = [one async for one in us.discover("north", wait=SHORT, creators=False)]
        assert found == []
        substrate.release(node)
        # Which it is shows in that the next answer is read after it.
        assert len([one async for one in us.discover("mole", wait=LONG, most=1)]) == 1
        assert us._exchange.is_idle


async def test_nodes_are_chosen_by_the_time_of_their_answer() -> None:
    async with several(3) as (substrate, nodes, owner, _):
        nodes[0].held, nodes[1].held = [], []
        searching = asyncio.create_task(owner.find_nodes(Purpose.CREATE, enough=3, wait=LONG))
        await until(lambda: bool(nodes[1].held), 20.0)
        substrate.release(nodes[1])
        substrate.release(nodes[0])
        offers = await searching
        assert [offer.node for offer in offers] == [nodes[2].id, nodes[1].id, nodes[0].id]
        made = await owner.create_topic(DESCRIPTORS, PATH, offers=offers, wait=LONG)
        assert made.advertisement.node == nodes[2].id


async def test_nodes_are_chosen_by_issuer_and_by_list() -> None:
    substrate = Substrate()
    here, east = substrate.node(), substrate.node("east", other_authority())
    async with on(substrate, parties().producer) as owner:
        offers = await owner.find_nodes(issuer="Authority of the east", wait=LONG, enough=1)
        assert [(offer.node, offer.issuer) for offer in offers] == [
            (east.id, "CN=Authority of the east")
        ]
        [offer] = await owner.find_nodes(nodes=[here.id], wait=LONG, enough=1)
        assert offer.node == here.id
        assert await owner.find_nodes(nodes=["tdn-x"], wait=SHORT, again_after=()) == ()


async def test_where_a_node_fails_the_next_is_asked() -> None:
    async with several(2) as (_, nodes, owner, _us):
        offers = await owner.find_nodes(enough=2, wait=LONG)
        nodes[0].held = []
        made = await owner.create_topic(DESCRIPTORS, PATH, offers=offers, wait=SHORT)
        assert made.advertisement.node == nodes[1].id


async def test_nodes_that_are_asked_by_themselves_are_not_waited_for_longer() -> None:
    async with several(3) as (substrate, nodes, owner, us):
        common = await topic_at(owner, nodes[0], "north mole")
        nodes[2].held = []
        offers = [
            offer
            for offer in await us.find_nodes(wait=LONG, enough=2)
            if offer.node in (nodes[0].id, nodes[1].id)
        ]
        before = len(substrate.said)
        found = [one async for one in us.discover("north", offers=offers, wait=LONG)]
        assert ids(found) == [common]
        assert [one async for one in us.discover("south", offers=offers, wait=LONG)] == []
        assert len(substrate.said) == before + 2 * (2 + 2), "two queries, two answers"
        with pytest.raises(GatewayError) as refused:
            asked = us.discover("a <", Dialect.SQL, offers=offers, wait=LONG, creators=False)
            assert [one async for one in asked]
        assert refused.value.code == "invalid-query"


async def test_conditions_narrow() -> None:
    async with several(1) as (_, [node], owner, us):
        topic = await topic_at(owner, node, "north mole")
        [found] = [one async for one in us.discover("north", node=node.id, wait=LONG)]
        created = found.check().advertisement.created

        async def under(**conditions: Any) -> list[str]:
            asked = us.discover(
                "north", node=node.id, conditions=Conditions(**conditions), wait=LONG
            )
            return ids([one async for one in asked])

        assert await under(created_before=created) == []
        assert await under(expires_after=created, creator=owner.id) == [topic]
        assert await under(creator=us.id) == []


async def test_that_there_are_more_is_told() -> None:
    async with several(1) as (_, [node], owner, us):
        await topic_at(owner, node, "north mole")
        await topic_at(owner, node, "north pier")
        for most, more in ((1, True), (2, False)):
            asked = us.discover("north", node=node.id, wait=LONG, most=most)
            assert [one.more async for one in asked] == [more] * most


async def test_where_no_node_answers_creators_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.client.discovery.topic_advertising.random.random", lambda: 0.0)
    substrate = Substrate()
    node = substrate.node()
    async with (
        on(substrate, parties().producer, answers=True) as owner,
        on(substrate, parties().elliptic) as silent,
        on(substrate, parties().consumer) as us,
    ):
        topic = await topic_at(owner, node, "north mole")
        await topic_at(silent, node, "north pier")
        substrate.nodes.clear()
        found = [one async for one in us.discover("north", wait=1.0, most=1)]
        assert ids(found) == [topic]
        assert found[0].answered_by == owner.id == parties().producer.identifier(Role.ENTITY)
        asked = us.discover("north", wait=SHORT, creators=False)
        assert [one async for one in asked] == []
