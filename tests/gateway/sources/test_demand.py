"""What is wanted of the sources of registrations, over a real store, beside many subscriptions."""

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from filters import Expression, Filter, dialects, parse_expression
from gateway.delivery import Entry
from gateway.delivery.partition_share import everything
from gateway.egress import AddressPolicy, parse_target
from gateway.model.sources import Wanted
from gateway.security.identify import OPERATOR
from gateway.security.keys import new_key, public_id
from gateway.security.password_cipher import PasswordCipher
from gateway.sources.demand import Demand
from gateway.sources.new_sources import NewSource
from gateway.sources.registrations import pattern_of
from gateway.sources.sources import Sources
from gateway.store import Store
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.messages import EndpointReference, Lease, Subscription
from mediation.model.versions import Soap, Spec, Version, Wsa
from mediation.rendering import prepare
from tests.rigs.stores import on_each_store

NO_KEY = PasswordCipher(Path("there-is-none"))

BASE = "http://gateway.example.org"
CONSUMER = "http://sink.example.org/"


def entry(*topics: str, dialect: str = dialects.TOPIC_FULL) -> Entry:
    """A subscription to *topics*, all of which must hold."""
    key = new_key()
    subscription = Subscription(
        key,
        public_id(key),
        "anonymous:127.0.0.1",
        Spec(Version.WSN_1_3, Soap.V1_2, Wsa.V2005_08),
        EndpointReference(CONSUMER, Wsa.V2005_08),
        Lease(datetime.now(UTC), None),
        Filter(tuple(Expression(topic, dialect) for topic in topics)),
    )
    return Entry(subscription, prepare(subscription), parse_target(CONSUMER))


class Rig:
    """Demand with what it looks at."""

    def __init__(self, store: Store, *entries: Entry) -> None:
        self.table = SubscriptionTable()
        for one in entries:
            self.table.add(one)
        policy = AddressPolicy()
        self.sources = Sources(store, policy, cipher=NO_KEY, shared=False, base=BASE)
        self.demand = Demand(self.sources, self.table, base=BASE)

    async def source(self, topic: str | None, registration: str = "a") -> str:
        new = NewSource("http://producer.example.org/", topic=topic)
        added = await self.sources.add(new, OPERATOR, registration=registration, on=Wanted.OFF)
        added.share = everything()
        return added.id

    async def wanted(self) -> set[str | None]:
        """The topics of the sources that are wanted now."""
        await self.demand.follow()
        return {one.source.topic for one in self.sources.entries if one.row.wanted is Wanted.ON}


@on_each_store
async def test_what_comes_first_is_the_same(store: Store) -> None:
    rig = Rig(store, entry("early"))
    for topic in ("early", "late", "never"):
        await rig.source(topic)
    assert await rig.wanted() == {"early"}
    late = entry("late")
    rig.table.add(late)
    assert await rig.wanted() == {"early", "late"}
    await rig.source("late", "b")
    rig.table.drop(late)
    assert await rig.wanted() == {"early"}


@on_each_store
async def test_several_subscribe_to_the_same(store: Store) -> None:
    rig, several = Rig(store), [entry("a"), entry("a"), entry("a//.")]
    await rig.source("a/b")
    await rig.source("a")
    for one in several:
        rig.table.add(one)
    assert await rig.wanted() == {"a", "a/b"}
    rig.table.drop(several[2])
    assert await rig.wanted() == {"a"}
    rig.table.drop(several[0])
    assert await rig.wanted() == {"a"}
    rig.table.drop(several[1])
    assert await rig.wanted() == set()


@on_each_store
async def test_without_topics_everything_is_meant(store: Store) -> None:
    rig, every = Rig(store), entry()
    await rig.source("a")
    await rig.source(None)
    rig.table.add(entry("b"))
    assert await rig.wanted() == {None}
    rig.table.add(every)
    assert await rig.wanted() == {"a", None}


@on_each_store
async def test_a_dialect_that_is_not_offered_any_longer_wants_nothing(store: Store) -> None:
    rig = Rig(store, entry("a", dialect="urn:gone"))
    await rig.source("a")
    assert await rig.wanted() == set()
    rig.table.add(entry("a"))
    assert await rig.wanted() == {"a"}


@on_each_store
async def test_any_order_of_comings_and_goings(store: Store) -> None:
    """What is wanted is what overlaps with what is subscribed to, whatever went before."""
    chance, rig = random.Random(7), Rig(store)
    names = ("a", "b", "a/b", "a//.", "*", "c/d")
    there: list[Entry] = []
    for number in range(60):
        if there and chance.random() < 0.4:
            rig.table.drop(there.pop(chance.randrange(len(there))))
        elif chance.random() < 0.7:
            there.append(entry(chance.choice(names)))
            rig.table.add(there[-1])
        elif number < 40:
            await rig.source(chance.choice(("a", "b", "a/b", "c/d")), str(number))
        if chance.random() < 0.5:
            assert await rig.wanted() == meant(rig.sources, there)


def meant(sources: Sources, there: Sequence[Entry]) -> set[str | None]:
    """The topics of the sources that somebody wants, found by comparing all with all."""
    return {
        one.source.topic
        for one in sources.entries
        if any(
            parse_expression(Expression(one.source.topic or "", dialects.TOPIC_FULL)).overlaps(
                parse_expression(topic)
            )
            for wanting in there
            for topic in wanting.subscription.filter.topics
        )
    }


@on_each_store
async def test_others_have_their_turn_beside_many_topics(store: Store) -> None:
    """A source is compared with thousands of topics once, in slices, and then no more."""
    rig = Rig(store, *(entry(f"t{number}/x") for number in range(4000)))
    await rig.source("nobody")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    try:
        assert await rig.wanted() == set()
        assert turns >= 50
        compared = rig.demand.compared
        assert compared == 4000
        rig.table.add(entry("t1/x"))  # Somebody more for what is known.
        assert await rig.wanted() == set()
        assert rig.demand.compared == compared
    finally:
        task.cancel()


@on_each_store
async def test_topics_are_read_once_for_all_sources_that_come(store: Store) -> None:
    """Also more of them than `pattern_of` remembers."""
    number = 5000
    rig = Rig(store, *(entry(f"t{number}/x") for number in range(number)))
    assert await rig.wanted() == set()
    for name in "abc":
        await rig.source(name, name)
    pattern_of.cache_clear()
    assert await rig.wanted() == set()
    assert number <= pattern_of.cache_info().misses < number + 100


@on_each_store
async def test_what_comes_meanwhile_waits_for_the_next_time(store: Store) -> None:
    """However fast topics come, what is known leads to what is wanted."""
    rig = Rig(store, entry("a"), *(entry(f"t{number}") for number in range(200)))
    await rig.source("a")
    coming = 0

    async def come() -> None:
        nonlocal coming
        while True:
            for _ in range(100):
                coming += 1
                rig.table.add(entry(f"more{coming}"))
            await asyncio.sleep(0)

    task = asyncio.create_task(come())
    try:
        async with asyncio.timeout(30):
            assert await rig.wanted() == {"a"}
    finally:
        task.cancel()
