"""Somebody who is told of all that is settled, whoever subscribes to what."""

import asyncio
import uuid
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from adapters import EVERYTHING_WANTED, Delivery, XPathFilterAdapter
from adapters.memory import MemoryAdapter
from filters import EVERYTHING, Expression, Filter, Step, Topic
from filters.dialects import TOPIC_SIMPLE
from mediation.model.messages import Notification

SOME = Filter((Expression("w:some", TOPIC_SIMPLE, (("w", "urn:w"),)),))


def notification(name: str) -> Notification:
    topic = Topic((Step("urn:w", name),))
    return Notification(str(uuid.uuid4()), "urn:me", b"<a/>", datetime.now(UTC), topic=topic)


@pytest.mark.parametrize("filters", [{}, {"one": SOME}, {"one": SOME, "all": EVERYTHING}])
async def test_each_is_told_once_when_it_is_settled(filters: dict[str, Filter]) -> None:
    told: list[Notification] = []
    adapter = XPathFilterAdapter(MemoryAdapter(), settled=told.append)
    await adapter.start(filters)
    sent = [notification("some"), notification("other")]
    taken: list[Delivery] = []

    async def take() -> None:
        async for matched in adapter.deliveries():
            taken.append(matched.delivery)

    taking = asyncio.create_task(take())
    await adapter.publish(sent)
    matching = 2 if "all" in filters else len(filters)
    for _ in range(100):  # Turns of the event loop; nothing here waits for anything else.
        await asyncio.sleep(0)
    assert [one.notification for one in taken] == sent[:matching]
    assert told == sent[matching:]
    for delivery in reversed(taken):
        delivery.settle()
        delivery.settle()
    assert told == sent[matching:] + sent[:matching][::-1]
    taking.cancel()
    with suppress(asyncio.CancelledError):
        await taking
    await adapter.close()


async def test_everything_stays_wanted() -> None:
    adapter = XPathFilterAdapter(MemoryAdapter(), settled=lambda _: None)
    await adapter.start({})
    assert adapter.interests == (EVERYTHING_WANTED,)
    await adapter.add("all", EVERYTHING)
    await adapter.remove("all")
    assert adapter.interests == (EVERYTHING_WANTED,)
    await adapter.close()
