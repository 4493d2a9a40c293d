"""Messages under leases: taken once, handed over, given back, sent over streams."""

import asyncio
from functools import partial

import pytest

from filters import Reason, Refused
from gateway.model.mailboxes import MailboxKind
from gateway.model.subscriber_grants import SubscriberGrant
from gateway.security.identify import anonymous
from gateway.store import Store, mailbox_messages
from tests.rigs.stored_mailboxes import Clock, boxes, fill, numbers
from tests.rigs.stores import on_each_store

NEIGHBOUR = anonymous("127.0.0.1", trusted=True)
pytestmark = on_each_store


async def test_two_takers_never_get_the_same_message(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.MESSAGE_BOX, NEIGHBOUR)
    await fill(mailboxes, box, *range(60))
    taken = await asyncio.gather(*(numbers(mailboxes, box, most=7) for _ in range(10)))
    assert sorted(one for some in taken for one in some) == list(range(60))


async def test_what_was_not_handed_over_is_the_oldest_again(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await fill(mailboxes, box, 1, 2, 3)
    batch = await mailboxes.leases.take(box, most=2)
    assert batch.more
    assert await numbers(mailboxes, box, most=1) == [3]
    await mailboxes.leases.handed_over(batch, False)
    batch = await mailboxes.leases.take(box)
    assert [one.takes for one in batch.messages] == [2, 2]
    assert not batch.more


async def test_many_that_lost_their_right_go_a_few_at_a_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that others have their turn at the store; who takes gets what lies behind them."""
    monkeypatch.setattr(mailbox_messages, "LOST_AT_A_TIME", 4)
    mailboxes = await boxes(store, holds=lambda grant: grant.owner == "user:a")
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    for number in range(30):
        owner = "user:a" if number in (18, 29) else "user:b"
        envelope = (f"urn:m:{number}", b"<e>%d</e>" % number)
        await mailboxes.put(box, [envelope], grant=SubscriberGrant(owner, (None,)))
    once = partial(
        mailbox_messages.take, key=box.key, lease="a", most=1, octets=1, now=0.0, until=1.0
    )
    assert await store.submit(partial(once, holds=lambda _: False)) == ([], True, 0)
    left = (await mailboxes.size(box)).messages
    assert 20 <= left < 30
    assert await numbers(mailboxes, box, most=1) == [18]
    assert await numbers(mailboxes, box, most=1) == [29]
    assert await numbers(mailboxes, box) == []


async def test_a_lease_ends_by_itself(store: Store) -> None:
    clock = Clock()
    mailboxes = await boxes(store, clock=clock)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    await fill(mailboxes, box, 1)
    late = await mailboxes.leases.take(box, lease=5)
    assert await numbers(mailboxes, box) == []
    clock.now += 6
    assert await numbers(mailboxes, box) == [1]
    assert await mailboxes.leases.acknowledge(box, late.lease) == 0


async def test_a_lease_can_be_lengthened_and_given_back_in_part(store: Store) -> None:
    clock = Clock()
    mailboxes = await boxes(store, clock=clock)
    box = await mailboxes.make(MailboxKind.MAILBOX, NEIGHBOUR)
    await fill(mailboxes, box, 1, 2, 3)
    batch = await mailboxes.leases.take(box, lease=20)
    first, second, third = (one.position for one in batch.messages)
    assert await mailboxes.leases.extend(box, batch.lease, 60, [first, second]) == 2
    assert await mailboxes.leases.release(box, batch.lease, [second]) == 1
    clock.now += 25
    assert await numbers(mailboxes, box) == [2, 3]
    assert await mailboxes.leases.acknowledge(box, batch.lease, [first, second, third]) == 1
    assert (await mailboxes.size(box)).messages == 0


async def test_one_puller_at_a_time(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.SUBSCRIPTION, NEIGHBOUR)
    async with mailboxes.leases.alone(box):
        with pytest.raises(Refused) as refused:
            async with mailboxes.leases.alone(box):
                pass
        assert refused.value.reason is Reason.MAILBOX_BUSY
    async with mailboxes.leases.alone(box):
        pass


async def test_what_was_streamed_can_be_sent_again(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.MAILBOX, NEIGHBOUR)
    await fill(mailboxes, box, 1, 2, 3)
    batch = await mailboxes.leases.take(box)
    await mailboxes.leases.sent(batch)
    assert (await mailboxes.size(box)).messages == 0
    assert await numbers(mailboxes, box) == []
    assert await mailboxes.leases.rewind(box, batch.messages[0].position) == 2
    assert await numbers(mailboxes, box) == [2, 3]
