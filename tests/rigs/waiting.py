"""Waiting for what tells nobody when it happens; what does tell is awaited instead.

A deadline ends what hangs: it says nothing of how fast a machine is, and so it is generous.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

DEADLINE = 60.0
"""Seconds."""
PAUSE = 0.01
"""Seconds from one look to the next, at least."""
LONGEST_PAUSE = 0.2
SHARE = 0.1
"""Of what has been waited for so far is the next pause, where a look is a question to somebody: such as
one for a gateway's metrics, which in a loop take a core and a half."""


async def until(holds: Callable[[], object | Awaitable[object]], seconds: float = DEADLINE) -> None:
    """Return once *holds*, which may have to be awaited, is true.

    Raises:
        TimeoutError: It was not within *seconds*.
    """
    began = time.monotonic()
    async with asyncio.timeout(seconds):
        while True:
            found, pause = holds(), PAUSE
            if inspect.isawaitable(found):
                found, pause = await found, _pause(began)
            if found:
                return
            await asyncio.sleep(pause)


async def cancel_wait(waiting: Awaitable[object]) -> None:
    """Begin to wait, and be cancelled as by a time limit, once it waits for something."""
    task = asyncio.ensure_future(waiting)
    for _ in range(3):  # A task, and one that it begins; what it then waits for takes longer.
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()


async def seconds_of(waiting: Awaitable[object]) -> float:
    """Wait, and return how many seconds that took, but for those in which a busy machine did not
    run this event loop."""
    stood_still, asleep_since = 0.0, time.monotonic()

    def lateness() -> float:
        return max(0.0, time.monotonic() - asleep_since - 2 * PAUSE)

    async def notice() -> None:
        nonlocal stood_still, asleep_since
        while True:
            asleep_since = time.monotonic()
            await asyncio.sleep(PAUSE)
            stood_still += lateness()

    noticing = asyncio.create_task(notice())
    began = time.monotonic()
    try:
        await waiting
        return time.monotonic() - began - stood_still - lateness()
    finally:
        noticing.cancel()


def _pause(began: float) -> float:
    return min(max(PAUSE, SHARE * (time.monotonic() - began)), LONGEST_PAUSE)


async def until_taken(
    call: Callable[[], Awaitable[object]], refusal: type[Exception], seconds: float = DEADLINE
) -> int:
    """Call until nothing is refused, as a publisher does; how often *refusal* was raised.

    Raises:
        TimeoutError: It still was after *seconds*.
    """
    refused = 0

    async def taken() -> bool:
        nonlocal refused
        try:
            await call()
        except refusal:
            refused += 1
            return False
        return True

    await until(taken, seconds)
    return refused


def wait_until(
    holds: Callable[[], object],
    seconds: float = DEADLINE,
    *,
    says: Callable[[], object] = lambda: None,
) -> None:
    """The same without an event loop; what fails has what it *says* with it."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() < began + seconds, says()
        time.sleep(_pause(began))
