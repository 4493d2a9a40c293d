"""Removing from the broker all that an adapter has made there, as far as STOMP can."""

import asyncio

from adapters.stomp.address import Setup
from adapters.stomp.connection import Connection
from adapters.stomp.frames import Frame
from adapters.stomp.subscribing import DURABLE
from adapters.stomp.systems import RabbitMQ

AHEAD = 1000
"""Messages that the broker sends ahead of acknowledgements."""
EMPTY = 1.0
"""Seconds without a message after which a queue counts as empty."""


async def remove(connection: Connection, setup: Setup) -> list[str]:
    """Delete the durable subscriptions of all partitions, and empty the queues, which STOMP cannot
    delete. Returns the names of these.

    Raises:
        Lost: The broker refused, or is gone.
    """
    left = []
    for number, pattern in enumerate(setup.partitions):
        headers = setup.system.consuming(pattern, AHEAD)
        id = f"removed-{number}"
        await _empty(connection, {**headers, "id": id})
        await connection.ask("UNSUBSCRIBE", {"id": id, **_durable(setup, headers)})
        if headers["destination"].startswith("/queue/"):
            left.append(headers["destination"].removeprefix("/queue/"))
    return left


def _durable(setup: Setup, headers: dict[str, str]) -> dict[str, str]:
    """Return the headers of an UNSUBSCRIBE that deletes the durable subscription of a SUBSCRIBE
    with *headers*; none for a queue."""
    names = ("durable", "auto-delete", "x-queue-name")
    kept = names if isinstance(setup.system, RabbitMQ) else DURABLE
    return {name: value for name, value in headers.items() if name in kept}


async def _empty(connection: Connection, headers: dict[str, str]) -> None:
    """Consume, and let go of, what the queue of a SUBSCRIBE with *headers* holds."""
    came = asyncio.Event()

    def acknowledge(frame: Frame, _fault: str) -> None:
        came.set()
        if "ack" in frame.headers:
            connection.send("ACK", {"id": frame.headers["ack"]})

    connection.on_message = acknowledge
    await connection.ask("SUBSCRIBE", {**headers, "ack": "client-individual"})
    while True:
        came.clear()
        try:
            async with asyncio.timeout(EMPTY):
                await came.wait()
        except TimeoutError:
            return
