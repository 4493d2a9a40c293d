"""Messages of the tasks of an event loop."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gateway.client.reliable import Receiver, ReliableClient
from gateway.client.reliable.transactions import Pending
from gateway.reliability.batches import send_all_due
from gateway.reliability.party import Party
from gateway.reliability.source_worker import Work
from gateway.reliability.stores.managers import DatabaseOutgoing
from gateway.reliability.stores.memory import MemoryOutgoing, MemoryStore
from tests.gateway.client.reliable.test_queued import ORDER, SOON
from tests.rigs.receivers import served
from tests.rigs.waiting import wait_until

KEYS, EACH = 8, 20


def test_tasks_send_in_order_and_share_transactions() -> None:
    taken: list[bytes] = []
    receiver = Receiver("memory:", policy=SOON)
    receiver.service("/orders", lambda each: taken.append(each.body))
    store = MemoryStore()
    client = ReliableClient(store, policy=SOON)

    async def send(url: str, key: int) -> None:
        for number in range(EACH):
            body = f"<order>{key}-{number:02}</order>".encode()
            assert await client.send_async(f"{url}/orders", body, action=ORDER, key=str(key))

    async def send_all(url: str) -> None:
        async with asyncio.timeout(30):
            await asyncio.gather(*(send(url, key) for key in range(KEYS)))

    with served(receiver) as url:
        asyncio.run(send_all(url))
        assert store.commits < KEYS * EACH / 2
        asyncio.run(send_all(url))  # In another event loop.
        with client:
            assert client.drain(50)
        wait_until(lambda: len(taken) >= 2 * KEYS * EACH)  # Acknowledged is not yet taken.
    of_each = Counter(taken)
    assert len(of_each) == KEYS * EACH
    assert set(of_each.values()) == {2}
    for key in range(KEYS):
        of_key = [body for body in taken if body.startswith(f"<order>{key}-".encode())]
        assert of_key[:EACH] == sorted(of_key[:EACH])


@pytest.mark.parametrize("kind", ["memory:", "sqlite:///{folder}/client.db"])
def test_a_message_for_which_nothing_waits_is_sent_without_a_look(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By each way to store one: its own transaction, that of a task, the program's."""
    taken: list[bytes] = []
    receiver = Receiver("memory:")
    receiver.service("/orders", lambda each: taken.append(each.body))
    client = ReliableClient(kind.format(folder=tmp_path))
    looked: list[str] = []

    def noted(party: Party, limits: dict[str, int], now: float) -> dict[str, Work | Exception]:
        looked.extend(limits)
        return send_all_due(party, limits, now)

    monkeypatch.setattr("gateway.client.reliable.workers.send_all_due", noted)
    with served(receiver) as url, client:

        def send(number: int) -> None:
            body = f"<order>{number}</order>".encode()
            if number % 3 == 0:
                client.send(f"{url}/orders", body, action=ORDER)
            elif number % 3 == 1:
                asyncio.run(client.send_async(f"{url}/orders", body, action=ORDER))
            else:
                with client.transaction() as tx:
                    tx.send(f"{url}/orders", body, action=ORDER)
            assert client.drain(30)

        send(0)
        assert looked, "the sequence was made by its worker"
        looked.clear()
        for number in range(1, 7):
            send(number)
        wait_until(lambda: len(taken) >= 7)
        assert taken == [f"<order>{number}</order>".encode() for number in range(7)]
        assert not looked


async def test_what_cannot_be_sent() -> None:
    with ReliableClient("memory:") as client:
        async with asyncio.timeout(30):
            with pytest.raises(ValueError, match="action"):
                await client.send_async("http://127.0.0.1:9/", b"<a/>")
            assert await client.send_async("http://127.0.0.1:9/", b"<a/>", action="urn:a")
        assert client.waiting() == 1


@pytest.mark.parametrize("url", ["memory:", "sqlite:///{folder}/client.db"])
def test_the_sequence_after_another_one_is_locked_with_others(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = ReliableClient(url.format(folder=tmp_path))
    address = "http://127.0.0.1:9/"

    def pending(key: str) -> Pending:
        return client._messages.make(
            address, b"<a/>", action="urn:a", key=key, envelope=None, last=False
        )

    for key in "ab":
        client.send(address, b"<a/>", action="urn:a", key=key)
    assert client.terminate("a") == 1
    client.send(address, b"<a/>", action="urn:a", key="a")  # It begins another one.
    locked: list[list[str]] = []
    kind: Any = DatabaseOutgoing if url.startswith("sqlite") else MemoryOutgoing
    find_all = kind.find_all

    def noted(manager: Any, keys: list[str]) -> list[str]:
        locked.append(keys)
        return list(find_all(manager, keys))

    monkeypatch.setattr(kind, "find_all", noted)
    assert client._store_shared([pending("b"), pending("a")]) == [None, None]
    first, other = f"to {address} as a", f"to {address} as b"
    assert locked == [[first, f"{first} (02)", other]]
    assert client.waiting() == 5
    # One that has gone meanwhile is noticed: the messages are stored one by one.
    with client.store.transaction() as tx:
        tx.outgoing.remove(other)
    assert client._store_shared([pending("b"), pending("a")]) == [None, None]
    assert client.waiting() == 5
    client.close()
