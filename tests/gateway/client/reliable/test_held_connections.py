"""Connections of one sequence: a service that keeps the order holds those open whose messages come
too early, as Apache CXF does."""

import asyncio
from typing import Any

from gateway.client.reliable import Receiver, ReliableClient
from tests.gateway.client.reliable.test_queued import ORDER, SOON
from tests.rigs.receivers import served
from tests.rigs.waiting import wait_until

COUNT = 12


class Ordered:
    """A service that loses message 1 once, and takes no other before it comes again."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._first = asyncio.Event()
        self._lost = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._receiver(scope, receive, send)
            return
        message = await receive()
        body = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        if b"MessageNumber>1<" in body and not self._lost:
            self._lost = True
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        if b"MessageNumber>1<" in body:
            self._first.set()
        elif b"MessageNumber>" in body:
            await self._first.wait()

        async def again() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        await self._receiver(scope, again, send)


def test_a_lost_message_passes_those_that_wait_for_it() -> None:
    taken: list[bytes] = []
    receiver = Receiver("memory:", policy=SOON)
    receiver.service("/orders", lambda each: taken.append(each.body))
    client = ReliableClient("memory:", policy=SOON, timeout=300)
    bodies = [f"<order>{number}</order>".encode() for number in range(COUNT)]
    with served(Ordered(receiver)) as url:
        with client.transaction() as tx:
            for body in bodies:
                tx.send(f"{url}/orders", body, action=ORDER)
        with client:
            assert client.drain(60)
        wait_until(lambda: len(taken) >= COUNT)  # Acknowledged is not yet taken.
    assert taken == bodies
