"""Readers that wait for a message."""

import asyncio
import time

import pytest

from filters import Refused
from gateway.mailboxes import waiting as waiting_module
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


async def test_who_is_sent_away_for_another_finds_no_place(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told so at once, and nobody else notices."""
    monkeypatch.setattr(waiting_module, "WAITING", 4)
    mailboxes = await boxes(store)
    strangers = (anonymous(address, trusted=True) for address in ("192.0.2.1", "192.0.2.2"))
    many, one = [await mailboxes.make(MailboxKind.PULL_POINT, each) for each in strangers]
    waiting = [asyncio.create_task(numbers(mailboxes, many, wait=30.0)) for _ in range(4)]
    await until(lambda: len(mailboxes.waiting) == 4)
    other = asyncio.create_task(numbers(mailboxes, one, wait=30.0))
    done, _ = await asyncio.wait(waiting, timeout=DEADLINE, return_when=asyncio.FIRST_COMPLETED)
    [gone] = done
    with pytest.raises(Refused, match="Too many readers wait"):
        gone.result()
    with pytest.raises(Refused, match="Too many readers wait"):
        await numbers(mailboxes, many, wait=30.0)
    await fill(mailboxes, one, 1)
    assert await asyncio.wait_for(other, DEADLINE) == [1]
    mailboxes.close()
    await asyncio.gather(*(each for each in waiting if each is not gone))
    assert len(mailboxes.waiting) == 0
