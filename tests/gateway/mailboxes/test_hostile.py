"""Mailboxes whose readers and senders do what they should not, and crashes where they hurt most."""

import asyncio
import secrets
import time
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import create_engine

from filters import Reason, Refused
from gateway.egress import AddressPolicy, AddressRefused, Schemes
from gateway.mailboxes import leases
from gateway.mailboxes.errors import MailboxUnknown
from gateway.mailboxes.leases import Batch
from gateway.model.dead_letter_reasons import DeathReason
from gateway.model.mailboxes import Mailbox, MailboxBounds, MailboxKind
from gateway.security.identify import anonymous
from gateway.store import Store, dead_letters, mailbox_messages
from gateway.store import mailboxes as rows
from gateway.store.dead_letters import ALL
from gateway.subscriptions.consumers import LONGEST_NAME, Consumers
from mediation.model.messages import EndpointReference
from mediation.model.versions import Wsa
from mediation.names import MAKE_CONNECTION_ANONYMOUS
from tests.rigs.stored_mailboxes import boxes, fill, numbers, removal
from tests.rigs.stores import execute, on_each_store
from tests.rigs.waiting import DEADLINE, until

NEIGHBOUR = anonymous("127.0.0.1", trusted=True)

pytestmark = on_each_store


async def test_what_a_stream_got_late_is_not_lost_with_what_it_got_before(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.MAILBOX, NEIGHBOUR)
    await fill(mailboxes, box, 1, 2, 3)
    elsewhere = await mailboxes.leases.take(box, most=1)
    streamed = await mailboxes.leases.take(box, name="stream")
    await mailboxes.leases.sent(streamed)
    await mailboxes.leases.handed_over(elsewhere, False)
    await mailboxes.leases.take(box, name="stream")  # 1, which is sent after 3; then a crash.
    await mailboxes.leases.sent(await mailboxes.leases.take(box, name="stream", lease=0.0))
    seen = streamed.messages[-1].position
    late = Batch(box, "stream", (), False, 0.0)
    await mailboxes.leases.sent(late)
    assert await mailboxes.leases.rewind(box, seen) == 1
    assert await numbers(mailboxes, box) == [1]


async def test_what_was_sent_before_an_id_is_had(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.MAILBOX, NEIGHBOUR)
    await fill(mailboxes, box, *range(6))
    first, second = [await mailboxes.leases.take(box, most=3) for _ in range(2)]
    await mailboxes.leases.sent(first)
    await mailboxes.leases.sent(second)
    seen = second.messages[0].position
    assert await mailboxes.leases.rewind(box, seen) == 2
    assert await mailboxes.leases.rewind(box, seen) == 0
    assert await numbers(mailboxes, box) == [4, 5]


async def test_all_dead_letters_go_back_however_many(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "LOOKED", 1)
    monkeypatch.setattr(dead_letters, "SLICE_OCTETS", 1)
    mailboxes = await boxes(store, bounds=MailboxBounds(messages=1))
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await fill(mailboxes, box, *range(8))
    again = 0
    last: int | None = 0
    while last is not None:
        slice_ = await mailboxes.redrive(ALL, after=last, upto=2**62)
        again, last = again + slice_.chosen.total(), slice_.last
    assert again == 7
    assert sorted(await numbers(mailboxes, box)) == list(range(8))


