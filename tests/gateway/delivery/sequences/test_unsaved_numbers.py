"""Deliveries in a sequence that follow one another: how often the store is written for them, and
what becomes of those that have their numbers and are not sent."""

from pathlib import Path

import pytest

from mediation.reliable_messaging import CloseSequence, ReliableMessage
from tests.gateway.delivery.test_sequence_attempt import Rig, rig
from tests.rigs.consumers import Connection, Receipt
from tests.rigs.envelopes import WSE, Speaker, notification_message, notify
from tests.rigs.waiting import until

MANY = 24


async def burst(r: Rig, *numbers: int) -> None:
    """Publish *numbers* in one message, so that they wait for one another."""
    messages = (f"<t:event xmlns:t='urn:t'><n>{number}</n></t:event>" for number in numbers)
    await r.run.publish(notify(*map(notification_message, messages)))


async def test_how_often_the_store_is_written(tmp_path: Path) -> None:
    """Not once for each delivery: those that wait get their numbers together, and what is
    acknowledged is noted together."""
    async with rig(tmp_path) as r:
        await r.subscribe()
        await r.publish(0)
        await r.got(0)
        before = r.run.gateway.store.commits
        await burst(r, *range(1, MANY + 1))
        await r.got(*range(MANY + 1))
        written = r.run.gateway.store.commits - before
        assert written < MANY, "two for each delivery, when each has its own"
        assert r.reliable.sequences == [list(range(1, MANY + 2))]
        await r.conserved(matched=MANY + 1, delivered=MANY + 1)


async def test_a_consumer_that_forgets_between_them(tmp_path: Path) -> None:
    """Those that have numbers and were not sent go on in the next sequence."""
    async with rig(tmp_path) as r:
        await r.subscribe()

        def forgets(said: ReliableMessage) -> str:
            if said.sequence is not None and said.sequence.number == 4:
                r.reliable.loses = lambda said: ""
                r.reliable.forget()
            return ""

        r.reliable.loses = forgets
        await burst(r, 1, 2, 3, 4, 5, 6)
        await r.got(1, 2, 3, 4, 5, 6)
        assert r.reliable.sequences == [[1, 2, 3, 4], [1, 2, 3]]
        await r.conserved(matched=6, delivered=6)


async def test_a_consumer_that_keeps_silent_between_them(tmp_path: Path) -> None:
    """The number that its sequence is closed with is the last that was sent."""
    async with rig(tmp_path) as r:
        r.reliable.mute = True
        await r.subscribe()
        lost = iter(["answer"])
        r.reliable.loses = lambda said: (
            next(lost, "") if said.sequence is not None and said.sequence.number == 3 else ""
        )
        await burst(r, 1, 2, 3, 4, 5)
        await r.got(1, 2, 3, 4, 5)
        closed = [one.body for one in r.reliable.sent if isinstance(one.body, CloseSequence)]
        assert [body.last_number for body in closed][:1] == [3]
        assert r.reliable.sequences == [[1, 2, 3], [1, 2]]
        await r.conserved(matched=5, delivered=5)


@pytest.mark.slow
async def test_the_end_while_some_wait(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        manager = await r.subscribe()
        held: list[tuple[Connection, Receipt]] = []

        def holds(connection: Connection, receipt: Receipt) -> None:
            if receipt.number in ("1", "2"):
                held.append((connection, receipt))
            else:
                r.reliable(connection, receipt)

        r.consumer.behaviour = holds
        await burst(r, 1, 2, 3, 4)
        await r.matched(4)
        await until(lambda: len(held) == 1)
        r.reliable(*held[0])
        await until(lambda: len(held) == 2)
        await r.run.ask(Speaker(), f'<e:Unsubscribe xmlns:e="{WSE}"/>', manager)
        r.reliable(*held[1])
        r.consumer.behaviour = r.reliable
        await until(lambda: "TerminateSequence" in r.reliable.bodies())
        [closed] = [one.body for one in r.reliable.sent if isinstance(one.body, CloseSequence)]
        assert closed.last_number == 2
        assert r.reliable.got == ["1", "2"]
