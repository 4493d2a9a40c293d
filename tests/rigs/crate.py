"""Crate, the system of the skeleton in the guide: one queue, lines of JSON over TCP.

It keeps what it confirmed as long as the object lives, with or without a connection. What was sent
and not done comes again, first and in order, when the connection has ended. A message that says
`REFUSED` it never takes, and tells; over one that says `FATAL` it ends the connection, without a
word.
"""

import asyncio
import json
from collections import deque
from contextlib import suppress
from typing import Any

from tests.rigs.ports import free_ports

LIMIT = 64 * 2**20
REFUSED, FATAL = "refused", "fatal"
"""Words in the bodies of messages that are not taken."""


class Crate:
    """The server; `open` and `cut` may be called again and again."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self._queue: deque[dict[str, Any]] = deque()
        self._number = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Event()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=LIMIT)

    async def cut(self) -> None:
        """End all connections, and refuse new ones."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        sent: dict[int, dict[str, Any]] = {}
        sending: asyncio.Task[None] | None = None
        try:
            async for line in reader:
                frame = json.loads(line)
                if "take" in frame:
                    sending = asyncio.create_task(self._send(writer, sent, frame["take"]))
                elif "put" in frame:
                    message = frame["put"]
                    if FATAL in message["body"]:
                        return
                    answer: dict[str, Any] = {"answer": frame["number"]}
                    if REFUSED in message["body"]:
                        answer["refused"] = "it says refused"
                    else:
                        self._number += 1
                        self._queue.append(
                            {"key": self._number, "again": False, "message": message}
                        )
                    writer.write(json.dumps(answer).encode() + b"\n")
                else:
                    sent.pop(frame["done"], None)
                self._changed.set()
        except (OSError, ValueError):
            pass
        finally:
            if sending is not None:
                sending.cancel()
                with suppress(asyncio.CancelledError):
                    await sending
            again = [{**one, "again": True} for one in sent.values()]
            self._queue.extendleft(reversed(again))
            self._writers.discard(writer)
            writer.transport.abort()
            self._changed.set()

    async def _send(
        self, writer: asyncio.StreamWriter, sent: dict[int, dict[str, Any]], most: int
    ) -> None:
        while True:
            while self._queue and len(sent) < most:
                message = self._queue.popleft()
                sent[message["key"]] = message
                writer.write(json.dumps(message).encode() + b"\n")
            self._changed.clear()
            await self._changed.wait()