@pytest.mark.runs_once("it counts what operations do")
async def test_a_message_wakes_one_reader(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    take = mailbox_messages.take

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal looks
        looks += 1
        return take(*arguments, **options)

    monkeypatch.setattr(mailbox_messages, "take", counted)
    monkeypatch.setattr(leases, "LOOK_AGAIN", 600.0)  # Nobody looks by himself.
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    readers = [
        asyncio.create_task(mailboxes.leases.take(box, most=1, wait=30.0)) for _ in range(40)
    ]
    async with asyncio.timeout(DEADLINE):
        await until(lambda: looks >= 40)
        for number in range(20):
            await fill(mailboxes, box, number)
        await mailboxes.put(box, [(None, b"<e>%d</e>" % number) for number in range(20, 40)])
        batches = await asyncio.gather(*readers)
    taken = [int(one.envelope[3:-4]) for batch in batches for one in batch.messages]
    assert sorted(taken) == list(range(40))
    assert looks < 100


async def test_one_answer_holds_a_bounded_number(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await mailboxes.put(box, [(None, b"<e>%d</e>" % number) for number in range(300)])
    assert await numbers(mailboxes, box, most=1000) == list(range(256))
    assert await numbers(mailboxes, box) == list(range(256, 300))


async def test_messages_under_leases_count(store: Store) -> None:
    mailboxes = await boxes(store, bounds=MailboxBounds(messages=3))
    box = await mailboxes.make(MailboxKind.MAILBOX, NEIGHBOUR)
    await fill(mailboxes, box, 1, 2, 3)
    batch = await mailboxes.leases.take(box, lease=3600.0)
    with pytest.raises(Refused) as refused:
        await fill(mailboxes, box, 4)
    assert refused.value.reason is Reason.MAILBOX_FULL
    assert (await mailboxes.size(box)).messages == 3
    await mailboxes.leases.acknowledge(box, batch.lease, [batch.messages[0].position])
    await fill(mailboxes, box, 4)
    await fill(mailboxes, box, 5)  # Only 4 makes room: the others are being read.
    await mailboxes.leases.release(box, batch.lease)
    assert await numbers(mailboxes, box) == [2, 3, 5]


async def test_octets_under_leases_count(store: Store) -> None:
    mailboxes = await boxes(store, bounds=MailboxBounds(octets=30))
    box = await mailboxes.make(MailboxKind.MAILBOX, NEIGHBOUR)
    await mailboxes.put(box, [(None, b"x" * 20)])
    await mailboxes.leases.take(box, lease=3600.0)
    await mailboxes.put(box, [(None, b"y" * 10)])
    with pytest.raises(Refused) as refused:
        await mailboxes.put(box, [(None, b"z" * 11)])
    assert refused.value.reason is Reason.MAILBOX_FULL
    await mailboxes.put(box, [(None, b"w" * 10)])
    size = await mailboxes.size(box)
    assert (size.messages, size.octets, size.dropped) == (2, 30, 1)


async def test_what_is_kept_for_streams_that_broke_is_bounded(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox_messages, "TRIMMED", 1)
    monkeypatch.setattr(mailbox_messages, "REPLAYED", 4)
    monkeypatch.setattr(mailbox_messages, "REPLAYED_OCTETS", 100)
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.MAILBOX, NEIGHBOUR)
    for number in range(10):
        await fill(mailboxes, box, number)
        await mailboxes.leases.sent(await mailboxes.leases.take(box))
    assert execute(store_url, "SELECT count(*) FROM mailbox_messages") == [(4,)]
    await mailboxes.put(box, [(None, b"x" * 90)])
    await mailboxes.leases.sent(await mailboxes.leases.take(box))
    assert execute(store_url, "SELECT count(*) FROM mailbox_messages") == [(2,)]
    await mailboxes.put(box, [(None, b"x" * 1000)])
    last = await mailboxes.leases.take(box)
    await mailboxes.leases.sent(last)  # What was sent last can always be had again.
    assert execute(store_url, "SELECT count(*) FROM mailbox_messages") == [(1,)]
    assert await mailboxes.leases.rewind(box, 0) == 1


async def test_subscriptions_keep_nobody_from_being_given_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "AT_A_TIME", 3)
    mailboxes = await boxes(store, idle=0.0)
    for _ in range(5):
        await mailboxes.make(MailboxKind.SUBSCRIPTION, NEIGHBOUR)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await removal(mailboxes).clear()
    assert mailboxes.known(box.key) is None
    assert len(mailboxes) == 5


async def test_what_fills_a_box_ends_before_it(store: Store) -> None:
    """A crash in between leaves no subscription without its box."""
    there: list[bool] = []

    async def destroyed(box: Mailbox) -> None:
        found = await store.submit(partial(rows.find, key=box.key))
        there.append(found is not None)

    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await removal(mailboxes, destroyed).destroy(box)
    assert there == [True, False]  # And once more: for who subscribed meanwhile.


async def test_what_is_taken_while_the_house_is_kept_is_no_dead_letter(
    store: Store, store_url: str
) -> None:
    """`sweep` looks without a lock; who took the message meanwhile has it."""
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await fill(mailboxes, box, 1, 2)
    batch = await mailboxes.leases.take(box, most=1)
    engine = create_engine(store_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        positions = [one.position for one in batch.messages]
        buried = mailbox_messages._bury(
            connection, box.id, box.owner, box.key,
            [*positions, positions[0] + 1], DeathReason.MAILBOX_AGE, time.time(),
        )  # fmt: skip
    engine.dispose()
    assert buried == 1
    assert (await mailboxes.size(box)).messages == 1
    await mailboxes.leases.handed_over(batch, True)
    assert (await mailboxes.size(box)).messages == 0


async def test_a_long_message_id_is_kept(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    id_ = secrets.token_urlsafe(3000)[:4000]
    await mailboxes.put(box, [(id_, b"<e>1</e>")])
    await mailboxes.put(box, [(id_, b"<e>1</e>")])
    assert store.writable
    assert await numbers(mailboxes, box) == [1]


async def test_the_longest_name_of_who_fetches_is_kept_and_no_longer_one(store: Store) -> None:
    mailboxes = await boxes(store)
    consumers = Consumers(Schemes(AddressPolicy()), mailboxes)
    name = MAKE_CONNECTION_ANONYMOUS + secrets.token_urlsafe(3000)
    reference = EndpointReference(name[:LONGEST_NAME], Wsa.V2005_08)
    target = await consumers.take_on(reference, NEIGHBOUR)
    assert await consumers.check(reference, "anonymous:") == target
    with pytest.raises(AddressRefused):
        await consumers.take_on(replace(reference, address=name[: LONGEST_NAME + 1]), NEIGHBOUR)
    assert store.writable


async def test_a_mailbox_of_another_tenant_is_no_consumer_after_a_restart(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    consumers = Consumers(Schemes(AddressPolicy()), mailboxes)
    reference = EndpointReference(f"http://gateway.example/mailboxes/{box.key}", Wsa.V2005_08)
    assert consumers.known(reference, NEIGHBOUR.owner).scheme == "mailbox"
    assert consumers.known(reference, "tenant:acme:user:ada").scheme == "http"


@pytest.mark.parametrize("key", ["a\0b", "\ud800", "x" * 100])
async def test_a_key_that_no_database_takes_is_unknown(store: Store, key: str) -> None:
    mailboxes = await boxes(store)
    with pytest.raises(MailboxUnknown):
        await mailboxes.find(key)
