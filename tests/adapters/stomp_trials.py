"""What the tests of the STOMP adapter share: an adapter that runs, and messages."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from adapters import Adapter, AdapterUnavailable, Interest, load
from filters import Expression, Step, Topic
from filters.dialects import TOPIC_FULL
from mediation import Notification

SECONDS = 30.0
STORM = Interest(Expression("storm//.", TOPIC_FULL))


def storm(number: int = 0, topic: str = "storm") -> Notification:
    return Notification(
        id=f"urn:uuid:{uuid.uuid4()}",
        source="http://publisher.example/",
        payload=f"<n>{number}</n>".encode(),
        time=datetime.now(UTC),
        topic=Topic((Step(None, topic),)),
    )


@asynccontextmanager
async def running(
    url: str, name: str, data: Path, *interests: Interest, **settings: str
) -> AsyncIterator[Adapter]:
    adapter = load(url, data=data, settings={"name": name, "root": name, **settings})
    await adapter.start(interests or [STORM])
    try:
        yield adapter
    finally:
        await adapter.close()


async def published(adapter: Adapter, notification: Notification) -> int:
    """Publish until it is confirmed; how often it was not."""
    refused = 0
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                await adapter.publish([notification])
            except AdapterUnavailable:
                refused += 1
                await asyncio.sleep(0.05)
            else:
                return refused
