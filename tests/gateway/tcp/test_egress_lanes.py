"""Several deliveries of one subscription in flight on a connection: in their order, whatever
becomes of the connection."""

import asyncio
import contextlib
import random
import re
import socket
import struct
from pathlib import Path

import pytest

from gateway.client import Client
from gateway.delivery.outbox import LANE_WIDTH
from gateway.delivery.verdicts import Verdict
from mediation.model.versions import Soap, Version
from mediation.packaging.dime import Decoder, Encoder, encode_plain
from mediation.packaging.dime import DimeMessage as Message
from tests.rigs.gateways import running
from tests.rigs.waiting import until

EVENTS = 400
ENDS = 12
_NUMBER = re.compile(rb"<n>([0-9]+)</n>")


class BreakingConsumer:
    """A consumer that ends connections at random: in order, reading on until the other side has
    ended, too; or with a reset."""

    def __init__(self, ends: int, *, in_order: bool) -> None:
        self._chance = random.Random(7)
        self._in_order = in_order
        self.ends = ends
        self.numbers: list[int] = []
        self.connections = 0
        self.in_a_read = 0
        """The most messages that came at once."""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        decoder = Decoder()
        left = self._chance.randrange(1, 40)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                messages = list(decoder.feed(data))
                self.in_a_read = max(self.in_a_read, len(messages))
                found = [_NUMBER.search(message.envelope) for message in messages]
                self.numbers += [int(one[1]) for one in found if one is not None]
                left -= len(messages)
                if left <= 0 and self.ends > 0:
                    self.ends -= 1
                    left = EVENTS
                    if not self._in_order:
                        sock = writer.get_extra_info("socket")
                        linger = struct.pack("ii", 1, 0)
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                        break
                    writer.write_eof()
        writer.close()


@pytest.mark.parametrize(("ends", "in_order"), [(0, True), (ENDS, True), (ENDS, False)])
async def test_order_survives_connections(tmp_path: Path, ends: int, in_order: bool) -> None:
    """What a consumer's system had taken when its program broke off is lost: nobody knows. That is
    at most what may be in flight."""
    consumer = BreakingConsumer(ends, in_order=in_order)
    server = await asyncio.start_server(consumer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with (
        running(tmp_path, retry_delays=(0.05,) * 40) as run,
        Client(run.url, Version.WSE_2004_08) as client,
    ):
        await client.subscribe(f"soap.tcp://127.0.0.1:{port}/", topic="storms")
        for number in range(0, EVENTS, 8):
            await asyncio.gather(*(_publish(client, number + n) for n in range(8)))
        attempts = run.gateway.dispatchers.scheduler.verdicts
        await until(lambda: attempts[Verdict.DELIVERED] == EVENTS, 60)
        await until(lambda: consumer.numbers[-1] // 8 == EVENTS // 8 - 1)
    server.close()
    first = list(dict.fromkeys(consumer.numbers))
    # Those of one group are published at the same time, in whatever order; that order is kept.
    assert [number // 8 for number in first] == sorted(number // 8 for number in first)
    lost = EVENTS - len(first)
    broken = 0 if in_order else ends - consumer.ends
    assert lost <= LANE_WIDTH * broken
    repeated = len(consumer.numbers) - len(first)
    assert repeated <= LANE_WIDTH * consumer.connections
    if in_order:
        assert consumer.connections == ends + 1
        assert consumer.ends == 0
    if not ends:
        assert consumer.in_a_read > 1
        assert not repeated


async def _publish(client: Client, number: int) -> None:
    await client.publish(b"<e><n>%d</n></e>" % number, topic="storms")


def test_the_plain_form_is_the_encoders() -> None:
    for soap in Soap:
        for size in range(9):
            envelope = b"<" + b"x" * size
            assert encode_plain(soap, envelope) == Encoder().encode(Message(soap, envelope))
