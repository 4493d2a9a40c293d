"""The size of steps, and how long they last together."""

import asyncio

import pytest

from gateway.client.pace import Pace


@pytest.mark.parametrize(
    ("rate", "step"), [(None, 5000), (0.1, 1), (1.0, 1), (2.5, 3), (50.0, 50), (9000.0, 5000)]
)
def test_a_step_has_what_a_second_may_have(rate: float | None, step: int) -> None:
    assert Pace(rate).step(5000) == step


async def test_steps_take_as_long_as_their_rate_says() -> None:
    """No sooner, by the clock; later on a busy machine."""
    now, pace = asyncio.get_running_loop().time, Pace(100.0)
    began = now()
    for _ in range(3):
        await pace.keep(5)
    assert now() - began >= 0.149
