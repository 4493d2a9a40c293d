"""An adapter of STOMP that runs."""

import uuid
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


def settings_of_a_test() -> dict[str, str]:
    """A name and a root of its own: they keep a test from what others left, and fill no queues of
    theirs."""
    name = f"contract-{uuid.uuid4().hex[:8]}"
    return {"name": name, "root": name}
