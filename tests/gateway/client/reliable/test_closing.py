"""What is sent while the client closes: it is committed, and nobody is told that it is not."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.client.reliable import ReliableClient
from gateway.client.reliable.workers import Workers
from tests.gateway.client.reliable.test_queued import ORDER
from tests.rigs.waiting import DEADLINE

NOWHERE = "http://127.0.0.1:9/orders"


@pytest.fixture
def closing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ReliableClient]:
    """A client whose workers' loop is closed, while its threads are at their last work."""
    closed, go_on, end = threading.Event(), threading.Event(), Workers._end_threads

    def end_late(workers: Workers) -> None:
        closed.set()
        go_on.wait(DEADLINE)
        end(workers)

    client = ReliableClient(f"sqlite:///{tmp_path}/client.db")
    client.start()
    monkeypatch.setattr(Workers, "_end_threads", end_late)
    stopping = threading.Thread(target=client._workers.stop)
    stopping.start()
    assert closed.wait(DEADLINE)
    yield client
    go_on.set()
    stopping.join(DEADLINE)
    monkeypatch.undo()
    client.start()  # The next start is not told that somebody waits to be woken.
    assert not client._workers._waking
    client.close()


def send(client: ReliableClient) -> None:
    client.send(NOWHERE, b"<o/>", action=ORDER)


def send_in_transaction(client: ReliableClient) -> None:
    with client.transaction() as tx:
        tx.send(NOWHERE, b"<o/>", action=ORDER)


def send_in_loop(client: ReliableClient) -> None:
    async def sent() -> None:
        await client.send_async(NOWHERE, b"<o/>", action=ORDER)

    asyncio.run(sent())


def send_and_terminate(client: ReliableClient) -> None:
    client.send(NOWHERE, b"<o/>", action=ORDER)
    assert client.terminate() == 1


@pytest.mark.parametrize("way", [send, send_in_transaction, send_in_loop, send_and_terminate])
def test_it_is_stored(closing: ReliableClient, way: Callable[[ReliableClient], None]) -> None:
    way(closing)
    assert closing.waiting() == 1
