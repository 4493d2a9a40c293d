"""The timer that knows when it rang late."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.delivery.timers import STALLED, TICK, StallTimer


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time goes as it is told."""

    now = 0.0

    def time(self) -> float:
        return self.now

    async def pass_by(self, seconds: float) -> None:
        """Let *seconds* go by, and what is then due run."""
        self.now += seconds
        for _ in range(2):
            await asyncio.sleep(0)


def run(test: Callable[[Clock], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=Clock) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, Clock)
        runner.run(test(loop))


@pytest.mark.parametrize(
    ("delay", "late"), [(0.0, False), (0.9 * STALLED, False), (1.1 * STALLED, True), (60.0, True)]
)
def test_it_knows_when_it_rings_late(delay: float, late: bool) -> None:
    async def test(loop: Clock) -> None:
        rings: list[bool] = []
        StallTimer(rings.append).start()
        await loop.pass_by(0.9 * TICK)
        assert rings == []
        await loop.pass_by(0.1 * TICK + delay)
        assert rings == [late]

    run(test)


def test_it_rings_once_however_often_it_is_started() -> None:
    async def test(loop: Clock) -> None:
        rings: list[bool] = []
        ticks = StallTimer(rings.append)
        for _ in range(3):
            ticks.start()
        await loop.pass_by(0.5 * TICK)
        ticks.start()
        await loop.pass_by(0.5 * TICK)
        assert rings == [False]
        await loop.pass_by(2 * TICK)
        assert rings == [False]

    run(test)


def test_it_may_be_started_while_it_rings() -> None:
    """Each ring has a time of its own: one that was late makes the next no later."""

    async def test(loop: Clock) -> None:
        rings: list[bool] = []

        def ring(late: bool) -> None:
            rings.append(late)
            ticks.start()

        ticks = StallTimer(ring)
        ticks.start()
        for seconds in (TICK + 2 * STALLED, TICK, 0.5 * TICK, 0.5 * TICK):
            await loop.pass_by(seconds)
        assert rings == [True, False, False]

    run(test)


def test_it_goes_on_after_a_ring_that_failed() -> None:
    async def test(loop: Clock) -> None:
        rings: list[bool] = []
        errors: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: errors.append(context))

        def ring(late: bool) -> None:
            rings.append(late)
            raise RuntimeError

        ticks = StallTimer(ring)
        for _ in range(2):
            ticks.start()
            await loop.pass_by(TICK)
        assert rings == [False, False]
        assert len(errors) == 2

    run(test)
