"""What the scheduler does for several owners at a time."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from gateway.delivery.outbox import Message, Outbox, PendingDelivery
from gateway.delivery.schedule import DELIVERED, Outcome
from gateway.delivery.scheduler import SendScheduler
from gateway.delivery.stall_timer import STALLED, TICK
from gateway.egress import Posted
from tests.rigs.dispatching import engine, notification


class Posting:
    """Posts, and says how that ended when it is told to."""

    patience = 1.0

    def __init__(self) -> None:
        self.told: list[tuple[Callable[[PendingDelivery, Outcome], None], PendingDelivery]] = []

    def next(self, outbox: Outbox) -> PendingDelivery | None:
        return None

    async def send(self, pending: PendingDelivery) -> Outcome:
        raise AssertionError("everything is posted")

    def post(
        self, pending: PendingDelivery, told: Callable[[PendingDelivery, Outcome], None]
    ) -> Posted:
        self.told.append((told, pending))
        return self

    def cancel(self) -> None:
        """There is nothing to give up."""

    def completed(self, pending: PendingDelivery, outcome: Outcome) -> None:
        pending.outbox.in_flight.discard(pending)

    def stalled(self, outbox: Outbox) -> None:
        """Nobody keeps it."""

    def end(self) -> None:
        for told, pending in self.told:
            told(pending, DELIVERED)


async def test_owners_that_stop_at_the_same_time_wait_for_their_own(tmp_path: Path) -> None:
    async with engine(tmp_path) as e:
        entry = await e.subscribe("soap.tcp://127.0.0.1/")
        scheduler, owners = SendScheduler(), [Posting(), Posting()]
        for owner in owners:
            outbox = Outbox(entry, scheduler.destination(entry.target), owner)
            pending = PendingDelivery(Message(notification("1"), None), outbox, 1, 0.0)
            assert scheduler.start(pending)
        stopping = [asyncio.create_task(scheduler.stop(60.0, owner)) for owner in owners]
        await asyncio.sleep(0)
        for owner, stop in zip(owners, stopping, strict=True):
            owner.end()
            await asyncio.wait_for(stop, 3.0)


async def test_one_late_tick_tells_nothing_and_the_next_one_counts(tmp_path: Path) -> None:
    """Answers may lie in the sockets of a process that stalled; not for ever, if it goes on so."""
    async with engine(tmp_path) as e:
        entry = await e.subscribe("soap.tcp://127.0.0.1/")
        scheduler, owner = SendScheduler(), Posting()
        owner.patience = TICK
        outbox = Outbox(entry, scheduler.destination(entry.target), owner)
        pending = PendingDelivery(Message(notification("1"), None), outbox, 1, 0.0)
        assert scheduler.start(pending)
        stalled = []
        for _ in range(2):
            time.sleep(TICK + 2 * STALLED)  # noqa: ASYNC251 - the event loop is to hang
            for _ in range(2):
                await asyncio.sleep(0)
            stalled.append(pending.stalled)
        assert stalled == [False, True]
        owner.end()
