"""A subscription with rows in the store and, behind them, messages in memory: whatever becomes of
an attempt, nothing overtakes, nothing is lost, and what hangs or fails holds up nothing in memory.
"""

import asyncio
import random
from collections.abc import Sequence
from enum import Enum

from gateway.delivery import Schedule
from gateway.delivery.states import State
from mediation.rendering import delivery_id
from tests.rigs.consumers import Connection, Receipt, accept, consumers, hang
from tests.rigs.dispatching import Engine, FakeDelivery, engine, notification
from tests.rigs.stores import on_each_store
from tests.rigs.waiting import until

MESSAGES = 300
PREFETCH = 16
WINDOW = 4
AHEAD = 16
"""Messages that publishers are ahead of the consumer."""


class Fate(Enum):
    """What becomes of an attempt: the status of the answer, and whether it hangs before that."""

    ACCEPTED = (202, False)
    FAILED = (500, False)
    REJECTED = (400, False)
    HUNG = (202, True)
    HUNG_AND_FAILED = (500, True)


USUAL = [Fate.ACCEPTED] * 18 + [Fate.FAILED, Fate.HUNG]
MIXED = [*Fate, Fate.FAILED] + [Fate.ACCEPTED] * 9
"""The fates of rows before messages in memory."""


class ChanceConsumer:
    """A consumer that answers each attempt at random."""

    def __init__(self, run: Engine, chance: random.Random) -> None:
        self._run = run
        self._chance = chance
        self._dealt: list[Fate] = []
        self.attempted: list[int] = []
        self.accepted: list[int] = []
        self.mixed = 0
        """Attempts of rows before messages in memory."""
        self.held_up = 0
        """Messages in memory alone, and so unsettled, while what had failed was tried again."""

    def __call__(self, connection: Connection, receipt: Receipt) -> None:
        number = int(receipt.number)
        [entry] = self._run.entries
        outbox = self._run.dispatcher.outboxes.busy(entry)
        assert outbox is not None
        if self.attempted[-1:] == [number]:
            self.held_up += len(outbox.live)
        self.attempted.append(number)
        [pending] = outbox.in_flight
        mixed = pending.state is State.HELD and len(outbox.live) > 0
        self.mixed += mixed
        status, hangs = (self._deal() if mixed else self._chance.choice(USUAL)).value
        if status == 202:
            self.accepted.append(number)
        behind = list(self._run.deliveries) if hangs else []
        self._answer_later(self._chance.choice((0, 0.001, 0.005)), connection, status, behind)

    def _deal(self) -> Fate:
        """Like cards, so that each comes."""
        if not self._dealt:
            self._dealt = self._chance.sample(MIXED, len(MIXED))
        return self._dealt.pop()

    def _answer_later(
        self, seconds: float, connection: Connection, status: int, behind: Sequence[FakeDelivery]
    ) -> None:
        """What hangs is answered when it holds up none of *behind* any more."""
        loop = asyncio.get_running_loop()
        if all(delivery.settled for delivery in behind):
            loop.call_later(seconds, connection.answer, status)
        else:
            loop.call_later(0.01, self._answer_later, seconds, connection, status, behind)


@on_each_store
async def test_whatever_becomes_of_rows_before_messages_in_memory(store_url: str) -> None:
    schedule = Schedule(delays=(0.02,) * 40, probe=0.02, answered=4)
    errors: list[int] = []
    async with (
        consumers() as sinks,
        engine(store_url, schedule, prefetch=2, window=WINDOW) as run,  # Always in a hurry.
    ):
        consumer = ChanceConsumer(run, random.Random(4))
        entry = await run.subscribe(sinks.add(consumer).url)

        def has_room() -> bool:
            """A broker lets so many be unsettled, and has no more than was published."""
            unsettled = sum(not delivery.settled for delivery in run.deliveries)
            return (
                unsettled < PREFETCH and len(run.deliveries) < len(set(consumer.attempted)) + AHEAD
            )

        async def watch() -> None:
            while True:
                errors.append((await run.conservation()).error)
                await asyncio.sleep(0.005)

        watching = asyncio.create_task(watch())
        try:
            for number in range(MESSAGES):
                await until(has_room)
                run.publish(number)
            await run.conservation_when(in_flight=0, waiting=0)
        finally:
            watching.cancel()
        law = await run.at_rest()
        dead = {letter.death.delivery_id for letter in await run.dead()}
    assert set(errors) == {0}
    assert consumer.attempted == sorted(consumer.attempted)
    assert consumer.accepted == sorted(set(consumer.accepted))
    buried = [n for n in range(MESSAGES) if delivery_id(notification(str(n)), entry.id) in dead]
    assert sorted(consumer.accepted + buried) == list(range(MESSAGES))
    assert (law.totals.delivered, law.totals.dead) == (len(consumer.accepted), len(buried))
    assert consumer.held_up == 0
    assert consumer.mixed >= 3 * len(MIXED)


async def test_what_exceeds_the_window_does_not_overtake_messages_in_memory(store_url: str) -> None:
    """They become rows before it does."""
    async with consumers() as sinks, engine(store_url, window=2) as run:
        consumer = sinks.add()
        await run.subscribe(consumer.url)
        run.publish(0)
        await run.at_rest(delivered=1)
        consumer.behaviour = hang
        run.publish(1, 2, 3, 4, 5)  # Under way, two rows, one in memory, and one too many.
        await consumer.have(2)
        consumer.behaviour = accept
        next(c for c in sinks.connections if not c.answered).answer(202)
        assert await consumer.have(6) == ["0", "1", "2", "3", "4", "5"]
        await run.at_rest(delivered=6)
