"""Events in messages of HTTP: modes, and attributes in headers."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Reason, Refused
from mediation.cloudevents import CloudEvent, read_message, write_batch, write_event, write_headers
from mediation.cloudevents.http_binding import decode_value, encode_value, is_event
from tests.rigs.cases import for_each
from tests.rigs.pace import growth

ATTRIBUTES: dict[str, str | int | bool] = {
    "specversion": "1.0",
    "id": "A234-1",
    "source": "/sensors/4",
    "type": "com.example.tide",
}
CONTENT = st.text(
    st.characters(
        codec="utf-8", exclude_characters="\ufffe\uffff", exclude_categories=("Cc", "Cs", "Cn")
    )
)


ANY = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["1.0", "a/b"])
)  # fmt: skip
JSON = st.recursive(
    ANY,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from([*ATTRIBUTES, "data", "data_base64", "time", "x"]), inner)
    ),
)


def raw(headers: tuple[tuple[str, str], ...], *more: tuple[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in (*headers, *more)]


def reason_of(headers: list[tuple[bytes, bytes]], body: bytes = b"") -> Reason:
    with pytest.raises(Refused) as refused:
        read_message(headers, body)
    return refused.value.reason


def test_the_example_of_the_specification() -> None:
    assert encode_value("Euro \u20ac \U0001f600") == "Euro%20%E2%82%AC%20%F0%9F%98%80"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"Euro%20%e2%82%ac", "Euro \u20ac"),
        (b"%41%42", "AB"),
        (b'"a b\\"c\\\\"', 'a b"c\\'),
        (b'"%20"', " "),
        (b"%2520", "%20"),
        (b" padded ", "padded"),
        (b"100%", "100%"),
    ],
)
def test_values_are_decoded_once(value: bytes, text: str) -> None:
    assert decode_value(value) == text


@pytest.mark.parametrize("value", [b"%C0%A0", b"%ff", b'"open', b'a"b', b"\xff"])
def test_values_that_cannot_be_read(value: bytes) -> None:
    with pytest.raises(Refused):
        decode_value(value)


@for_each("filling", ['\\"', '"\\', '"', '""', '"a', "\\", " ", "%", "%4"])
@pytest.mark.parametrize("value", ['"{}', '{}"', "{}", '"\\{}', '"{}" "'])
def test_a_value_costs_what_it_is_long(value: str, filling: str) -> None:
    def decoded(size: int) -> None:
        with contextlib.suppress(Refused):
            decode_value(value.format(filling * (size // len(filling))).encode())

    assert growth(decoded, 4096) < 3


@given(CONTENT)
def test_values_come_back(text: str) -> None:
    encoded = encode_value(text)
    assert encoded.isascii() and encoded.isprintable() and " " not in encoded
    assert decode_value(encoded.encode()) == text


@given(CONTENT.filter(bool), st.binary(min_size=1))
def test_binary_mode_comes_back(subject: str, data: bytes) -> None:
    event = CloudEvent({**ATTRIBUTES, "subject": subject, "datacontenttype": "a/b"}, data)
    headers = raw(write_headers(event), ("Content-Type", "a/b"), ("User-Agent", "x"))
    assert read_message(headers, data) == (event,)


def test_numbers_are_text_in_headers() -> None:
    event = CloudEvent({**ATTRIBUTES, "n": 5, "flag": True})
    assert ("ce-n", "5") in write_headers(event)
    assert ("ce-flag", "true") in write_headers(event)


def test_structured_mode() -> None:
    body = write_event(CloudEvent({**ATTRIBUTES, "n": 5}, b'{"a":[1,true,null]}'))
    headers = raw((("Content-Type", "application/cloudevents+json; charset=UTF-8"),))
    [event] = read_message(headers, body)
    assert event.attributes["n"] == 5
    assert event.media_type == "application/json"
    assert json.loads(event.data or b"") == {"a": [1, True, None]}


def test_batched_mode() -> None:
    one = CloudEvent({**ATTRIBUTES, "datacontenttype": "image/png"}, b"\x89PNG")
    other = CloudEvent({**ATTRIBUTES, "id": "2"})
    headers = raw((("Content-Type", "application/cloudevents-batch+json"),))
    assert read_message(headers, write_batch([one, other])) == (one, other)
    assert read_message(headers, b"[]") == ()
    with pytest.raises(Refused) as refused:
        read_message(headers, write_batch([one] * 3), most=2)
    assert refused.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize(
    "content_type",
    [
        "application/cloudevents",
        "application/cloudevents+avro",
        "application/cloudevents-batch+avro",
    ],
)
def test_other_formats(content_type: str) -> None:
    headers = raw(write_headers(CloudEvent(ATTRIBUTES)), ("Content-Type", content_type))
    assert reason_of(headers, b"{}") is Reason.MEDIA_TYPE


@pytest.mark.parametrize("name", ["iso-8859-1", "cp1252", "utf-16le", "utf8", "latin9"])
@pytest.mark.parametrize("batched", [False, True])
def test_other_charsets(name: str, batched: bool) -> None:
    text = json.dumps({**ATTRIBUTES, "subject": "\u00c4ngelholm"}, ensure_ascii=False)
    media_type, text = (
        ("application/cloudevents-batch+json", f"[{text}]")
        if batched
        else ("application/cloudevents+json", text)
    )
    headers = raw((("Content-Type", f'{media_type}; charset="{name}"'),))
    [event] = read_message(headers, text.encode(name))
    assert event.attributes["subject"] == "\u00c4ngelholm"


@pytest.mark.parametrize("name", ["utf-7", "shift_jis", "utf-32", "utf-16"])
def test_charsets_that_are_not_read(name: str) -> None:
    content_type = f"application/cloudevents+json; charset={name}"
    assert reason_of([(b"content-type", content_type.encode())], b"{}") is Reason.ENCODING


def test_no_event() -> None:
    assert reason_of([(b"content-type", b"application/json")], b"{}") is Reason.MESSAGE_INVALID
    headers = raw(write_headers(CloudEvent(ATTRIBUTES)))
    assert reason_of([*headers, (b"ce-id", b"2")]) is Reason.MESSAGE_INVALID
    assert reason_of([*headers, (b"ce-datacontenttype", b"a/b")]) is Reason.MESSAGE_INVALID
    assert reason_of([*headers, (b"ce-my_ext", b"2")]) is Reason.MESSAGE_INVALID
    assert reason_of([*headers, *[(b"content-type", b"a/b")] * 2]) is Reason.MEDIA_TYPE


@given(
    st.sampled_from(["application/cloudevents+json", "application/cloudevents-batch+json", "a/b"]),
    st.lists(st.tuples(st.sampled_from([b"ce-id", b"ce-type", b"ce-x", b"ce-"]), st.binary())),
    st.binary() | st.builds(json.dumps, JSON).map(str.encode),
)
def test_whatever_comes_is_read_or_refused(
    content_type: str, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    known = raw(write_headers(CloudEvent(ATTRIBUTES)), ("Content-Type", content_type))
    with contextlib.suppress(Refused):
        read_message([*known, *headers], body)


def test_what_says_that_it_is_an_event() -> None:
    assert is_event([(b"ce-specversion", b"1.0")])
    assert is_event([(b"content-type", b"Application/CloudEvents+json")])
    assert not is_event([(b"content-type", b"application/json"), (b"ce-id", b"1")])
