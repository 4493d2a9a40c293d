"""Stops the event loop of a test for a moment now and then, as a busy machine does: a test that
expects something within a few milliseconds fails each time, not in one run of a thousand.

    make test ARGS=--stalls
"""

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 0.02
"""Seconds that one may last: most of what waits in a gateway for more of its kind waits 1 to 20 ms."""
MANY, OFTEN, SELDOM = 50, 1 / 2, 1 / 500
"""The first *MANY* of a test come before a callback *often*, for most tests are short; those behind
them *seldom*, so that a long one ends."""


@contextmanager
def stalled(test: str) -> Iterator[None]:
    """Stop asyncio's loops before some of their callbacks, the same ones for each run of a *test*."""
    run, chance, stalls = asyncio.Handle._run, random.Random(test), 0

    def run_later(handle: asyncio.Handle) -> None:
        nonlocal stalls
        if chance.random() < (OFTEN if stalls < MANY else SELDOM):
            stalls += 1
            time.sleep(chance.uniform(0, LONGEST))  # Processor time would count against a callback.
        run(handle)
        # A traceback keeps this frame, from 3.12 on, and the frame would keep what the traceback is of.
        del handle

    asyncio.Handle._run = run_later  # type: ignore[method-assign, assignment]  # Nothing public sees them all.
    try:
        yield
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]  # As above.
