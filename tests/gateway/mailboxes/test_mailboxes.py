"""Mailboxes in the store: put, leased, handed over, given back, too many, too old."""

import time
from functools import partial

import pytest

from filters import Reason, Refused
from gateway.mailboxes.errors import MailboxUnknown
from gateway.model.mailboxes import Mailbox, MailboxBounds, MailboxKind
from gateway.security.identify import anonymous
from gateway.security.quotas import QuotaExceeded
from gateway.store import Store, dead_letters, mailbox_messages
from gateway.store import mailboxes as rows
from tests.rigs.stored_mailboxes import Clock, boxes, fill, numbers, removal
from tests.rigs.stores import on_each_store

STRANGER = anonymous("192.0.2.1", trusted=False)
NEIGHBOUR = anonymous("127.0.0.1", trusted=True)


pytestmark = on_each_store


async def test_what_is_put_in_is_taken_in_order_and_once(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await fill(mailboxes, box, *range(10))
    assert await numbers(mailboxes, box, most=3) == [0, 1, 2]
    assert await numbers(mailboxes, box) == [3, 4, 5, 6, 7, 8, 9]
    assert await numbers(mailboxes, box) == []
    assert (await mailboxes.size(box)).messages == 0


async def test_a_message_that_comes_twice_is_kept_once(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await fill(mailboxes, box, 1, 1, 2)
    await mailboxes.put(box, [(None, b"<e>3</e>"), (None, b"<e>3</e>")])
    assert (await mailboxes.size(box)).messages == 4
    assert await numbers(mailboxes, box) == [1, 2, 3, 3]


async def test_the_oldest_make_room_and_go_to_the_dead_letters(store: Store) -> None:
    mailboxes = await boxes(store, bounds=MailboxBounds(3, 1000))
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await fill(mailboxes, box, 1, 2, 3)
    leased = await mailboxes.leases.take(box, most=1)
    await fill(mailboxes, box, 4, 5)
    size = await mailboxes.size(box)
    assert (size.messages, size.dropped, mailboxes.dropped) == (3, 2, 2)
    letters = await store.submit(partial(dead_letters.listed, subscription=box.id))
    assert [letter.death.delivery_id for letter in letters] == ["urn:m:2", "urn:m:3"]
    assert {letter.death.reason.value for letter in letters} == {"mailbox-overflow"}
    await mailboxes.leases.handed_over(leased, True)  # What somebody was just reading stayed.
    assert await numbers(mailboxes, box) == [4, 5]
    redrive = partial(
        mailbox_messages.redrive, selection=dead_letters.ALL, now=time.time(), upto=2**62
    )
    _, again = await store.submit(redrive)
    assert again == {box.key: 2}
    assert await numbers(mailboxes, box) == [2, 3]
    assert await store.submit(partial(dead_letters.listed, subscription=box.id)) == []


async def test_octets_make_room_too(store: Store) -> None:
    mailboxes = await boxes(store, bounds=MailboxBounds(1000, 30))
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await fill(mailboxes, box, 1, 2, 3, 4)
    assert await numbers(mailboxes, box) == [2, 3, 4]
    with pytest.raises(Refused) as refused:
        await mailboxes.put(box, [("urn:big", b"<e>" + b" " * 40 + b"</e>")])
    assert refused.value.reason is Reason.MAILBOX_FULL


async def test_a_full_box_refuses_where_it_should(store: Store) -> None:
    mailboxes = await boxes(store, bounds=MailboxBounds(2, 1000, refuse=True))
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await fill(mailboxes, box, 1, 2)
    with pytest.raises(Refused) as refused:
        await fill(mailboxes, box, 3)
    assert refused.value.reason is Reason.MAILBOX_FULL
    assert refused.value.retry_after
    assert await numbers(mailboxes, box) == [1, 2]
    await fill(mailboxes, box, 3)
    assert await numbers(mailboxes, box) == [3]


async def test_what_nobody_takes_goes_to_the_dead_letters(store: Store) -> None:
    clock = Clock()
    mailboxes = await boxes(store, age=5, clock=clock)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await fill(mailboxes, box, 1, 2)
    clock.now += 10
    await fill(mailboxes, box, 3)
    await mailboxes.clear()
    assert await numbers(mailboxes, box) == [3]
    letters = await store.submit(partial(dead_letters.listed, subscription=box.id))
    assert [letter.death.reason.value for letter in letters] == ["mailbox-age"] * 2


async def test_a_box_that_nobody_opens_is_given_up(store: Store) -> None:
    clock = Clock()
    mailboxes = await boxes(store, idle=20, clock=clock)
    ended: list[Mailbox] = []

    async def destroyed(box: Mailbox) -> None:
        ended.append(box)

    idle = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    clock.now += 25
    busy = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await removal(mailboxes, destroyed).clear()
    assert set(ended) == {idle}
    with pytest.raises(MailboxUnknown):
        await mailboxes.find(idle.key)
    assert await mailboxes.find(busy.key) == busy


async def test_strangers_have_a_bounded_number_of_boxes(store: Store) -> None:
    mailboxes = await boxes(store, owner=2, total=4)
    for _ in range(2):
        await mailboxes.make(MailboxKind.PULL_POINT, STRANGER)
    with pytest.raises(QuotaExceeded):
        await mailboxes.make(MailboxKind.PULL_POINT, STRANGER)
    for _ in range(2):
        await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    with pytest.raises(QuotaExceeded):
        await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    assert len(mailboxes) == 4


async def test_boxes_and_what_lies_in_them_survive_a_restart(store_url: str) -> None:
    store = Store(store_url)
    await store.start()
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.CONNECTION, NEIGHBOUR, name="urn:consumer")
    await fill(mailboxes, box, 1, 2)
    await mailboxes.leases.take(box, most=1)  # Never handed over: its lease is kept, and ends.
    await store.close()
    store = Store(store_url)
    await store.start()
    mailboxes = await boxes(store)
    found = await mailboxes.named("urn:consumer")
    assert found == box
    assert await numbers(mailboxes, box) == [2]
    assert (await mailboxes.size(box)).messages == 1
    await removal(mailboxes).destroy(box)
    assert await mailboxes.named("urn:consumer") is None
    await store.close()


async def test_a_crash_while_a_box_is_destroyed_leaves_its_counts_right(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what is left of it would be full for ever."""
    monkeypatch.setattr(rows, "THINNED", 2)
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await fill(mailboxes, box, *range(10, 15))
    for left in (3, 1, 0, 0):
        await store.submit(partial(rows.thin, key=box.key))
        assert (await mailboxes.size(box)).messages == left


async def test_nobody_is_told_whether_there_was_a_box(store: Store) -> None:
    mailboxes = await boxes(store)
    for key in (None, "", "x", "00000000-0000-0000-0000-000000000000"):
        with pytest.raises(MailboxUnknown):
            await mailboxes.find(key)


async def test_what_has_expired_is_handed_to_nobody(store: Store) -> None:
    """Neither taken, nor said to be there, nor a dead letter, whether somebody asks or not."""
    clock = Clock()
    mailboxes = await boxes(store, clock=clock)
    box, unread = [await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR) for _ in range(2)]
    for each in (box, unread):
        await mailboxes.put(each, [("urn:m:1", b"<e>1</e>")], expires=clock.now + 10)
        await mailboxes.put(each, [("urn:m:2", b"<e>2</e>")], expires=clock.now + 30)
    await fill(mailboxes, box, 3)
    clock.now += 20
    assert await numbers(mailboxes, box) == [2, 3]
    assert mailboxes.leases.expired == 1
    clock.now += 20
    ready = partial(mailbox_messages.ready, keys=[unread.key], now=clock.now)
    assert await store.submit(ready) == []
    await mailboxes.clear()
    assert mailboxes.expired == 2
    for each in (box, unread):
        size = await mailboxes.size(each)
        assert (size.messages, size.octets, size.dropped) == (0, 0, 0)


async def test_what_a_reader_has_expires_when_it_comes_back(store: Store) -> None:
    clock = Clock()
    mailboxes = await boxes(store, clock=clock)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await mailboxes.put(box, [("urn:m:1", b"<e>1</e>")], expires=clock.now + 10)
    batch = await mailboxes.leases.take(box)
    clock.now += 20
    await mailboxes.clear()
    assert (await mailboxes.size(box)).messages == 1, "somebody reads it"
    await mailboxes.leases.handed_over(batch, False)
    assert await numbers(mailboxes, box) == []
    assert mailboxes.leases.expired == 1
