"""Headers that pika cannot read do not stop what comes behind them."""

import contextlib
import inspect
import math
import struct
from typing import Any

import pika
import pytest
from pika import data

from adapters.rabbitmq import headers
from adapters.testing import Inbox
from tests.rigs.adapters import SECONDS
from tests.rigs.brokers import needs_rabbitmq, rabbitmq
from tests.rigs.rabbitmq_adapters import running

needs_rabbitmq()

POISON = {
    "beyond the year 9999": struct.pack(">cQ", b"T", 1_700_000_000_000),
    "beyond all time": struct.pack(">cQ", b"T", 2**64 - 1),
}


def test_pika_decodes_a_value_by_the_function_that_is_replaced() -> None:
    assert list(inspect.signature(data.decode_value).parameters) == ["encoded", "offset"]
    assert "decode_value(" in inspect.getsource(data.decode_table)


@pytest.mark.parametrize("value", POISON.values(), ids=POISON)
async def test_a_value_that_pika_cannot_read_is_empty(
    name: str, value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = rabbitmq()
    encode = data.encode_value
    marked = object()

    def encode_as_is(pieces: list[bytes], each: Any) -> Any:
        if each is not marked:
            return encode(pieces, each)
        pieces.append(value)
        return len(value)

    async with running(broker.url, name) as adapter:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        with contextlib.closing(connection), monkeypatch.context() as patched:
            patched.setattr(data, "encode_value", encode_as_is)
            connection.channel().basic_publish(
                name,
                "dragoman.adhoc.storm",
                b"<sea/>",
                pika.BasicProperties(headers={"when": marked, "speed": 9}),
            )
        (delivery,) = await Inbox(adapter, SECONDS).take(1)
    assert delivery.notification.payload == b"<sea/>"
    assert dict(delivery.notification.properties) == {"when": "", "speed": "9"}


def test_other_values_are_read_as_pika_reads_them() -> None:
    headers.read_all_values()
    pieces: list[bytes] = []
    data.encode_table(pieces, {"a": 1, "b": "x", "c": [True, None], "d": {"e": 2}})
    encoded = b"".join(pieces)
    assert data.decode_table(encoded, 0) == (
        {"a": 1, "b": "x", "c": [True, None], "d": {"e": 2}},
        len(encoded),
    )


@pytest.mark.parametrize("kind", ["f", "d"])
@pytest.mark.parametrize("number", [1.5, -0.25, float("nan"), float("inf"), float("-inf")])
def test_a_number_of_floating_point_is_read_as_it_is(kind: str, number: float) -> None:
    headers.read_all_values()
    encoded = struct.pack(f">c{kind}", kind.encode(), number) + b"V"
    value, end = data.decode_value(encoded, 0)
    assert value == (number if math.isfinite(number) else None)
    assert encoded[end:] == b"V"


@pytest.mark.parametrize("kind", ["A", "F"])
def test_what_is_nested_without_end_is_empty(kind: str) -> None:
    """Wherever it is given up, all that stands behind it is read."""
    headers.read_all_values()
    value = b"V"
    for _ in range(5000):
        inner = value if kind == "A" else b"\x01a" + value
        value = kind.encode() + struct.pack(">I", len(inner)) + inner
    table = b"\x01a" + value + b"\x01bt\x01"
    found, end = data.decode_table(struct.pack(">I", len(table)) + table, 0)
    assert found["b"] is True and end == 4 + len(table)
