"""The digest of what a proof of possession is sent with."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Refused
from mediation.discovery import body_digest, event_digest, json_digest
from mediation.model.messages import Attachment, Notification
from mediation.packaging.data import wrap

NOW = datetime(2027, 3, 4, tzinfo=UTC)


def event(payload: bytes, *attached: bytes) -> Notification:
    parts = tuple(Attachment(f"cid:{each!r}", "a/b", each) for each in attached)
    return Notification("urn:1", "urn:s", payload, NOW, attachments=parts)


def sha(octets: bytes) -> str:
    return base64.b64encode(hashlib.sha256(octets).digest()).decode()


def envelope(body: str, *, scope: str = "", header: str = "") -> bytes:
    s = "http://schemas.xmlsoap.org/soap/envelope/"
    head = f"<s:Header>{header}</s:Header>" if header else ""
    text = f'<s:Envelope xmlns:s="{s}"{scope}>{head}<s:Body>{body}</s:Body></s:Envelope>'
    return text.encode()


def test_it_is_the_digest_of_the_canonical_form() -> None:
    assert event_digest(event(b"<e b='1'   a='2'/>")) == sha(b'<e a="2" b="1"></e>')
    data = wrap(b"no XML \0", "a/b")
    assert event_digest(event(data)) == sha(b"no XML \0")
    attached = hashlib.sha256(b"one").digest() + hashlib.sha256(b"two").digest()
    assert event_digest(event(b"<e/>", b"one", b"two")) == sha(b"<e></e>" + attached)


SAME = [
    pytest.param(b'<e a="1" b="2"/>', b"<e  b='2' a='1'></e>", id="how it is written"),
    pytest.param(b"<e>1<!-- -->2</e>", b"<e>12</e>", id="comments"),
    pytest.param(b"<e>&#65;</e>", b"<e>A</e>", id="references"),
]
OTHER = [
    pytest.param(b"<e>31</e>", b"<e>9999</e>", id="text"),
    pytest.param(b'<e a="1"/>', b'<e a="2"/>', id="an attribute"),
    pytest.param(b'<e xmlns:t="urn:1">t:a</e>', b'<e xmlns:t="urn:2">t:a</e>', id="a prefix"),
    pytest.param(b"<e>1</e>", b"<e>1 </e>", id="white space"),
    pytest.param(b"<e><a/><b/></e>", b"<e><b/><a/></e>", id="the order"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_it_does_not_depend_on_how_something_is_written(one: bytes, other: bytes) -> None:
    assert event_digest(event(one)) == event_digest(event(other))
    assert body_digest(envelope(one.decode())) == body_digest(envelope(other.decode()))


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_says_something_else_has_another(one: bytes, other: bytes) -> None:
    assert event_digest(event(one)) != event_digest(event(other))
    assert body_digest(envelope(one.decode())) != body_digest(envelope(other.decode()))


def test_of_a_body_prefixes_that_are_declared_around_it_count_and_headers_do_not() -> None:
    one, other = (envelope("<e>t:a</e>", scope=f' xmlns:t="urn:{n}"') for n in (1, 2))
    assert body_digest(one) != body_digest(other)
    assert body_digest(envelope("<e/>", header="<h/>")) == body_digest(envelope("<e/>"))


def test_what_is_attached_counts() -> None:
    digests = {event_digest(event(b"<e/>", *each)) for each in [(), (b"1",), (b"2",), (b"1", b"2")]}
    assert len(digests) == 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.data())
def test_of_json_members_without_the_proof_count(said: dict[str, Any], data: Any) -> None:
    said = {name: value for name, value in said.items() if not name.startswith("tdn_")}
    digest = json_digest(json.dumps(said).encode())
    turned = dict(reversed(said.items())) | {"tdn_request": "urn:1", "tdn_authorization": "x"}
    assert json_digest(json.dumps(turned, indent=3).encode()) == digest
    changed = {**said, "more": data.draw(JSON)}
    assert json_digest(json.dumps(changed).encode()) != digest or "more" in said


@pytest.mark.parametrize("octets", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(octets: bytes) -> None:
    with pytest.raises(Refused):
        json_digest(octets)
