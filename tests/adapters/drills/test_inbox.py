"""The inbox of trials goes on after a deadline."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from adapters import Adapter
from adapters.drills.inbox import Inbox
from adapters.memory import MemoryAdapter
from tests.rigs.adapters import SECONDS, started, storm


async def test_what_comes_after_a_deadline_is_taken_by_the_next_wait() -> None:
    async with started(MemoryAdapter()) as adapter:
        inbox = Inbox(adapter, SECONDS)
        for number in range(2):
            with pytest.raises(TimeoutError):
                await _waiting_for(inbox, 0.0)
            await adapter.publish([storm(number)])
            [taken] = await _waiting_for(inbox, SECONDS)
            assert taken.notification.payload == f"<n>{number}</n>".encode()


async def _waiting_for(inbox: Inbox, seconds: float) -> list[Any]:
    inbox._deadline = seconds
    return await inbox.take(1)


async def test_it_says_how_deliveries_end() -> None:
    class Ending:
        async def deliveries(self) -> AsyncIterator[Any]:
            yield "one"
            raise RuntimeError("it went away")

    inbox = Inbox(cast(Adapter, Ending()), SECONDS)
    assert cast(Any, await inbox.next()) == "one"
    with pytest.raises(RuntimeError, match="it went away"):
        await inbox.next()
    with pytest.raises(StopAsyncIteration):
        await inbox.next()
