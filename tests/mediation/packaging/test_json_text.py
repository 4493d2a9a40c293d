"""JSON that has one reading, and the texts that its parts were read from."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Reason, Refused
from mediation.packaging.json_text import (
    DEEPEST,
    MOST_VALUES,
    is_json_text,
    read_json,
    read_members,
    read_objects,
)
from tests.rigs.pace import growth, pace

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
INDENTS = st.sampled_from([None, 0, 2])
READERS = [read_json, read_members, read_objects]


def refusal(octets: bytes) -> Refused:
    """What all readers say."""
    found = []
    for read in READERS:
        with pytest.raises(Refused) as refused:
            read(octets)
        found.append(refused.value)
    assert len({one.reason for one in found}) == 1
    assert not is_json_text(octets)
    return found[0]


@given(VALUES, INDENTS)
def test_values_are_read(value: Any, indent: int | None) -> None:
    octets = json.dumps(value, indent=indent).encode()
    assert read_json(octets) == value
    assert is_json_text(octets)


@given(st.dictionaries(st.text(), VALUES), INDENTS, st.sampled_from(["", " ", "\r\n\t"]))
def test_members_are_read_with_their_texts(
    value: dict[str, Any], indent: int | None, around: str
) -> None:
    text = f"{around}{json.dumps(value, indent=indent)}{around}"
    members = read_members(text.encode())
    assert members is not None
    assert {name: part.value for name, part in members.items()} == value
    for part in members.values():
        assert part.text == part.text.strip() and part.text in text
        assert json.loads(part.text) == part.value


@given(st.lists(VALUES), INDENTS)
def test_objects_are_read(values: list[Any], indent: int | None) -> None:
    objects = read_objects(json.dumps(values, indent=indent).encode())
    assert objects is not None
    for value, members in zip(values, objects, strict=True):
        found = members and {name: part.value for name, part in members.items()}
        assert (found == value) if isinstance(value, dict) else (members is None)


@given(VALUES.filter(lambda value: not isinstance(value, dict | list)))
def test_what_is_something_else(value: Any) -> None:
    octets = json.dumps(value).encode()
    assert read_members(octets) is None
    assert read_objects(octets) is None


@given(st.text(st.sampled_from('{}[],:"\\ 1a\n-.eu0'), max_size=12))
def test_all_readers_agree_on_what_is_json(text: str) -> None:
    octets = text.encode()
    if is_json_text(octets):
        json.loads(text)
        for read in READERS:
            read(octets)
    else:
        refusal(octets)


@pytest.mark.parametrize(
    ("octets", "said"),
    [
        (b"", "Expecting value"), (b"{", "line 1, column 2"), (b"[1,]", "line 1, column"),
        (b'{"a":1,}', "line 1, column"), (b'{"a" 1}', "':'"), (b'{"a":1 "b":2}', "','"),
        (b"[1 2]", "','"), (b"[] []", "Extra data"), (b'{"a":NaN}', "NaN is not a number"),
        (b"\xff", "not UTF-8"), (b'{"a":1,"a":2}', '"a" twice'), (b'[{"a":1,"b":0,"a":2}]', "twice"),
        (b"[1e999]", "too large a number"), (b"[-1e999]", "too large"), (b"[%b]" % (b"1" * 5000), "large"),
    ],
)  # fmt: skip
def test_what_is_not_read(octets: bytes, said: str) -> None:
    refused = refusal(octets)
    assert refused.reason is Reason.MESSAGE_INVALID
    assert said in refused.text


@pytest.mark.parametrize("inner", [b"", b'"[[["', b'"\\"[{"', b'{"[": "]"}', b'"\\\\"'])
def test_depth_is_bounded(inner: bytes) -> None:
    deep = DEEPEST - inner.count(b": ")
    assert is_json_text(b"[" * deep + inner + b"]" * deep)
    assert "too deep" in refusal(b"[" * (deep + 1) + inner + b"]" * (deep + 1)).text
    refusal(b"[" * 100_000)


@pytest.mark.parametrize("value", [b"1", b"[]", b'"a,[{"', b'"\\",["', b'{"[,":1}'])
def test_values_are_counted(value: bytes) -> None:
    own = 1 + (value[:1] in b"[{")
    most = (MOST_VALUES - 1) // own
    assert is_json_text(b"[%b]" % b",".join([value] * most))
    refused = refusal(b"[%b]" % b",".join([value] * (most + 1)))
    assert refused.reason is Reason.TOO_COMPLEX


def test_what_stands_in_a_text_is_no_value() -> None:
    assert is_json_text(json.dumps("[,{" * MOST_VALUES).encode())


def test_what_is_remembered_is_that_text_alone() -> None:
    octets = json.dumps(["x" * 2000]).encode()
    for _ in range(2):
        assert is_json_text(octets)
        assert not is_json_text(octets[:-1])
        assert not is_json_text(octets + b"]")


@pytest.mark.parametrize(
    "filling", [b"[],", b'"",', b'"\\"",', b"[[[]]],", b'{"a":1},', b"[", b" "]
)
def test_a_document_costs_what_it_is_long(filling: bytes) -> None:
    def read(size: int) -> None:
        is_json_text(b"[%b1]" % (filling * (size // len(filling))))

    assert growth(read, 10_000) < 4


def test_a_large_document_is_refused_before_it_is_built() -> None:
    """It would be a list of 600,000 lists."""
    octets = b"[" + b",".join([b"[]"] * 600_000) + b"]"
    assert pace(lambda: is_json_text(octets + b" ")) < pace(lambda: json.loads(octets)) / 4
