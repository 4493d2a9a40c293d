"""Answers whose meaning is clear, although they are not written as they should be, and those that
are refused, in words."""

import asyncio
import gc
import itertools
import tracemalloc

import pytest

from gateway.egress import Answer, FailureKind
from gateway.egress.client_limits import ClientLimits
from gateway.egress.odd_answers import MalformedAnswer, OddAnswer
from tests.rigs.cases import for_each
from tests.rigs.odd_answers import ODD_ANSWERS
from tests.rigs.pace import growth
from tests.rigs.scripted_peers import (
    Handler,
    consuming,
    failure_of,
    message,
    read_request,
    saying,
    sending,
)

OK = b"HTTP/1.1 200 OK\r\n"
BODY = b"<a/>"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"

REFUSED = {
    "SSH": (b"SSH-2.0-OpenSSH_9.6\r\n", "answered with a malformed head: it begins with 'SSH-2.0-OpenSSH_9.6', not with HTTP/"),
    "status 99": (b"HTTP/1.1 99 X\r\n\r\n", "answered with the status 99"),
    "status 999": (b"HTTP/1.1 999 X\r\n\r\n", "answered with the status 999"),
    "a switch of protocols": (
        b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "answered with the status 101",
    ),
    "two lengths": (
        OK + b"Content-Length: 2\r\nContent-Length: 1\r\n\r\nab",
        "answered 200 with a malformed head: two lengths, 1 and 2",
    ),
    "two lengths in one field": (
        OK + b"Content-Length: 2, 1\r\n\r\nab",
        "answered 200 with a malformed head: two lengths, 1 and 2",
    ),
    "a word for a length": (
        OK + b"Content-Length: none\r\n\r\nab",
        "answered 200 with a malformed head: 'none' is not a length",
    ),
    "a length below zero": (
        OK + b"Content-Length: -1\r\n\r\n",
        "answered 200 with a malformed head: '-1' is not a length",
    ),
    "a length past counting": (
        OK + b"Content-Length: 99999999999999999999\r\n\r\n",
        "answered 200 with a malformed head: '99999999999999999999' is not a length",
    ),
    "no chunk": (
        OK + CHUNKED + BODY + b"\r\n",
        "answered 200 with a malformed body: '<a/>' is not the size of a chunk",
    ),
    "a chunk too long": (
        OK + CHUNKED + b"2\r\n<a/>\r\n0\r\n\r\n",
        "answered 200 with a malformed body: a chunk is longer than its size",
    ),
    "fields without end": (
        OK + b"A: b\r\n" * 257,
        "answered 200 with a malformed head: more than 256 fields",
    ),
    "a long head": (
        OK + b"A: " + b"b" * 98304,
        "answered 200 with a head of more than 98304 bytes",
    ),
    "a long status line": (
        b"HTTP/1.1 200 " + b"x" * 98304,
        "answered with a head of more than 98304 bytes",
    ),
    "a long body": (
        OK + b"Content-Length: 65537\r\n\r\n" + b"x" * 65537,
        "answered 200 with a body of more than 65536 bytes",
    ),
    "a long body, announced": (
        OK + b"Content-Length: 65537\r\n\r\n",
        "answered 200 with a body of more than 65536 bytes",
    ),
    "a long body after an early hint": (
        b"HTTP/1.1 103 Early\r\nContent-Length: 9\r\n\r\n" + OK + b"Content-Length: 65537\r\n\r\n",
        "answered 200 with a body of more than 65536 bytes",
    ),
    "a long body, announced oddly": (
        OK + b"Content-Length : 65537\r\n\r\n",
        "answered 200 with a body of more than 65536 bytes",
    ),
    "a long body to the end": (
        OK + b"\r\n" + b"x" * 65537,
        "answered 200 with a body of more than 65536 bytes",
    ),
    "interim answers": (
        b"HTTP/1.1 103 Early\r\n\r\n" * 9,
        "sent more than 8 interim answers",
    ),
}  # fmt: skip


