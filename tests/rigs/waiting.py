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
"""Seconds from one look to the next."""


async def until(holds: Callable[[], object | Awaitable[object]], seconds: float = DEADLINE) -> None:
    """Return once *holds*, which may have to be awaited, is true.

    Raises:
        TimeoutError: It was not within *seconds*.
    """
    async with asyncio.timeout(seconds):
        while True:
            found = holds()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return
            await asyncio.sleep(PAUSE)


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
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, says()
        time.sleep(PAUSE)
