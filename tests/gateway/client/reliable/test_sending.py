"""Messages of the tasks of an event loop."""

import asyncio
from collections import Counter

import pytest

from gateway.client.reliable import Receiver, ReliableClient
from gateway.reliability.stores.memory import MemoryStore
from tests.gateway.client.reliable.test_queued import ORDER, SOON
from tests.rigs.receivers import served

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
    of_each = Counter(taken)
    assert len(of_each) == KEYS * EACH
    assert set(of_each.values()) == {2}
    for key in range(KEYS):
        of_key = [body for body in taken if body.startswith(f"<order>{key}-".encode())]
        assert of_key[:EACH] == sorted(of_key[:EACH])


async def test_what_cannot_be_sent() -> None:
    with ReliableClient("memory:") as client:
        async with asyncio.timeout(30):
            with pytest.raises(ValueError, match="action"):
                await client.send_async("http://127.0.0.1:9/", b"<a/>")
            assert await client.send_async("http://127.0.0.1:9/", b"<a/>", action="urn:a")
        assert client.waiting() == 1
