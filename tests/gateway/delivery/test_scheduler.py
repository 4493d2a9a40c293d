"""What the sender does for several owners at a time."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from gateway.delivery.outbox import Message, Outbox, Parcel
from gateway.delivery.schedule import DELIVERED, Outcome
from gateway.delivery.scheduler import Sender
from gateway.delivery.stall_timer import STALLED, TICK
from gateway.egress import Posted
from tests.rigs.dispatching import engine, notification


class Posting:
    """Posts, and says how that ended when it is told to."""

    patience = 1.0

    def __init__(self) -> None:
        self.told: list[tuple[Callable[[Parcel, Outcome], None], Parcel]] = []

    def next(self, outbox: Outbox) -> Parcel | None:
        return None

    async def send(self, parcel: Parcel) -> Outcome:
        raise AssertionError("everything is posted")

    def post(self, parcel: Parcel, told: Callable[[Parcel, Outcome], None]) -> Posted:
        self.told.append((told, parcel))
        return self

    def cancel(self) -> None:
        """There is nothing to give up."""

    def landed(self, parcel: Parcel, outcome: Outcome) -> None:
        parcel.outbox.flying.discard(parcel)

    def hangs(self, outbox: Outbox) -> None:
        """Nobody keeps it."""

    def end(self) -> None:
        for told, parcel in self.told:
            told(parcel, DELIVERED)


async def test_owners_that_stop_at_the_same_time_wait_for_their_own(tmp_path: Path) -> None:
    async with engine(tmp_path) as e:
        entry = await e.subscribe("soap.tcp://127.0.0.1/")
        sender, owners = Sender(), [Posting(), Posting()]
        for owner in owners:
            outbox = Outbox(entry, sender.destination(entry.target), owner)
            parcel = Parcel(Message(notification("1"), None), outbox, 1, 0.0)
            assert sender.start(parcel)
        stopping = [asyncio.create_task(sender.stop(60.0, owner)) for owner in owners]
        await asyncio.sleep(0)
        for owner, stop in zip(owners, stopping, strict=True):
            owner.end()
            await asyncio.wait_for(stop, 3.0)


async def test_one_late_tick_tells_nothing_and_the_next_one_counts(tmp_path: Path) -> None:
    """Answers may lie in the sockets of a process that hung; not for ever, if it goes on so."""
    async with engine(tmp_path) as e:
        entry = await e.subscribe("soap.tcp://127.0.0.1/")
        sender, owner = Sender(), Posting()
        owner.patience = TICK
        outbox = Outbox(entry, sender.destination(entry.target), owner)
        parcel = Parcel(Message(notification("1"), None), outbox, 1, 0.0)
        assert sender.start(parcel)
        hung = []
        for _ in range(2):
            time.sleep(TICK + 2 * STALLED)  # noqa: ASYNC251 - the event loop is to hang
            for _ in range(2):
                await asyncio.sleep(0)
            hung.append(parcel.hung)
        assert hung == [False, True]
        owner.end()
