"""Events in JSON: which data is where."""

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Reason, Refused
from mediation.cloudevents import CloudEvent, write_event
from mediation.cloudevents.events import json_object
from mediation.cloudevents.json_format import read_batch, read_event
from tests.rigs.cases import for_each

ATTRIBUTES: dict[str, Any] = {
    "specversion": "1.0",
    "id": "A234-1",
    "source": "/sensors/4",
    "type": "com.example.tide",
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=8,
)  # fmt: skip


def read(**more: object) -> CloudEvent:
    return read_event(json.dumps({**ATTRIBUTES, **more}).encode())


def written(media_type: str | None, data: bytes | None) -> dict[str, Any]:
    more = {} if media_type is None else {"datacontenttype": media_type}
    found: dict[str, Any] = json.loads(write_event(CloudEvent({**ATTRIBUTES, **more}, data)))
    return {name: value for name, value in found.items() if name.startswith("data")}


@given(VALUES)
def test_json_data_comes_back(value: Any) -> None:
    event = read(data=value)
    assert json.loads(event.data or b"") == value
    again = read_event(write_event(event))
    assert again == event
    assert json.loads(write_event(event))["data"] == value


@given(st.binary())
def test_binary_data_comes_back(data: bytes) -> None:
    event = CloudEvent({**ATTRIBUTES, "datacontenttype": "application/octet-stream"}, data)
    assert read_event(write_event(event)) == event


def test_data_without_a_media_type_is_json() -> None:
    event = read(data="I'm just a string")
    assert event.data == b'"I\'m just a string"'
    assert event.attributes["datacontenttype"] == "application/json"


def test_a_null_is_data_of_json_alone() -> None:
    assert read(data=None).data == b"null"
    assert read(data=None, datacontenttype="text/plain").data is None
    assert read().data is None
    assert "datacontenttype" not in read().attributes


def test_a_string_of_json_is_not_read_again() -> None:
    assert read(data='{"a":1}').data == b'"{\\"a\\":1}"'


@pytest.mark.parametrize(
    ("media_type", "data", "said"),
    [
        ("application/xml", b"<much wow='xml'/>", {"data": "<much wow='xml'/>"}),
        ("text/plain", "\u20ac".encode(), {"data": "\u20ac"}),
        ("text/plain", b"\xff", {"data_base64": "/w=="}),
        ("application/json", b'{"a": 1}', {"data": {"a": 1}}),
        ("application/json", b"{broken", {"data_base64": "e2Jyb2tlbg=="}),
        ("application/ld+json", b"[]", {"data": []}),
        ("image/png", b"text", {"data_base64": "dGV4dA=="}),
    ],
)
def test_the_member_of_data(media_type: str, data: bytes, said: dict[str, Any]) -> None:
    assert written(media_type, data) == {"datacontenttype": media_type, **said}


def test_no_data() -> None:
    assert written("text/plain", None) == {"datacontenttype": "text/plain"}


def test_half_a_character_in_json_stays_escaped() -> None:
    event = read_event(json.dumps({**ATTRIBUTES, "data": "\ud800"}).encode())
    assert event.data == b'"\\ud800"'
    assert b'"data":"\\ud800"' in write_event(event)


@for_each(
    "octets",
    [
        b"", b"{", b"[]", b"null", b"5", b'"x"', b"\xff\xfe", b'{"id":"1","id":"2"}',
        b'{"a":NaN}', b'{"a":[1e999]}', b"-1e999", b"[" * 90_000, b"1" * 5000,
        json.dumps({**ATTRIBUTES, "data": 1, "data_base64": "AA=="}).encode(),
        json.dumps({**ATTRIBUTES, "data_base64": "*"}).encode(),
        json.dumps({**ATTRIBUTES, "data_base64": 5}).encode(),
        json.dumps({**ATTRIBUTES, "datacontenttype": "text/plain", "data": 5}).encode(),
        json.dumps({**ATTRIBUTES, "datacontenttype": "text/plain", "data": "\ud800"}).encode(),
        json.dumps({**ATTRIBUTES, "ext": 1.0}).encode(),
        json.dumps({**ATTRIBUTES, "Ext": "x"}).encode(),
    ],
)  # fmt: skip
def test_what_is_no_event(octets: bytes) -> None:
    with pytest.raises(Refused) as refused:
        read_event(octets)
    assert refused.value.reason is Reason.MESSAGE_INVALID


@for_each(
    "text",
    [
        "1.10", "-0", "1E2", "12345678901234567890.12345", "[1.0, 2 ]", '{"b":1, "a":2}',
        '"\\u00e9 \u00e9 \\/"', '"\\ud800"',
    ],
)  # fmt: skip
@for_each("around", ["{}", '{{"n": {}}}', "[{}]"])
def test_data_stays_the_text_that_it_was(text: str, around: str) -> None:
    data = around.format(text)
    body = json.dumps(ATTRIBUTES).replace("{", f'{{"data" :\n {data} ,', 1).encode()
    [batched] = read_batch(b" [ %b ] " % body, 1)
    assert read_event(body) == batched
    assert batched.data == data.encode()
    assert write_event(batched).endswith(b',"data":%b}' % data.encode())


@pytest.mark.parametrize(
    "data",
    [b'1,"id":"forged"', b"1}", b'{"a":1,"a":2}', b"[" * 201 + b"]" * 201, b"", b" ", b"{},{}"],
)
def test_what_is_no_document_is_not_put_into_one(data: bytes) -> None:
    event = CloudEvent({**ATTRIBUTES, "datacontenttype": "application/json"}, data)
    written = json.loads(write_event(event))
    assert written == {**event.attributes, "data_base64": b64encode(data).decode()}


def test_a_byte_order_mark_is_no_part_of_a_document() -> None:
    assert written("application/json", b"\xef\xbb\xbf[1]") == {
        "datacontenttype": "application/json",
        "data": [1],
    }


@given(
    st.dictionaries(
        st.from_regex("[a-z0-9]{1,20}", fullmatch=True),
        st.text() | st.integers() | st.booleans(),
        max_size=4,
    )
)
def test_attributes_are_written_as_any_json_is(attributes: dict[str, str | int | bool]) -> None:
    assert json_object(attributes) == json.dumps(
        attributes, ensure_ascii=False, separators=(",", ":")
    )
