"""Registrations and their sources in the store: together, and once, whatever happens meanwhile."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from filters import Expression, dialects
from gateway.egress import AddressPolicy
from gateway.model.registrations import Registration
from gateway.model.sources import SourceRow, Wanted
from gateway.replicas.alone import Alone
from gateway.security.identify import OPERATOR
from gateway.security.password_cipher import PasswordCipher
from gateway.security.principals import OF_STRANGERS, Principal
from gateway.security.quotas import QuotaExceeded
from gateway.sources.registrations import Registrations
from gateway.sources.sources import Sources
from gateway.store import Store
from gateway.store import registrations as registration_rows
from gateway.store import sources as source_rows
from gateway.store.schema import registrations as table
from gateway.subscriptions.lifecycle.leases import LeaseTerms
from mediation.client import SPECS
from mediation.model.expiry import parse_expiry
from mediation.model.messages import EndpointReference
from mediation.model.requests import RegisterPublisher
from mediation.model.versions import Version, Wsa
from tests.rigs.stores import execute, on_each_store

NO_KEY = PasswordCipher(Path("there-is-none"))

STRANGER = Principal("127.0.0.1", "anonymous:127.0.0.1", "urn:p", OF_STRANGERS)
PUBLISHER = EndpointReference("http://127.0.0.1:8099/p", Wsa.V2005_08, parameters=(b"<a/>",))


class Gateway:
    """What a gateway has of sources and registrations; nothing keeps them."""

    def __init__(self, store: Store, *, shared: bool = False, most_of_owner: int = 100) -> None:
        policy = AddressPolicy(loopback=True)
        self.sources = Sources(
            store,
            policy,
            cipher=NO_KEY,
            shared=shared,
            base="http://g.example.org",
            most_of_owner=most_of_owner,
        )
        self.registrations = Registrations(
            store, self.sources, policy, Alone(store), terms=LeaseTerms()
        )

    async def start(self) -> "Gateway":
        await self.sources.start()
        await self.registrations.start()
        return self

    async def register(
        self, request: RegisterPublisher, principal: Principal = OPERATOR
    ) -> Registration:
        spec, now = SPECS[Version.WSN_1_3], datetime.now(UTC)
        return await self.registrations.register(request, spec, principal, now=now)


def topics(*names: str, scope: Sequence[tuple[str, str]] = (("t", "urn:x"),)) -> RegisterPublisher:
    """A registration on demand for these topics."""
    expressions = (Expression(f"t:{name}", dialects.TOPIC_CONCRETE, tuple(scope)) for name in names)
    return RegisterPublisher(PUBLISHER, tuple(expressions), True)


async def stored(store: Store) -> tuple[list[Registration], list[SourceRow]]:
    """The registrations of the store, and those sources that are not to be removed."""
    rows = await store.submit(source_rows.load)
    there = [row for row in rows if row.wanted is not Wanted.REMOVED]
    return await store.submit(registration_rows.load), there


@on_each_store
async def test_another_gateway_that_looks_meanwhile_adds_no_sources(store: Store) -> None:
    one = await Gateway(store, shared=True).start()
    other = await Gateway(store, shared=True).start()
    registered = await one.register(topics("a"))
    await other.registrations.reconcile()
    _, [row] = await stored(store)
    assert row.source.registration == registered.id


async def test_who_looks_meanwhile_adds_no_sources(store: Store) -> None:
    gateway = await Gateway(store).start()
    names = [str(number) for number in range(10)]
    registering = asyncio.create_task(gateway.register(topics(*names)))
    while not registering.done():
        await gateway.registrations.reconcile()
    await registering
    await gateway.registrations.reconcile()
    _, rows = await stored(store)
    assert sorted(str(row.source.topic) for row in rows) == [f"t:{name}" for name in names]
    assert len(gateway.sources.entries) == 10
    assert len(gateway.registrations.all) == 1


async def test_a_registration_without_all_of_its_sources_is_never_there(
    store: Store, store_url: str
) -> None:
    """The database refuses the second source, as it would if the process were killed there."""
    gateway = await Gateway(store).start()
    execute(
        store_url,
        "CREATE TRIGGER full BEFORE INSERT ON sources WHEN (SELECT count(*) FROM sources) = 1 "
        "BEGIN SELECT RAISE(ABORT, 'full'); END",
    )
    with pytest.raises(Exception, match="full"):
        await gateway.register(topics("a", "b"))
    assert await stored(store) == ([], [])
    assert not gateway.registrations.all
    assert not gateway.sources.entries
    execute(store_url, "DROP TRIGGER full")
    await gateway.register(topics("a", "b"))
    registrations, rows = await stored(store)
    assert (len(registrations), len(rows)) == (1, 2)


@on_each_store
async def test_without_room_for_its_sources_the_former_registration_stays(store: Store) -> None:
    gateway = await Gateway(store, most_of_owner=3).start()
    former = await gateway.register(topics("a", "b"), STRANGER)
    before = await stored(store)
    with pytest.raises(QuotaExceeded):
        await gateway.register(topics("b", "a"), STRANGER)
    assert await stored(store) == before
    assert await gateway.registrations.find(former.key) == former
    with pytest.raises(QuotaExceeded):
        await gateway.register(topics("c", "d"), STRANGER)
    assert await stored(store) == before


def until(text: str) -> RegisterPublisher:
    return replace(topics("a", "b"), expires=parse_expiry(text))


def in_(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


SAME = [
    pytest.param(topics("a", "b"), id="the same"),
    pytest.param(until("PT1H"), id="another length"),
    pytest.param(until(in_(7200.0)), id="another time"),
    pytest.param(topics("b", "a", "a"), id="another order"),
    pytest.param(topics("a", "b", scope=(("u", "urn:y"), ("t", "urn:x"))), id="more prefixes"),
]
OTHER = [
    pytest.param(topics("a"), id="fewer topics"),
    pytest.param(topics("a", "b", "c"), id="more topics"),
    pytest.param(topics("a", "b", scope=(("t", "urn:y"),)), id="topics of another namespace"),
    pytest.param(replace(topics("a", "b"), demand=False), id="no demand"),
    pytest.param(
        replace(topics("a", "b"), publisher=replace(PUBLISHER, parameters=(b"<b/>",))),
        id="another at the address",
    ),
]


@pytest.mark.parametrize("again", SAME)
@pytest.mark.parametrize("restarted", [False, True], ids=["same gateway", "restarted"])
async def test_a_publisher_that_registers_again_takes_its_place(
    store: Store, again: RegisterPublisher, restarted: bool
) -> None:
    gateway = await Gateway(store).start()
    await gateway.register(until("PT2H"))
    if restarted:
        gateway = await Gateway(store).start()
    second = await gateway.register(again)
    registrations, rows = await stored(store)
    assert [one.id for one in registrations] == [second.id]
    assert {row.source.registration for row in rows} == {second.id}
    assert list(gateway.registrations.all) == [second]
    removed = [one for one in gateway.sources.entries if one.row.wanted is Wanted.REMOVED]
    assert len(removed) == 2


@pytest.mark.parametrize("other", OTHER)
async def test_who_registers_something_else_has_both(
    store: Store, other: RegisterPublisher
) -> None:
    gateway = await Gateway(store).start()
    first = await gateway.register(topics("a", "b"))
    second = await gateway.register(other)
    registrations, _ = await stored(store)
    assert {one.id for one in registrations} == {first.id, second.id}


async def test_another_owner_has_a_registration_of_its_own(store: Store) -> None:
    gateway = await Gateway(store).start()
    await gateway.register(topics("a"))
    await gateway.register(topics("a"), STRANGER)
    assert len((await stored(store))[0]) == 2


async def test_a_registration_that_has_expired_is_replaced(store: Store) -> None:
    """Before anybody has looked whether it has."""
    gateway = await Gateway(store).start()
    first = await gateway.register(topics("a"))
    await gateway.registrations.move(first, datetime.now(UTC) - timedelta(seconds=1))
    second = await gateway.register(topics("a"))
    registrations, rows = await stored(store)
    assert [one.id for one in registrations] == [second.id]
    assert [row.source.registration for row in rows] == [second.id]


@on_each_store
async def test_what_another_gateway_registered_is_replaced(store: Store) -> None:
    one = await Gateway(store, shared=True).start()
    other = await Gateway(store, shared=True).start()
    await one.register(topics("a"))
    second = await other.register(topics("a"))
    registrations, rows = await stored(store)
    assert [each.id for each in registrations] == [second.id]
    assert [row.source.registration for row in rows] == [second.id]


async def test_at_once_and_twice_is_once(store: Store) -> None:
    gateway = await Gateway(store).start()
    await asyncio.gather(gateway.register(topics("a")), gateway.register(topics("a")))
    registrations, rows = await stored(store)
    assert (len(registrations), len(rows)) == (1, 1)
    assert list(gateway.registrations.all) == registrations


@on_each_store
async def test_what_another_gateway_registered_goes_with_its_sources(store: Store) -> None:
    one = await Gateway(store, shared=True).start()
    other = await Gateway(store, shared=True).start()
    registered = await one.register(topics("a", "b"))
    await other.registrations.destroy(registered)
    assert await stored(store) == ([], [])


async def test_sources_whose_registration_is_gone_are_removed(store: Store) -> None:
    gateway = await Gateway(store).start()
    kept = await gateway.register(topics("a"))
    gone = await gateway.register(topics("b"))
    delete = table.delete().where(table.c.id == gone.id)
    await store.submit(lambda connection: connection.execute(delete))
    again = await Gateway(store).start()
    await again.registrations.reconcile()
    _, rows = await stored(store)
    assert [row.source.registration for row in rows] == [kept.id]
    assert {
        entry.source.registration: entry.row.wanted is Wanted.REMOVED
        for entry in again.sources.entries
    } == {kept.id: False, gone.id: True}


async def test_who_does_not_wait_has_registered(store: Store) -> None:
    """The store carries out what it was given, whoever waits for it."""
    gateway = await Gateway(store).start()
    registering = asyncio.create_task(gateway.register(topics("a")))
    await asyncio.sleep(0)
    registering.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await registering
    await gateway.registrations.reconcile()
    _, [row] = await stored(store)
    [entry] = gateway.sources.entries
    assert entry.id == row.source.id
