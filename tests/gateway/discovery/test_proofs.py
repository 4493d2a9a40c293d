"""What a request brings to prove a right is parsed when it is asked for, and once."""

import pytest

from filters import parse_document
from gateway.discovery import proofs
from gateway.discovery.proofs import RequestProof
from mediation.names import TDN

HEADER = f'<t:Authorization xmlns:t="{TDN}"><t:Possession/></t:Authorization>'


def envelope(*headers: str, body: str = "") -> bytes:
    return (
        f"<s:Envelope xmlns:s='urn:s'><s:Header>{''.join(headers)}</s:Header>"
        f"<s:Body>{body}</s:Body></s:Envelope>"
    ).encode()


def test_an_envelope_is_parsed_once_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []

    def count(octets: bytes) -> object:
        parsed.append(octets)
        return parse_document(octets)

    monkeypatch.setattr(proofs, "parse_document", count)
    proof = RequestProof("urn:x", envelope=envelope(HEADER))
    assert proof.may_authorize
    assert parsed == [], "whoever makes it may be the event loop"
    authorization = proof.read_authorization()
    assert authorization is not None and b"Possession" in authorization
    assert proof.read_authorization() is authorization and proof.may_authorize
    assert len(parsed) == 1


@pytest.mark.parametrize(
    ("octets", "looks"),
    [
        pytest.param(envelope(), False, id="no header block"),
        pytest.param(envelope(body=HEADER), True, id="in the body"),
        pytest.param(envelope(HEADER, HEADER), True, id="two of them"),
        pytest.param(envelope("<Authorization/>", body=TDN), True, id="in another namespace"),
        pytest.param(f"Authorization {TDN}".encode(), True, id="not XML"),
    ],
)
def test_what_looks_like_a_proof_may_not_be_one(octets: bytes, looks: bool) -> None:
    proof = RequestProof("urn:x", envelope=octets)
    assert proof.may_authorize is looks
    assert proof.read_authorization() is None
    assert not proof.may_authorize


def test_a_native_message_brings_it_by_itself() -> None:
    proof = RequestProof("urn:x", authorization=b"<a/>")
    assert proof.may_authorize and proof.read_authorization() == b"<a/>"
    assert not RequestProof("urn:x").may_authorize
