"""An adapter of STOMP that runs."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from adapters import Adapter, Interest, load
from tests.rigs.adapters import started


def running(
    url: str, name: str, data: Path, *interests: Interest, **settings: str
) -> AbstractAsyncContextManager[Adapter]:
    """One with queues and a root of *name*, as `started`."""
    adapter = load(url, data=data, settings={"name": name, "root": name, **settings})
    return started(adapter, *interests)
