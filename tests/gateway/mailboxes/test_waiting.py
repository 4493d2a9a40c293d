"""Readers that wait for a message."""

import asyncio
import time

from gateway.model.mailboxes import MailboxKind
from gateway.security.identify import anonymous
from gateway.store import Store
from tests.rigs.stored_mailboxes import boxes, fill, numbers
from tests.rigs.stores import on_each_store
from tests.rigs.waiting import DEADLINE, until

NEIGHBOUR = anonymous("127.0.0.1", trusted=True)
pytestmark = on_each_store


async def test_a_reader_waits_for_a_message(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    began = time.monotonic()
    assert await numbers(mailboxes, box, wait=0.1) == []
    assert time.monotonic() - began >= 0.1
    waiting = asyncio.create_task(numbers(mailboxes, box, wait=30.0))
    await until(lambda: len(mailboxes.waiting) == 1)
    await fill(mailboxes, box, 1)
    assert await asyncio.wait_for(waiting, DEADLINE) == [1]


async def test_a_reader_that_leaves_takes_nothing(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    left = asyncio.Event()

    async def gone() -> None:
        await left.wait()

    waiting = asyncio.create_task(mailboxes.leases.take(box, wait=30.0, gone=gone))
    await until(lambda: len(mailboxes.waiting) == 1)
    left.set()
    assert (await asyncio.wait_for(waiting, DEADLINE)).messages == ()
    await fill(mailboxes, box, 1)
    assert await numbers(mailboxes, box) == [1]


async def test_readers_are_sent_away_when_the_gateway_stops(store: Store) -> None:
    mailboxes = await boxes(store)
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    waiting = asyncio.create_task(numbers(mailboxes, box, wait=30.0))
    await until(lambda: len(mailboxes.waiting) == 1)
    mailboxes.close()
    assert await asyncio.wait_for(waiting, DEADLINE) == []
