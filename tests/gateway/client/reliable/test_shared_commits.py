"""What threads, or coroutines, do at the same time is done together."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gateway.client.reliable import ReliableClient, StorageUnavailable
from gateway.client.reliable.shared_commits import Gathering, Sharing
from gateway.client.reliable.transaction_threads import Pool
from gateway.reliability.source import SourceFull
from mediation.reliable_messaging.policy import Policy


def test_who_comes_while_another_commits_goes_with_the_next() -> None:
    begun, release = threading.Event(), threading.Event()
    batches: list[list[int]] = []

    def work(items: Sequence[int]) -> list[Exception | None]:
        batches.append(list(items))
        begun.set()
        assert release.wait(50)
        return [ValueError(str(item)) if item == 3 else None for item in items]

    sharing = Sharing(work, 4)
    with ThreadPoolExecutor(10) as threads:
        first = threads.submit(sharing.run, 0)
        assert begun.wait(50)
        others = [threads.submit(sharing.run, number) for number in range(1, 10)]
        while len(sharing._waiting) < len(others):
            pass
        release.set()
        assert first.exception(50) is None
        errors = [str(each.exception(50)) for each in others]
    assert errors == ["None", "None", "3", *["None"] * 6]
    assert [len(batch) for batch in batches] == [1, 4, 4, 1]


def test_messages_of_threads_share_transactions(tmp_path: Path) -> None:
    client = ReliableClient(f"sqlite:///{tmp_path / 'client.db'}", policy=Policy(stored=3))
    store: Any = client.store
    turn = store._turns.wait()  # The first commit has to wait for it, and the others for that.

    def send(key: str) -> str:
        return client.send("http://127.0.0.1:9/", b"<a/>", action="urn:a", key=key)

    with ThreadPoolExecutor(8) as threads:
        sent = [threads.submit(send, "one" if number < 5 else f"{number}") for number in range(8)]
        while len(client._sharing._waiting) < 7:
            pass
        turn()
        full = [each.exception(50) for each in sent]
    assert [type(each) for each in full if each is not None] == [SourceFull, SourceFull]
    assert client.waiting() == 6
    assert len({each.result() for each in sent if each.exception() is None}) == 6
    client.close()


def test_a_message_that_nobody_takes_is_refused_at_once(tmp_path: Path) -> None:
    client = ReliableClient("memory:")
    with pytest.raises(ValueError, match="action"):
        client.send("http://127.0.0.1:9/", b"<a/>")
    assert client.waiting() == 0
    client.close()


async def test_what_comes_meanwhile_is_worked_on_together() -> None:
    pool = Pool(2, "test")
    begun, release = threading.Event(), threading.Event()
    batches: list[list[int]] = []

    def work(items: Sequence[int]) -> list[int | Exception]:
        batches.append(list(items))
        begun.set()
        assert release.wait(50)
        return [ValueError(str(item)) if item % 7 == 3 else 2 * item for item in items]

    gathering: Gathering[int, int] = Gathering(pool, work, 8)
    async with asyncio.timeout(50):
        first = asyncio.ensure_future(gathering.run(0))
        await asyncio.to_thread(begun.wait, 50)
        others = [asyncio.ensure_future(gathering.run(number)) for number in range(1, 20)]
        given_up = asyncio.ensure_future(gathering.run(99))
        await asyncio.sleep(0)
        given_up.cancel()
        release.set()
        assert await first == 0
        found = await asyncio.gather(*others, return_exceptions=True)
    assert [str(each) for each in found] == [
        str(number) if number % 7 == 3 else str(2 * number) for number in range(1, 20)
    ]
    assert [len(batch) for batch in batches] == [1, 8, 8, 3]
    assert all(99 not in batch for batch in batches)
    await asyncio.to_thread(pool.close, 50)
    with pytest.raises(StorageUnavailable):
        await gathering.run(1)