def in_steps(wire: bytes, step: int) -> Handler:
    """Answers with *wire*, in pieces, and keeps the connection open as far as its length allows."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            for start in range(0, len(wire), step):
                writer.write(wire[start : start + step])
                await writer.drain()
                await asyncio.sleep(0)
            if b"length" not in wire.lower() and b"chunked" not in wire.lower():
                writer.write_eof()

    return handler


@for_each("name", ODD_ANSWERS)
@for_each("step", [1 << 20, 1], ids=["whole", "by bytes"])
async def test_what_is_meant_counts(name: str, step: int) -> None:
    wire = ODD_ANSWERS[name](BODY)
    handler = in_steps(wire, step if len(wire) < 1000 else 1 << 12)
    async with consuming(handler) as consumer, sending() as transport:
        for _ in range(2):
            answer = await transport.send(message(consumer.url()))
            assert (answer.status, answer.body, answer.content_type) == (200, BODY, "text/xml")
        assert consumer.connections == 2, "such a connection is not used again"


async def test_an_answer_without_a_length_on_a_connection_that_stays() -> None:
    """Its status is an answer, and the body is what has come; the connection is not used again."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n\r\n" + BODY)
        await reader.read()

    async with consuming(handler) as consumer, sending() as transport:
        for _ in range(2):
            answer = await transport.send(message(consumer.url()))
            assert (answer.status, answer.body) == (200, BODY)
        assert consumer.connections == 2


@for_each("name", REFUSED)
async def test_what_is_refused_is_told_in_words(name: str) -> None:
    wire, text = REFUSED[name]
    async with consuming(saying(wire)) as consumer, sending() as transport:
        failure = await failure_of(transport, message(consumer.url()))
    assert (failure.kind, failure.detail) == (FailureKind.ANSWER, text)
    assert (failure.status == 200) == text.startswith("answered 200")


@for_each("name", ODD_ANSWERS)
def test_bytes_are_read_alike_however_they_come(name: str) -> None:
    wire = ODD_ANSWERS[name](BODY)
    outcomes = []
    for step in (1, 7, len(wire)):
        odd = OddAnswer(ClientLimits())
        for start in range(0, len(wire), step):
            odd.feed(wire[start : start + step])
        odd.end()
        outcomes.append((odd.whole, Answer(odd.status, odd.body, odd.headers)))
    assert outcomes == [(True, Answer(200, BODY, {"content-type": "text/xml"}))] * 3


@pytest.mark.parametrize(
    "wire",
    [
        OK + b"Content-Length : 5\r\n\r\nab",
        OK + b"Content-Length: 5\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        OK + b"A: b\n c\n",
        b"\r\n",
    ],
)
async def test_half_an_answer_is_none(wire: bytes) -> None:
    async with consuming(saying(wire)) as consumer, sending() as transport:
        assert (await failure_of(transport, message(consumer.url()))).kind is FailureKind.RESET


async def test_chunks_whose_end_is_missing_are_an_answer() -> None:
    wire = OK + b"Content-Type: text/xml\r\n" + CHUNKED + b"4\r\n<a/>\r\n0\r\n"
    async with consuming(saying(wire)) as consumer, sending() as transport:
        assert (await transport.send(message(consumer.url()))).body == BODY


def test_every_byte_is_looked_at_once() -> None:
    """A line that comes byte by byte costs as much for each byte, however long it is."""

    def read(length: int) -> None:
        odd = OddAnswer(ClientLimits(head=1 << 20))
        for byte in itertools.chain(OK, b"A: ", itertools.repeat(0x62, length)):
            odd.feed(bytes((byte,)))

    assert growth(read, 10_000) < 4


def test_nothing_of_an_interim_answer_is_kept() -> None:
    odd = OddAnswer(ClientLimits())
    odd.feed(b"HTTP/1.1 103 Early\nContent-Type: no\nContent-Length: 7\n\n")
    odd.feed(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n")
    assert (odd.whole, odd.status, odd.headers) == (True, 200, {})


def test_controls_of_a_field_are_not_kept() -> None:
    odd = OddAnswer(ClientLimits())
    odd.feed(OK + b"Content-Type: text/\0xml\x1b\r\nContent-Length: 0\r\n\r\n")
    assert odd.headers == {"content-type": "text/ xml"}


def test_a_refusal_repeats_no_control() -> None:
    with pytest.raises(MalformedAnswer, match=r"'\\x1b\[31m"):
        OddAnswer(ClientLimits()).feed(b"\x1b[31mred\n")


async def test_answers_that_were_refused_are_not_kept() -> None:
    """A connection that has ended lives on until Python looks for circles; what it read does not."""
    wire = OK + b"\r\n" + b"x" * 65537
    gc.disable()
    tracemalloc.start()
    try:
        async with consuming(saying(wire)) as consumer, sending() as transport:
            await failure_of(transport, message(consumer.url()))
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(30):
                await failure_of(transport, message(consumer.url()))
            after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert after - before < 10 * len(wire)
