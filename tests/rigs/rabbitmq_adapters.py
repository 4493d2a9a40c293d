"""An adapter of RabbitMQ that runs."""

import uuid
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from adapters import Adapter, Interest, load
from tests.rigs.adapters import started


def running(
    url: str, name: str, *interests: Interest, **settings: str
) -> AbstractAsyncContextManager[Adapter]:
    """One with queues and an exchange of *name*, as `started`."""
    adapter = load(url, data=Path("nowhere"), settings={"name": name, "exchange": name, **settings})
    return started(adapter, *interests)


def environment_of(url: str, name: str | None = None, *settings: str) -> dict[str, str]:
    """What makes a gateway stand in front of *url*, with queues of its own."""
    name = name or f"test-{uuid.uuid4().hex[:12]}"
    query = "&".join([f"name={name}", f"exchange={name}", *settings])
    return {"DRAGOMAN_ADAPTER": f"{url}?{query}"}
