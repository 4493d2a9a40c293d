"""Each message of a whole exchange lost, once: nothing is left behind, and repeating gets on."""

import pytest

from gateway.client import GatewayError
from gateway.client.discovery import Entity, Found
from mediation.discovery import Created
from tests.rigs.discovery import DESCRIPTORS, PATH
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_substrate import Substrate, on

WAIT = 0.4
MESSAGES = (
    "search for nodes",
    "offer",
    "request for a topic",
    "topic",
    "advertisement",
    "query",
    "what was found",
    "withdrawal",
)
AGAIN = range(20)
"""A machine may be slower than what is waited for, too."""


async def create(owner: Entity) -> Created:
    for _ in AGAIN:
        offers = await owner.find_nodes(enough=1, wait=WAIT, again_after=(0.0,) * 20)
        try:
            return await owner.create_topic(DESCRIPTORS, PATH, offers=offers, wait=WAIT)
        except GatewayError:
            continue
    raise AssertionError("no node makes a topic")


async def discover(us: Entity) -> list[Found]:
    return [one async for one in us.discover("mole", wait=WAIT, most=1, creators=False)]


@pytest.mark.parametrize("lost", range(len(MESSAGES) + 1), ids=lambda n: ("none", *MESSAGES)[n])
async def test_the_loss_of_each_message(lost: int) -> None:
    substrate = Substrate()
    there = substrate.node()
    substrate.lose = lambda number: number == lost
    async with on(substrate, parties().producer) as owner, on(substrate, parties().consumer) as us:
        created = await create(owner)
        assert there.kept == {}, "what is not advertised is forgotten"
        topic_id = created.advertisement.topic_id
        found: list[Found] = []
        for _ in AGAIN:
            await owner.advertise(created)  # As it is, every sixth of the lifetime.
            found = await discover(us)
            if found:
                break
        assert [one.topic_id for one in found] == [topic_id]
        assert found[0].check().advertisement == created.advertisement
        assert list(there.kept) == [str(topic_id)]
        for _ in AGAIN:
            await owner.withdraw(topic_id)
            if not there.kept:
                break
        assert there.kept == {}
        assert len(there.node.catalogue) == 0
        assert await discover(us) == []
        assert owner._exchange.is_idle and us._exchange.is_idle
        assert len(substrate.said) >= len(MESSAGES) + (lost > 0)
