"""Consumers: one process with many listening ports, which says when all of a round have come.
``python -m benchmarks.sinks N http|soap.tcp`` prints the ports; then each line that it reads,
``NAME COUNT``, is answered with ``NAME MEAN LAST`` (seconds from the ``t0`` in the message). Over
HTTP each message is answered 202, over SOAP.TCP with nothing. ``times 0`` is answered with ``times
COUNT P50 P95 P99`` of all that has come since it was last asked."""

import asyncio
import re
import resource
import struct
import sys
import time
from array import array

import uvloop

from benchmarks.machine import percentile, pin

SHARES = (0.5, 0.95, 0.99)
_T0 = re.compile(rb"<t0[^>]*>([0-9.]+)</t0>")
_LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)
_DIME = struct.Struct(">BBHHHI")
_LAST = 2
_ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


class Tally:
    """Counts what has come in this round."""

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0
        self.last = 0.0
        self.wanted = 0
        self.times = array("d")
        self.done = asyncio.Event()

    def received(self, body: bytes) -> None:
        now = time.clock_gettime(time.CLOCK_MONOTONIC)
        found = _T0.search(body)
        if found:
            elapsed = now - float(found[1])
            self.sum += elapsed
            self.last = max(self.last, elapsed)
            self.times.append(elapsed)
        self.count += 1
        if self.count == self.wanted:
            self.done.set()


class Sink(asyncio.Protocol):
    """One connection of a consumer."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            length = _LENGTH.search(head) if found else None
            if length is None or len(rest) < int(length[1]):
                return
            body, self._buffer = rest[: int(length[1])], rest[int(length[1]) :]
            self._tally.received(body)
            self._transport.write(_ACCEPTED)  # type: ignore[attr-defined]  # it is a stream's


class DimeSink(asyncio.Protocol):
    """One connection of a consumer over SOAP.TCP: of a record it reads the lengths."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        begin = at = 0
        while at + 12 <= len(buffer):
            flags, _, *lengths = _DIME.unpack_from(buffer, at)
            at += 12 + sum(length + 3 & ~3 for length in lengths)
            if at > len(buffer):
                break
            if flags & _LAST:
                self._tally.received(buffer[begin:at])
                begin = at
        self._buffer = buffer[begin:]


async def main(number: int, scheme: str) -> None:
    """Listen on *number* ports and answer rounds until standard input ends."""
    sink = DimeSink if scheme == "soap.tcp" else Sink
    loop = asyncio.get_running_loop()
    tally = Tally()
    ports = []
    for _ in range(number):
        server = await loop.create_server(lambda: sink(tally), "127.0.0.1", 0, backlog=64)
        ports.append(server.sockets[0].getsockname()[1])
    print(*ports, flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        name, wanted = line.split()
        if name == b"times":
            times, tally.times = tally.times, array("d")
            shares = [percentile(times, share) if times else 0.0 for share in SHARES]
            print("times", len(times), *shares, flush=True)
            continue
        tally.count, tally.sum, tally.last, tally.wanted = 0, 0.0, 0.0, int(wanted)
        tally.done.clear()
        print(name.decode(), "ready", flush=True)
        await tally.done.wait()
        print(name.decode(), tally.sum / max(1, tally.count), tally.last, flush=True)


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    pin(1)
    uvloop.run(main(int(sys.argv[1]), sys.argv[2]))
