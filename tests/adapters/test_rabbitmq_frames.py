"""The frames of AMQP that go past pika, against pika."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pika
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pika import frame, spec
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.exceptions import AMQPError

from adapters.rabbitmq.frames import (
    Properties,
    read_content,
    read_properties,
    write_acknowledgement,
    write_content,
    write_properties,
    write_publish,
    write_table,
)
from adapters.rabbitmq.stream import Answered, Stream
from adapters.rabbitmq.tags import Tags

LARGEST = 100
"""Octets of a body that one frame carries, where what is written is compared."""
WIDE = 4096
"""And where it is read."""

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = TEXTS.map(lambda text: text[:60])
HEADERS = st.dictionaries(NAMES, TEXTS, max_size=8)
CHANNELS = st.integers(1, 2047)
TAGS = st.integers(0, 2**63)


def of_pika(channel: int, method: Any, properties: Any, body: bytes, largest: int) -> bytes:
    """A message as pika writes it (`Connection._send_message`)."""
    parts = [body[start : start + largest] for start in range(0, len(body), largest)]
    frames = [
        frame.Method(channel, method),
        frame.Header(channel, len(body), properties),
        *(frame.Body(channel, part) for part in parts),
    ]
    return b"".join(each.marshal() for each in frames)


# ------------------------------------------------------------------------------------------ written


@given(
    CHANNELS,
    NAMES,
    NAMES,
    st.booleans(),
    TEXTS,
    HEADERS,
    st.none() | TEXTS,
    st.integers(0, 2**40),
    st.binary(max_size=3 * LARGEST),
)
@example(1, "e", "k", True, "application/xml", {}, "i", 0, b"x" * LARGEST)
@example(1, "e", "k", True, "application/xml", {}, "i", 0, b"x" * (LARGEST + 1))
def test_a_message_is_written_as_pika_writes_it(
    channel: int,
    exchange: str,
    key: str,
    mandatory: bool,
    content_type: str,
    headers: dict[str, str],
    id: str | None,
    stamp: int,
    body: bytes,
) -> None:
    properties = write_properties(content_type, write_table(headers), id, stamp)
    written = b"".join(
        (
            write_publish(channel, exchange, key, mandatory=mandatory),
            *write_content(channel, properties, body, LARGEST),
        )
    )
    assert written == of_pika(
        channel,
        spec.Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory),
        pika.BasicProperties(
            content_type=content_type,
            headers=headers,
            message_id=id,
            timestamp=stamp,
            delivery_mode=2,
        ),
        body,
        LARGEST,
    )


@given(CHANNELS, TAGS, st.booleans())
def test_an_acknowledgement_is_written_as_pika_writes_it(
    channel: int, tag: int, multiple: bool
) -> None:
    written = write_acknowledgement(channel, tag, multiple=multiple)
    assert written == frame.Method(channel, spec.Basic.Ack(tag, multiple)).marshal()


# --------------------------------------------------------------------------------------------- read

VALUES = st.recursive(
    TEXTS
    | st.binary(max_size=9)
    | st.booleans()
    | st.none()
    | st.integers(-(2**62), 2**62)
    | st.integers(0, 2**31).map(lambda stamp: datetime.fromtimestamp(stamp, UTC)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
PROPERTIES = st.builds(
    pika.BasicProperties,
    content_type=st.none() | TEXTS,
    headers=st.none() | HEADERS | st.dictionaries(NAMES, VALUES, max_size=3),
    delivery_mode=st.none() | st.sampled_from([1, 2]),
    priority=st.none() | st.integers(0, 9),
    correlation_id=st.none() | st.none() | TEXTS,
    message_id=st.none() | TEXTS,
    timestamp=st.none() | st.integers(0, 2**40),
    app_id=st.none() | st.none() | TEXTS,
)


def texts(properties: Properties) -> tuple[Any, ...]:
    found = properties
    return found.content_type, dict(found.headers), found.message_id, found.timestamp


@given(PROPERTIES, st.binary(max_size=5))
def test_properties_are_read_as_pika_reads_them(
    properties: pika.BasicProperties, behind: bytes
) -> None:
    written = b"".join(properties.encode())
    found = read_properties(b"??" + written + behind, 2, 2 + len(written))
    expected = Properties.of(pika.BasicProperties().decode(written))
    plain = all(isinstance(value, str) for value in (properties.headers or {}).values())
    rare = properties.correlation_id is not None or properties.app_id is not None
    assert (found is not None) == (plain and not rare)
    assert found is None or texts(found) == texts(expected)


@given(PROPERTIES, st.data())
def test_broken_properties_are_never_read_as_others(
    properties: pika.BasicProperties, data: st.DataObject
) -> None:
    written = bytearray(b"".join(properties.encode()))
    written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    octets = bytes(written[: data.draw(st.integers(0, len(written)))])
    found = read_properties(octets, 0, len(octets))
    if found is not None:
        assert texts(found) == texts(Properties.of(pika.BasicProperties().decode(octets)))


def test_a_body_of_several_frames_is_left_to_pika() -> None:
    body = b"x" * (LARGEST + 1)
    content = b"".join(write_content(7, b"\0\0", body, LARGEST))
    assert read_content(content, 0, 7, LARGEST) is None


# --------------------------------------------------------------------- a stream of octets, both ways


class Heard:
    """What came through a connection, however it came: the frames, in their order."""

    def __init__(self) -> None:
        self.frames: list[tuple[Any, ...]] = []
        self.short = 0

    def frame(self, value: Any) -> None:
        """One that pika has read."""
        if isinstance(value, frame.Method):
            method = value.method
            fields = {name: each for name, each in vars(method).items() if name != "consumer_tag"}
            self.frames.append((value.channel_number, method.NAME, fields))
        elif isinstance(value, frame.Header):
            properties = texts(Properties.of(value.properties))
            self.frames.append((value.channel_number, value.body_size, properties))
        else:
            self.frames.append((value.channel_number, getattr(value, "fragment", None)))


class Pika(AsyncioConnection):  # type: ignore[misc]  # pika has no types
    """pika alone."""

    heard: Heard

    def _process_frame(self, value: Any) -> None:
        self.heard.frame(value)


class Watched(Stream):
    heard: Heard

    def _process_frame(self, value: Any) -> None:
        self.heard.frame(value)


class Way:
    """A channel, as `ShortWay`, with one consumer."""

    is_open = True

    def __init__(self, number: int, heard: Heard) -> None:
        self.number = number
        self._heard = heard
        self.answered: Answered | None = self._answer

    def has_consumer(self, consumer: bytes) -> bool:
        return consumer == b"ours"

    def deliver(
        self,
        consumer: bytes,
        tag: int,
        redelivered: bool,
        exchange: str,
        key: str,
        properties: Properties,
        body: bytes,
    ) -> None:
        fields = {
            "delivery_tag": tag,
            "redelivered": redelivered,
            "exchange": exchange,
            "routing_key": key,
        }
        self._heard.short += 1
        self._heard.frames.append((self.number, "Basic.Deliver", fields))
        self._heard.frames.append((self.number, len(body), texts(properties)))
        if body:
            self._heard.frames.append((self.number, body))

    def _answer(self, tag: int, multiple: bool, refused: bool) -> None:
        self._heard.short += 1
        fields: dict[str, Any] = {"delivery_tag": tag, "multiple": multiple}
        if refused:
            fields["requeue"] = False
        name = "Basic.Nack" if refused else "Basic.Ack"
        self._heard.frames.append((self.number, name, fields))

    def flush(self) -> None:
        raise NotImplementedError


def listen(parts: Sequence[bytes], *, short: bool) -> tuple[Heard, Exception | None]:
    """What a connection hears in *parts*, and how it failed."""
    heard = Heard()
    kind = Watched if short else Pika
    connection = kind(pika.ConnectionParameters(), internal_connection_workflow=False)
    connection.heard = heard
    connection._body_max_length = WIDE
    if isinstance(connection, Watched):
        connection.short_ways = {1: Way(1, heard), 2: Way(2, heard)}
    try:
        for part in parts:
            connection._on_data_available(part)
    except Exception as exc:  # Whatever pika makes of octets that are no frames.
        return heard, exc
    read = sum(map(len, parts))
    waits = connection._frame_buffer + (connection._rest if short else b"")
    assert connection.bytes_received == read - len(waits)
    return heard, None


PLAIN = st.builds(
    pika.BasicProperties,
    content_type=st.just("application/xml"),
    headers=HEADERS,
    delivery_mode=st.just(2),
    message_id=TEXTS,
    timestamp=st.integers(0, 2**40),
)
DELIVERIES = st.builds(
    of_pika,
    st.sampled_from([1, 2, 3]),
    st.builds(
        spec.Basic.Deliver,
        consumer_tag=st.sampled_from(["ours", "ours", "others"]),
        delivery_tag=TAGS,
        redelivered=st.booleans(),
        exchange=NAMES,
        routing_key=NAMES,
    ),
    PLAIN | PROPERTIES,
    st.binary(max_size=60) | st.just(b"x" * (WIDE + 1)),
    st.sampled_from([WIDE, WIDE, WIDE, 40]),
)
ANSWERS = st.builds(
    lambda channel, method: frame.Method(channel, method).marshal(),
    st.sampled_from([1, 2, 3]),
    st.builds(spec.Basic.Ack, TAGS, st.booleans())
    | st.builds(spec.Basic.Nack, TAGS, st.booleans(), st.just(False))
    | st.builds(spec.Basic.CancelOk, TEXTS),
)
WIRES = st.lists(DELIVERIES | ANSWERS | st.just(frame.Heartbeat().marshal()), max_size=6)


def cut(octets: bytes, places: Sequence[int]) -> list[bytes]:
    ends = sorted({place % (len(octets) + 1) for place in places} | {0, len(octets)})
    return [octets[start:end] for start, end in pairwise(ends)]


@given(WIRES, st.lists(st.integers(0, 5000), max_size=6))
async def test_all_frames_come_as_through_pika(wires: list[bytes], places: list[int]) -> None:
    octets = b"".join(wires)
    expected, _ = listen([octets], short=False)
    for parts in ([octets], cut(octets, places)):
        found, failure = listen(parts, short=True)
        assert (found.frames, failure) == (expected.frames, None)


@given(WIRES, st.lists(st.integers(0, 5000), max_size=4), st.data())
async def test_octets_that_are_broken(
    wires: list[bytes], places: list[int], data: st.DataObject
) -> None:
    """Nothing comes that does not come through pika too; and what ends pika's connection, or
    makes it wait for a frame larger than agreed, ends this."""
    octets = bytearray(b"".join(wires) + frame.Heartbeat().marshal())
    octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    expected, theirs = listen([bytes(octets)], short=False)
    found, ours = listen(cut(bytes(octets), places), short=True)
    assert found.frames == expected.frames[: len(found.frames)]
    if theirs is None and ours is None:
        assert len(found.frames) == len(expected.frames)
    else:
        assert ours is not None


async def test_deliveries_and_answers_take_the_short_way() -> None:
    deliver = spec.Basic.Deliver("ours", 1, False, "e", "k")
    properties = pika.BasicProperties(content_type="a/b", headers={"n": "v"}, delivery_mode=2)
    octets = of_pika(1, deliver, properties, b"<a/>", WIDE)
    octets += frame.Method(2, spec.Basic.Ack(1, True)).marshal()
    heard, _ = listen([octets[:-1], octets[-1:]], short=True)
    assert (heard.short, len(heard.frames)) == (2, 4)


async def test_a_frame_larger_than_agreed_ends_the_connection() -> None:
    start = b"\x03\0\x01" + (WIDE + 1).to_bytes(4)
    _, failure = listen([start], short=True)
    assert isinstance(failure, AMQPError)


# --------------------------------------------------------------------------------- acknowledgements


@given(st.lists(st.lists(st.integers(-1, 20), max_size=8), max_size=12))
def test_what_is_settled_is_acknowledged_once(turns: list[list[int]]) -> None:
    """A broker that knows which tags are outstanding, as RabbitMQ: -1 delivers, others settle one
    of those that are unsettled."""
    tags, outstanding, unsettled = Tags(), list[int](), list[int]()
    following = 1
    for turn in turns:
        for what in turn:
            if what < 0 or not unsettled:
                for _ in range(3):
                    tags.deliver(following)
                    outstanding.append(following)
                    unsettled.append(following)
                    following += 1
            else:
                tags.settle(unsettled.pop(what % len(unsettled)))
        upto, apart = tags.take()
        for tag in apart:
            outstanding.remove(tag)
        if upto is not None:
            assert upto in outstanding
            outstanding = [tag for tag in outstanding if tag > upto]
        assert sorted(outstanding) == sorted(unsettled)
    assert tags.take() == (None, [])


@pytest.mark.parametrize(
    ("settled", "upto", "apart"),
    [
        pytest.param([1, 2, 3], 3, [], id="in order"),
        pytest.param([3, 1, 2], 3, [], id="in another order"),
        pytest.param([2, 3], None, [2, 3], id="the first is unsettled"),
        pytest.param([1, 2, 3, 5, 7], 3, [5, 7], id="gaps"),
        pytest.param([1, 2, 3, 4, 5, 6, 7], 7, [], id="all"),
        pytest.param([1, 1, 9], 1, [], id="twice, and what never came"),
    ],
)
def test_one_frame_for_many(settled: list[int], upto: int | None, apart: list[int]) -> None:
    tags = Tags()
    for tag in range(1, 8):
        tags.deliver(tag)
    assert [tags.settle(tag) for tag in settled] == [True] + [False] * (len(settled) - 1)
    assert tags.take() == (upto, apart)


def test_acknowledgements_wait_until_they_are_a_quarter() -> None:
    tags = Tags()
    for tag in range(1, 65):
        tags.deliver(tag)
    for tag in range(1, 16):
        tags.settle(tag)
        assert not tags.are_many, tag
    tags.settle(16)
    assert tags.are_many
    assert tags.take() == (16, [])
    assert not tags.are_many


def test_one_alone_is_acknowledged_at_once() -> None:
    tags = Tags()
    tags.deliver(1)
    tags.settle(1)
    assert tags.are_many


class Late:
    """A channel that has something to acknowledge."""

    def __init__(self) -> None:
        self.flushed = asyncio.Event()

    def flush(self) -> None:
        self.flushed.set()


async def test_acknowledgements_do_not_wait_for_ever() -> None:
    """The last ones before a silence: too few for a frame of their own, and nothing comes."""
    stream = Stream(pika.ConnectionParameters(), internal_connection_workflow=False)
    late = Late()
    stream.flush_later(late)  # type: ignore[arg-type]  # as much of a channel as this needs
    assert not late.flushed.is_set()
    async with asyncio.timeout(5):
        await late.flushed.wait()
