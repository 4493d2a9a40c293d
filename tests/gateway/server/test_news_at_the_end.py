"""A gateway that is told to stop at the moment at which something changes."""

import asyncio
from itertools import chain
from pathlib import Path

import pytest

from tests.rigs.gateways import running
from tests.rigs.waiting import DEADLINE


@pytest.mark.parametrize("turns", range(5))
async def test_workers_that_have_news_end_too(tmp_path: Path, turns: int) -> None:
    """Whether they have heard of it or are about to, *turns* of the event loop later."""
    async with running(tmp_path) as run:
        application = run.gateway.application
        workers = [*application._workers, *chain(*application._until_closed.values())]
        assert len(workers) > 10
        application._stopping = True  # Else what is cancelled has failed.
        run.gateway.sources.changed.set()
        run.gateway.demand._changed.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        for worker in workers:
            worker.cancel()
        done, pending = await asyncio.wait(workers, timeout=DEADLINE)
        assert not pending, pending
        assert all(worker.cancelled() for worker in done)
