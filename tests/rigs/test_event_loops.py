"""The rig that tells who holds the event loop."""

import asyncio
import gc
import time

import pytest

from gateway.parsing import FairQueue
from mediation.cloudevents.projection import project
from tests.rigs import pace
from tests.rigs.event_loops import MOST, QUIET, take_held, watched


async def test_a_callback_of_the_gateway_is_named() -> None:
    with watched(0.0):
        asyncio.get_running_loop().call_soon(project, b"<a/>")
        await asyncio.sleep(0)
    held = [each for each in take_held() if each.startswith("project (")]
    assert len(held) == 1
    assert "mediation/cloudevents/projection.py" in held[0]


async def test_a_step_of_a_task_is_named_with_what_it_waits_for() -> None:
    line = FairQueue()
    await line.take_turn("", 1)
    await line.take_turn("", 1)
    with watched(0.0):
        task = asyncio.create_task(line.take_turn("", 1))
        await asyncio.sleep(0)
    line.leave()
    await task
    assert any(each.startswith("a step of FairQueue.take_turn:") for each in take_held())


async def test_what_tests_do_is_not_the_gateways() -> None:
    def burn() -> None:
        began = time.thread_time()
        while time.thread_time() - began < MOST:
            pass

    with watched():
        asyncio.get_running_loop().call_soon(burn)
        await asyncio.sleep(0)
    assert take_held() == []


async def test_too_much_work_is_seen_however_fast_the_machine_is() -> None:
    """Three times what may be, counted in pieces of the work by which time is measured."""

    def holder() -> None:
        for _ in range(3 * round(MOST / QUIET)):
            pace.work()

    holder.__code__ = holder.__code__.replace(co_filename=project.__code__.co_filename)
    with watched():
        asyncio.get_running_loop().call_soon(holder)
        await asyncio.sleep(0)
    assert len(take_held()) == 1


async def test_the_collector_is_left_out() -> None:
    """A collection in a callback counts for nobody."""
    collected = []

    def note(phase: str, _: dict[str, int]) -> None:
        collected.append(phase)

    def holder() -> None:
        gc.collect()

    gc.callbacks.append(note)
    holder.__code__ = holder.__code__.replace(co_filename=project.__code__.co_filename)
    try:
        with watched():
            asyncio.get_running_loop().call_soon(holder)
            await asyncio.sleep(0)
    finally:
        gc.callbacks.remove(note)
    assert collected[-1] == "stop"
    assert take_held() == []


@pytest.mark.holds_loop("to see that the mark is known")
def test_one_may_be_excepted() -> None: ...
