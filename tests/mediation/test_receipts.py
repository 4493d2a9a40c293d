"""Receipts: who signed them, of what, and what is none."""

import base64
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mediation.model.versions import Soap, Wsa
from mediation.receipts import (
    ReceiptInvalid,
    receipt_block,
    sign_receipt,
    verify_receipt,
    write_receipt,
)
from mediation.reliable_messaging import Acknowledgement, Ranges, Rm, with_blocks
from mediation.reliable_messaging.blocks import acknowledgement_block
from mediation.ws_security import sign_envelope
from tests.rigs.signers import Signers

SENT = b"<what><was>sent</was></what>"
Write = Callable[[Signers, str], bytes]


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    made = Signers.make(tmp_path_factory.mktemp("signers"), "gateway")
    files = made.authority.issue("expired", days=-1)
    return Signers(made.authority, {**made.files, "expired": files})


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    return Signers.make(tmp_path_factory.mktemp("strangers"), "gateway")


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def in_soap(signers: Signers, name: str) -> bytes:
    block = receipt_block(SENT, "urn:uuid:1")
    octets = write_receipt(Soap.V1_2, Wsa.V2005_08, "urn:uuid:1", block)
    return sign_envelope(octets, signers.key(name), unique="u", now=now())


def plain(signers: Signers, name: str) -> bytes:
    octets = write_receipt(Soap.V1_1, None, None, receipt_block(SENT, "urn:uuid:1"))
    return sign_envelope(octets, signers.key(name), unique="u", now=now())


def acknowledging(signers: Signers, name: str) -> bytes:
    told = acknowledgement_block(Rm.V1_1, Acknowledgement("urn:s", Ranges.of([(1, 4), (7, 7)])))
    octets = write_receipt(Soap.V1_2, Wsa.V2005_08, "urn:uuid:1", receipt_block(SENT, "urn:uuid:1"))
    return sign_envelope(with_blocks(octets, [told]), signers.key(name), unique="u", now=now())


def token(signers: Signers, name: str) -> bytes:
    key = signers.key(name)
    return sign_receipt(key, SENT, ["urn:uuid:1"], issuer="http://g", now=now()).encode()


FORMS = [in_soap, plain, acknowledging, token]
every_form = pytest.mark.parametrize("write", FORMS)


@every_form
def test_what_it_says(signers: Signers, write: Write) -> None:
    before = now()
    found = verify_receipt(write(signers, "gateway"), signers.trust)
    assert found.signer == "CN=gateway"
    assert before <= found.time <= now()
    assert found.messages == ("urn:uuid:1",)
    assert found.digest == hashlib.sha256(SENT).digest()
    assert found.acknowledged == ({"urn:s": "1-4,7"} if write is acknowledging else {})
    found.check_message(SENT)
    with pytest.raises(ReceiptInvalid, match="another message"):
        found.check_message(SENT + b" ")


@every_form
def test_by_whom_it_must_be(signers: Signers, stranger: Signers, write: Write) -> None:
    with pytest.raises(ReceiptInvalid):
        verify_receipt(write(stranger, "gateway"), signers.trust)
    with pytest.raises(ReceiptInvalid):
        verify_receipt(write(signers, "expired"), signers.trust)


@every_form
def test_every_octet_that_says_something_counts(signers: Signers, write: Write) -> None:
    octets = write(signers, "gateway")
    good = verify_receipt(octets, signers.trust)
    for place in range(0, len(octets), 7):
        changed = bytearray(octets)
        changed[place] ^= 1
        try:
            found = verify_receipt(bytes(changed), signers.trust)
        except ReceiptInvalid:
            continue
        assert found == good, place  # White space, say, that no signature covers.


@pytest.mark.parametrize(
    "octets",
    [
        b"", b"x", b"<", b"a.b.c", b"..", b"<a/>", b"\xff\xff", b"e30.e30.e30", b"<" * 70_000,
        b'<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body/></s:Envelope>',
    ],
)  # fmt: skip
def test_what_is_none(signers: Signers, octets: bytes) -> None:
    with pytest.raises(ReceiptInvalid):
        verify_receipt(octets, signers.trust)


def test_a_signed_message_is_no_receipt(signers: Signers) -> None:
    octets = write_receipt(Soap.V1_2, None, None, b"")
    signed = sign_envelope(octets, signers.key("gateway"), unique="u", now=now())
    with pytest.raises(ReceiptInvalid, match="says of no message"):
        verify_receipt(signed, signers.trust)


def test_a_token_of_another_type(signers: Signers) -> None:
    """Such as a signature of an event, by the same key."""
    head, *rest = token(signers, "gateway").decode().split(".")
    header = json.loads(base64.urlsafe_b64decode(head + "=="))
    changes: list[dict[str, object]] = [{"typ": "JWT"}, {"alg": "none"}, {"x5c": []}]
    for change in changes:
        text = json.dumps({**header, **change}).encode()
        other = base64.urlsafe_b64encode(text).decode().rstrip("=")
        with pytest.raises(ReceiptInvalid):
            verify_receipt(".".join([other, *rest]).encode(), signers.trust)


def test_it_holds_when_its_certificate_has_expired(tmp_path: Path) -> None:
    """What counts is the time at which it was signed."""
    signers = Signers.make(tmp_path, "gateway")
    brief = Signers(signers.authority, {"brief": signers.authority.issue("brief", days=-1)})
    then = datetime.now(UTC) - timedelta(days=2)
    receipt = sign_receipt(brief.key("brief"), SENT, ["urn:uuid:1"], issuer="http://g", now=then)
    assert verify_receipt(receipt.encode(), signers.trust).signer == "CN=brief"
