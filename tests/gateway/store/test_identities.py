"""There is one subscription with an identity, whoever makes it, on each store."""

import asyncio
from dataclasses import replace
from functools import partial

from gateway.store import Store
from gateway.store import subscriptions as rows
from mediation.model.calling import Calling
from mediation.model.messages import Policy, Subscription
from mediation.model.versions import Version
from tests.rigs.mediation import subscription
from tests.rigs.stores import on_each_store


def numbered(number: int) -> Subscription:
    one = subscription(Version.GRID_EVENTS)
    calling = Calling("it's", "java", "1999")
    return replace(one, key=f"key{number}", id=f"id{number}", policy=Policy(calling=calling))


@on_each_store
async def test_one_is_kept(store: Store) -> None:
    inserts = (partial(rows.insert, subscription=numbered(n), identity="one") for n in range(5))
    kept = await asyncio.gather(*map(store.submit, inserts))
    assert kept.count(True) == 1
    [found] = await store.submit(rows.load)
    assert found == numbered(kept.index(True))
    await store.submit(partial(rows.delete, subscription=found, expired=True))
    assert await store.submit(partial(rows.insert, subscription=numbered(7), identity="one"))


@on_each_store
async def test_others_have_none(store: Store) -> None:
    for number in range(2):
        assert await store.submit(partial(rows.insert, subscription=numbered(number)))
