"""Mailboxes of two gateways in one PostgreSQL: what one of them remembers may be over."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from gateway.mailboxes import removal as removals
from gateway.mailboxes.errors import MailboxUnknown
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.quotas import MailboxQuotas
from gateway.model.mailboxes import Mailbox, MailboxKind
from gateway.security.identify import anonymous
from gateway.store import Store
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.stored_mailboxes import removal
from tests.rigs.stores import execute
from tests.rigs.waiting import until

needs_postgresql(allow_module_level=True)

NEIGHBOUR = anonymous("127.0.0.1", trusted=True)
SOON = 30.0
"""Seconds: less than the waits of these tests, far more than a busy machine needs."""
Both = tuple[Mailboxes, Mailboxes]


@pytest.fixture
def url() -> Iterator[str]:
    with fresh_database() as url:
        yield url


@pytest.fixture
async def both(url: str) -> AsyncIterator[Both]:
    """Those of two gateways."""
    async with AsyncExitStack() as stack:
        stores = Store(url), Store(url)
        for store in stores:
            await store.start()
            stack.push_async_callback(store.close)
        first, second = (
            Mailboxes(store, MailboxQuotas(idle=0.2, age=0.2), shared=True) for store in stores
        )
        await first.start()
        await second.start()
        yield first, second


async def put(there: Mailboxes, box: Mailbox, *numbers: int) -> None:
    for number in numbers:
        await there.put(box, [(f"urn:m:{number}", b"<e>%d</e>" % number)])


async def take(there: Mailboxes, box: Mailbox) -> list[bytes]:
    batch = await there.leases.take(box)
    await there.leases.handed_over(batch, True)
    return [one.envelope for one in batch.messages]


async def test_what_another_destroyed_is_known_no_more(both: Both) -> None:
    a, b = both
    box = await a.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    assert await b.find(box.key) == box
    await put(b, box, 1)
    await removal(a).destroy(box)
    with pytest.raises(MailboxUnknown):
        await b.find(box.key)
    assert b.known(box.key) is None


async def test_what_another_destroyed_is_not_remembered(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removals, "HOUSEKEEPING", 0.05)
    a, b = both
    kept, destroyed = [await a.make(MailboxKind.PULL_POINT, NEIGHBOUR) for _ in range(2)]
    for box in (kept, destroyed):
        await b.find(box.key)
    await removal(a).destroy(destroyed)
    keeping = asyncio.create_task(removal(b).run(lambda: False))
    await until(lambda: b.known(destroyed.key) is None)
    keeping.cancel()
    assert b.known(kept.key) == kept


async def test_a_name_is_one_box(both: Both) -> None:
    """Whoever is quicker; and after its end, another one."""
    a, b = both
    made = await asyncio.gather(
        *(there.make(MailboxKind.CONNECTION, NEIGHBOUR, name="urn:a") for there in (a, b, a, b))
    )
    assert len(set(made)) == 1
    assert await a.named("urn:a") == await b.named("urn:a") == made[0]
    await removal(a).destroy(made[0])
    assert await b.named("urn:a") is None
    again = await a.make(MailboxKind.CONNECTION, NEIGHBOUR, name="urn:a")
    assert again != made[0]
    assert await b.named("urn:a") == again


async def test_who_waits_hears_of_what_another_put_in(both: Both) -> None:
    """And of what another gave back, and of the end of the box."""
    a, b = both
    box = await a.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    looking = asyncio.create_task(b.look_around())
    try:
        async with asyncio.timeout(SOON):
            waiting = asyncio.create_task(b.leases.take(box, wait=60.0))
            await asyncio.sleep(0)
            await put(a, box, 1)
            batch = await waiting
            waiting = asyncio.create_task(a.leases.take(box, wait=60.0))
            around = asyncio.create_task(a.look_around())
            await b.leases.handed_over(batch, False)
            assert [one.takes for one in (await waiting).messages] == [2]
            around.cancel()
            waiting = asyncio.create_task(b.leases.take(box, wait=60.0))
            await asyncio.sleep(0)
            await removal(a).destroy(box)
            with pytest.raises(MailboxUnknown):
                await waiting
    finally:
        looking.cancel()


async def test_one_keeps_house_for_both(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for boxes that it has never heard of; the other one does nothing."""
    monkeypatch.setattr(removals, "HOUSEKEEPING", 0.05)
    a, b = both
    box = await a.make(MailboxKind.MAILBOX, NEIGHBOUR)
    await put(a, box, 1, 2)
    turns = 0

    def not_mine() -> bool:
        nonlocal turns
        turns += 1
        return False

    idle = asyncio.create_task(removal(a).run(not_mine))
    await until(lambda: turns >= 5)
    assert (await a.size(box)).messages == 2
    keeping = asyncio.create_task(removal(b).run(lambda: True))

    async def given_up() -> bool:
        try:
            await a.find(box.key)
        except MailboxUnknown:
            return True
        return False

    await until(given_up)
    idle.cancel()
    keeping.cancel()
    assert (a.dropped, b.dropped) == (0, 2)


async def test_two_gateways_never_wait_for_one_another(url: str, both: Both) -> None:
    """Each commits many changes at once, to the same boxes in any order."""
    boxes = [await both[0].make(MailboxKind.MAILBOX, NEIGHBOUR) for _ in range(20)]

    async def work(there: Mailboxes, number: int) -> None:
        for _ in range(5):
            some = random.sample(boxes, 10)
            await asyncio.gather(*(put(there, box, number) for box in some))
            await asyncio.gather(*(take(there, box) for box in some))

    await asyncio.gather(*(work(there, number) for there in both for number in range(4)))
    for there in both:
        await there._store.close()
    [[conflicts]] = execute(
        url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    assert conflicts == 0
