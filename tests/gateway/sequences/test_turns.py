"""Turns in sequences over a messaging system that is slow, or never done."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import func, select

from adapters import AdapterUnavailable
from filters import Reason, Refused
from gateway.reliability.party import anonymous
from gateway.reliability.stores.tables import invoker_messages
from gateway.security.identify import anonymous as principal_at
from gateway.security.principals import Principal
from gateway.sequences import register
from gateway.sequences.contents import named, write_content
from gateway.sequences.sequences import TRUSTED, Acknowledged, Sequences
from gateway.store import Store
from mediation.model.messages import MessageHeaders, Notification
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import (
    LARGEST_NUMBER,
    CreateSequence,
    FaultName,
    ReliableMessage,
    Rm,
    RmRefused,
    SequenceHeader,
)
from mediation.reliable_messaging.policy import Policy
from tests.rigs.waiting import until

ADDRESSED = MessageHeaders(Wsa.V2005_08)
SAID = ReliableMessage(Soap.V1_2, ADDRESSED, Rm.V1_1)
OWNER = principal_at("127.0.0.1", trusted=True)
SOON = 20.0
DEFAULT = Policy()


class Desk:
    """The sequences of a gateway, and a messaging system that takes events when it is told to.

    Attributes:
        begun: The numbers that were handed over, in each call.
        identifier: Of the one sequence.
    """

    def __init__(
        self,
        store: Store,
        *,
        settled: float = SOON,
        lease_seconds: float = 30.0,
        policy: Policy = DEFAULT,
        at_work: int = 64,
    ) -> None:
        self.store = store
        self.begun: list[list[int]] = []
        self.takes = asyncio.Event()
        self.takes.set()
        self.sends_on = self.refuses = False
        self.sent = 0
        self.sending: set[asyncio.Task[Acknowledged]] = set()
        self.sequences = Sequences(
            store,
            policy,
            publish=self.publish,
            may_name=lambda address, principal: False,
            send=lambda *_: None,
            shared=False,
            octets_per_owner=2**20,
            settled=settled,
            lease_seconds=lease_seconds,
            at_work=at_work,
        )

    async def publish(self, events: Sequence[Notification]) -> None:
        self.begun.append([int(event.payload[3:-4]) for event in events])
        await self.takes.wait()
        if self.refuses and len(events) > 1:
            raise Refused(Reason.TOO_LARGE, "One of them is too large.")
        if self.sends_on:
            self.send(self.sent + 1)
            await asyncio.sleep(0)  # It has asked the store now, which does things in order.
            await self.store.submit(lambda connection: None)

    async def create(self, principal: Principal = OWNER) -> str:
        made = await self.sequences.create(SAID, CreateSequence(anonymous(Wsa.V2005_08)), principal)
        self.identifier = made.identifier
        return made.identifier

    async def take(self, number: int, principal: Principal = OWNER) -> Acknowledged:
        event = Notification("", "urn:p", b"<e>%d</e>" % number, datetime.now(UTC))
        said = ReliableMessage(
            Soap.V1_2, ADDRESSED, Rm.V1_1, sequence=SequenceHeader(self.identifier, number)
        )
        content = write_content(named([event], self.identifier, number))
        return await self.sequences.take(said, content, principal)

    def send(self, number: int) -> "asyncio.Task[Acknowledged]":
        """Take a message, and do not wait for its turn."""
        self.sent = max(self.sent, number)
        task = asyncio.create_task(self.take(number))
        self.sending.add(task)
        return task

    async def waiting(self) -> int:
        [state] = await self.sequences.listed()
        return state.waiting

    async def terminate(self) -> None:
        [state] = await self.sequences.listed()
        await self.sequences.terminate(state)


@asynccontextmanager
async def a_desk(
    folder: Path,
    *,
    settled: float = SOON,
    lease_seconds: float = 30.0,
    policy: Policy = DEFAULT,
) -> AsyncIterator[Desk]:
    store = Store.at(folder)
    await store.start()
    desk = Desk(store, settled=settled, lease_seconds=lease_seconds, policy=policy)
    try:
        async with asyncio.timeout(2 * SOON):
            await desk.create()
            yield desk
            desk.takes.set()
            await asyncio.gather(*desk.sending, return_exceptions=True)
    finally:
        desk.takes.set()
        await desk.sequences.close()
        await store.close()


async def test_few_are_published_at_a_time_after_a_start(tmp_path: Path) -> None:
    """However many wait, and however long the messaging system takes."""
    async with a_desk(tmp_path) as desk:
        desk.takes.clear()
        desk.send(1)
        for _ in range(3):
            await until(lambda: bool(desk.begun))
            await desk.create()
            desk.begun.clear()
            desk.send(1)
        await until(lambda: bool(desk.begun))
        started = Desk(desk.store, at_work=2)
        started.takes.clear()
        await started.sequences.start()
        running = asyncio.create_task(started.sequences.run())
        try:
            await until(lambda: len(started.begun) == 2)
            rounds = desk.store.commits + 4
            await until(lambda: desk.store.commits > rounds)
            assert len(started.begun) == 2
            started.takes.set()
            await until(lambda: len(started.begun) == 4)
        finally:
            running.cancel()


async def test_the_end_does_not_wait_for_a_maker_who_goes_on(tmp_path: Path) -> None:
    async with a_desk(tmp_path, settled=3 * SOON) as desk:
        desk.sends_on = True
        desk.send(1)
        await until(lambda: len(desk.begun) > 2)
        await desk.terminate()
        with pytest.raises(RmRefused) as refused:
            await desk.take(desk.sent + 1)
        assert refused.value.fault.name is FaultName.SEQUENCE_CLOSED
        [state] = await desk.sequences.listed()
        assert state.sequence.ended_at is not None
        assert state.delivered == state.sequence.received.highest, "what was taken is published"


@pytest.mark.parametrize("by", ["its maker", "an operator"])
async def test_the_end_is_refused_while_the_messaging_system_is_never_done(
    tmp_path: Path, by: str
) -> None:
    """Whoever believes that a number was not received sends that message in another sequence."""
    async with a_desk(tmp_path, settled=0.1) as desk:
        desk.takes.clear()
        desk.send(1)
        await until(lambda: bool(desk.begun))

        async def terminate() -> None:
            if by == "an operator":
                await desk.terminate()
            else:
                await desk.sequences.end(desk.identifier, 1, OWNER, terminate=True)

        with pytest.raises(AdapterUnavailable):
            await terminate()
        told = await desk.sequences.ask(desk.identifier, OWNER)
        assert b"Final" not in told.block
        if by == "an operator":
            with pytest.raises(RmRefused) as refused:
                await desk.take(2)
            assert refused.value.fault.name is FaultName.SEQUENCE_CLOSED
            assert b"Final" not in b"".join(refused.value.blocks)
        desk.takes.set()
        await until(lambda: _waits(desk, 0))
        await terminate()
        told = await desk.sequences.ask(desk.identifier, OWNER)
        assert (b'Upper="1"' in told.block, b"Final" in told.block) == (True, True)
        assert desk.begun == [[1]]


async def test_the_end_is_refused_while_another_gateway_publishes(tmp_path: Path) -> None:
    async with a_desk(tmp_path, settled=0.1) as desk:
        other = Desk(desk.store, settled=0.1)
        other.identifier = desk.identifier
        other.takes.clear()
        other.send(1)
        await until(lambda: bool(other.begun))
        with pytest.raises(AdapterUnavailable):
            await desk.sequences.end(desk.identifier, 1, OWNER, terminate=True)
        other.takes.set()
        await asyncio.gather(*other.sending)
        told = await desk.sequences.end(desk.identifier, 1, OWNER, terminate=True)
        assert (b'Upper="1"' in told.block, b"Final" in told.block) == (True, True)
        assert (other.begun, desk.begun) == ([[1]], [])


async def test_a_sequence_that_expires_while_something_waits(tmp_path: Path) -> None:
    """There is a last word on it when the messaging system has what waited."""
    async with a_desk(tmp_path, settled=0.1, policy=replace(DEFAULT, inactivity=0.0)) as desk:
        desk.takes.clear()
        desk.send(1)
        await until(lambda: bool(desk.begun))
        running = asyncio.create_task(desk.sequences.run())

        async def ended() -> bool:
            [state] = await desk.sequences.listed()
            return state.sequence.ended_at is not None

        await until(ended)
        assert b"Final" not in (await desk.sequences.ask(desk.identifier, OWNER)).block
        desk.takes.set()
        await until(lambda: _waits(desk, 0))
        running.cancel()
        assert b"Final" in (await desk.sequences.ask(desk.identifier, OWNER)).block


async def test_a_lease_that_ends_under_its_own_holder(tmp_path: Path) -> None:
    """What is being published is not begun a second time."""
    async with a_desk(tmp_path, lease_seconds=3.0) as desk:
        desk.takes.clear()
        desk.send(1)
        await until(lambda: bool(desk.begun))
        over = time.time() + 3.0
        await until(lambda: time.time() > over)
        desk.send(2)
        await until(lambda: _waits(desk, 2))
        assert desk.begun == [[1]]
        desk.takes.set()
        await until(lambda: _waits(desk, 0))
        assert desk.begun == [[1], [2]]
        assert (await desk.take(3)).sequence is not None
        assert desk.begun == [[1], [2], [3]]


async def test_nothing_is_begun_where_little_is_left_of_the_lease(tmp_path: Path) -> None:
    async with a_desk(tmp_path, lease_seconds=3.0) as desk:
        desk.takes.clear()
        desk.refuses = True
        desk.send(2)
        await until(lambda: _waits(desk, 1))
        desk.send(1)
        await until(lambda: bool(desk.begun))
        little = time.time() + 1.5
        await until(lambda: time.time() > little)
        desk.takes.set()
        await asyncio.gather(*desk.sending)
        assert desk.begun == [[1, 2]], "each by itself, as it is refused, would take too long"
        assert await desk.waiting() == 2
        running = asyncio.create_task(desk.sequences.run())
        await until(lambda: _waits(desk, 0))
        running.cancel()
        assert desk.begun == [[1, 2], [1, 2], [1], [2]]


async def test_the_start_waits_for_no_messaging_system(tmp_path: Path) -> None:
    async with a_desk(tmp_path) as desk:
        desk.takes.clear()
        desk.send(1)
        await until(lambda: bool(desk.begun))
        again = Desk(desk.store)
        again.takes.clear()
        await again.sequences.start()
        assert again.begun == []
        running = asyncio.create_task(again.sequences.run())
        await until(lambda: bool(again.begun))
        again.takes.set()
        await until(lambda: _waits(desk, 0))
        running.cancel()
        assert again.begun == [[1]]


async def test_the_bytes_that_wait_are_known(tmp_path: Path) -> None:
    """Those of the register are those of the messages, whatever becomes of them."""
    async with a_desk(tmp_path) as desk:

        async def known() -> int:
            """The bytes that the register knows of, which are right."""
            own, owners = await desk.store.submit(
                lambda connection: register.waiting(connection, desk.identifier, TRUSTED)
            )
            size = select(func.coalesce(func.sum(func.length(invoker_messages.c.envelope)), 0))
            there = await desk.store.submit(lambda connection: connection.execute(size).scalar())
            assert own == owners == there
            return own

        for number in (2, 3, 5, 6, 5, 8):
            await desk.take(number)
        five = await known()
        assert five > 0
        await desk.take(1)
        assert 0 < await known() < five, "5, 6 and 8 wait"
        desk.takes.clear()
        desk.send(4)
        await until(lambda: len(desk.begun) == 2)
        assert await known() > 0
        desk.takes.set()
        await asyncio.gather(*desk.sending)
        assert await known() > 0, "8 waits for 7"
        await desk.sequences.end(desk.identifier, 8, OWNER, terminate=True)
        assert await known() == 0, "it is discarded"


async def test_the_bytes_that_wait_where_a_wrong_number_ends_it(tmp_path: Path) -> None:
    async with a_desk(tmp_path) as desk:
        await desk.take(3)
        assert await desk.waiting() == 1
        with pytest.raises(RmRefused):
            await desk.take(LARGEST_NUMBER + 1)
        assert await desk.waiting() == 0
        octets = await desk.store.submit(
            lambda connection: register.waiting(connection, desk.identifier, TRUSTED)
        )
        assert octets == (0, 0)


async def test_what_is_forgotten_is_not_registered(tmp_path: Path) -> None:
    policy = replace(DEFAULT, tombstone=0.0)
    async with a_desk(tmp_path, policy=policy) as desk:
        await desk.take(2)
        [state] = await desk.sequences.listed()
        assert await desk.sequences.by_id(state.id) == state
        await desk.terminate()
        running = asyncio.create_task(desk.sequences.run())

        async def forgotten() -> bool:
            return not await desk.store.submit(register.count)

        await until(forgotten)
        running.cancel()
        assert await desk.sequences.by_id(state.id) is None


async def _waits(desk: Desk, number: int) -> bool:
    return await desk.waiting() == number
