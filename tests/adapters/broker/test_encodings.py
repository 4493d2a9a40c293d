"""Bodies of native messages that are compressed."""

import gzip
import zlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.broker.encodings import EncodingError, decode
from adapters.broker.native import notification_of
from mediation.cloudevents import event_of
from mediation.model.messages import Notification

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RAW = -zlib.MAX_WBITS


def raw_deflate(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=RAW)
    return compressor.compress(body) + compressor.flush()


def native(body: bytes, media_type: str | None, encoding: str, **properties: str) -> Notification:
    return notification_of(
        body, properties, media_type, id="m", source="urn:s", time=NOW, topic=None,
        encoding=encoding,
    )[0]  # fmt: skip


@given(st.binary(max_size=200))
def test_what_was_encoded_is_decoded(body: bytes) -> None:
    assert decode(gzip.compress(body), "gzip") == (body, "")
    assert decode(gzip.compress(body), " X-GZIP , identity") == (body, "")
    assert decode(zlib.compress(body), "deflate") == (body, "")
    assert decode(raw_deflate(body), "Deflate") == (body, "")
    assert decode(gzip.compress(zlib.compress(body)), "deflate, gzip") == (body, "")
    assert decode(gzip.compress(body) + gzip.compress(body), "gzip") == (body * 2, "")


@pytest.mark.parametrize("encoding", [None, "", "identity", "UTF-8"])
def test_what_is_in_none_stays(encoding: str | None) -> None:
    assert decode(b"<m/>", encoding) == (b"<m/>", "")


def test_what_is_unknown_is_named() -> None:
    assert decode(b"\1\2", "br") == (b"\1\2", "br")
    assert decode(gzip.compress(b"\1\2"), "br, gzip") == (b"\1\2", "br")
    assert decode(b"\1\2", "gzip, aes128") == (b"\1\2", "gzip, aes128")


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        pytest.param(b"<m/>", "gzip", id="not gzip"),
        pytest.param(gzip.compress(b"<m/>" * 100)[:-9], "gzip", id="broken off"),
        pytest.param(gzip.compress(bytes(2**24)), "gzip", id="a bomb"),
        pytest.param(zlib.compress(bytes(2**24)), "deflate", id="a bomb of deflate"),
        pytest.param(gzip.compress(gzip.compress(bytes(2**24))), "gzip, gzip", id="twice"),
        pytest.param(gzip.compress(bytes(2**16)) * 300, "gzip", id="many members"),
        pytest.param(b"\xff\xff", "deflate", id="not deflate"),
    ],
)
def test_what_cannot_be_decoded_is_told(body: bytes, encoding: str) -> None:
    with pytest.raises(EncodingError):
        decode(body, encoding)


def test_a_decoded_body_is_read_as_what_it_is() -> None:
    assert native(gzip.compress(b"<m>1</m>"), "application/xml", "gzip").payload == b"<m>1</m>"
    event = native(
        gzip.compress(b'{"a":1}'), "application/json", "gzip",
        **{"cloudEvents:specversion": "1.0", "cloudEvents:id": "1", "cloudEvents:source": "/s",
           "cloudEvents:type": "t"},
    )  # fmt: skip
    assert event_of(event).data == b'{"a":1}'


@pytest.mark.parametrize("attributes", [False, True])
def test_consumers_are_told_an_encoding_that_is_left(attributes: bool) -> None:
    named = {f"cloudEvents_{name}": name for name in ("id", "source", "type")} if attributes else {}
    own = {**named, "cloudEvents_specversion": "1.0"} if attributes else {}
    notification = native(b"<m/>", "application/xml", "br", **own)
    assert b'content-type="application/xml" content-encoding="br"' in notification.payload
    event = event_of(notification)
    assert event.data == b"<m/>"
    assert event.attributes["contentencoding"] == "br"
