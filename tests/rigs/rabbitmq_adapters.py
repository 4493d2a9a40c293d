"""An adapter of RabbitMQ that runs."""

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
