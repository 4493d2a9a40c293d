"""Receipts: who signed them, of what, and what is none."""

import base64
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from filters import parse_document
from mediation.model.errors import MediationError
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.names import WSU
from mediation.receipts import (
    ReceiptInvalid,
    receipt_block,
    sign_receipt,
    verify_receipt,
    write_receipt,
)
from mediation.reliable_messaging import Acknowledgement, Ranges, Rm, with_blocks
from mediation.reliable_messaging.blocks import acknowledgement_block
from mediation.soap.addressing import read_epr, reference_headers
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


FOR_OTHERS = b"""
<ebbp:NonRepudiationInformation xmlns:z="http://www.w3.org/2003/05/soap-envelope"
z:role="http://elsewhere" """


@pytest.mark.parametrize("write", [in_soap, acknowledging])
def test_a_block_that_is_for_somebody_else_says_nothing(signers: Signers, write: Write) -> None:
    """It need not be signed, so anybody could have added it."""
    never = b"<never>received</never>"
    block = receipt_block(never, "urn:uuid:2")
    block = block.replace(b"<ebbp:NonRepudiationInformation ", FOR_OTHERS, 1)
    empty = sign_envelope(
        write_receipt(Soap.V1_2, None, None, b""), signers.key("gateway"), unique="u", now=now()
    )
    for octets, holds in ((write(signers, "gateway"), True), (empty, False)):
        place = octets.index(b"Header>") + len(b"Header>")
        forged = octets[:place] + block + octets[place:]
        try:
            found = verify_receipt(forged, signers.trust)
        except ReceiptInvalid:
            assert not holds
            continue
        assert holds
        found.check_message(SENT)
        with pytest.raises(ReceiptInvalid, match="another message"):
            found.check_message(never)


def test_it_says_once_what_was_received(signers: Signers) -> None:
    block = receipt_block(SENT, "urn:uuid:1")
    octets = write_receipt(Soap.V1_2, Wsa.V2005_08, "urn:uuid:1", block + block)
    signed = sign_envelope(octets, signers.key("gateway"), unique="u", now=now())
    with pytest.raises(ReceiptInvalid, match="several times"):
        verify_receipt(signed, signers.trust)


def by_their_own_address(block: bytes, wsa: Wsa) -> bytes:
    """*block* as a header of a message to who has put it into its own address, with no regard to
    what may not be in one."""
    return reference_headers(EndpointReference("http://own", wsa, parameters=(block,)), wsa)


@pytest.mark.parametrize("rm", Rm)
@pytest.mark.parametrize("wsa", Wsa)
def test_nobody_writes_its_own_receipt(signers: Signers, wsa: Wsa, rm: Rm) -> None:
    """No block of ours that says what was received may be in an address that a peer gives; where one
    has come into a signed message all the same, its mark tells, or that there are two."""
    never = b"<never>received</never>"
    digest = receipt_block(never, "urn:uuid:2")
    told = acknowledgement_block(rm, Acknowledgement("urn:s", Ranges.of([(1, 4)])))
    relates = f'<a:RelatesTo xmlns:a="{wsa.value}">urn:uuid:2</a:RelatesTo>'.encode()
    ours = receipt_block(SENT, "urn:uuid:1")
    for block in (digest, told, relates):
        inner = b"<e><a:Address xmlns:a='%b'>http://own</a:Address><a:ReferenceParameters xmlns:a='%b'>%b</a:ReferenceParameters></e>"  # fmt: skip
        named = wsa.value.encode()
        reference = parse_document(inner % (named, named, block))
        assert read_epr(reference, forged="drop").parameters == ()
        with pytest.raises(MediationError):
            read_epr(reference, forged="refuse")
        octets = with_blocks(
            write_receipt(Soap.V1_2, None, None, ours), [by_their_own_address(block, wsa)]
        )
        signed = sign_envelope(octets, signers.key("gateway"), unique="u", now=now())
        if wsa is Wsa.V2005_08 or block is digest:
            with pytest.raises(ReceiptInvalid, match=r"own address|several times"):
                verify_receipt(signed, signers.trust)


@pytest.mark.parametrize("seconds", [-50, 290])
def test_its_time_is_the_one_that_is_signed(signers: Signers, seconds: int) -> None:
    octets = in_soap(signers, "gateway")
    good = verify_receipt(octets, signers.trust)
    other = (good.time + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    before = octets.index(b"<wsu:Timestamp")
    added = f'<x xmlns:wsu="{WSU}"><wsu:Created>{other}</wsu:Created></x>'.encode()
    assert verify_receipt(octets[:before] + added + octets[before:], signers.trust) == good


def encoded(said: object) -> str:
    octets = said if isinstance(said, bytes) else json.dumps(said).encode()
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


ODD_HEADERS: list[object] = [
    b"[" * 40_000, [], {"x5c": {}}, {"x5c": 5}, {"alg": 5}, {"alg": []}, {"alg": "RS256"},
    {"crit": ["b64"], "b64": False}, {"crit": 5}, {"kid": []}, {"jwk": 5}, {"typ": None},
]  # fmt: skip
ODD_CLAIMS: list[object] = [
    b'{"a":' * 8_000, [], {"iat": 1e400}, {"iat": 10**30}, {"iat": 10**18}, {"iat": "9" * 5_000},
    {"iat": None}, {"ids": 5}, {"sha-256": 5}, {"ids": None},
]  # fmt: skip


def test_tokens_that_say_odd_things(signers: Signers) -> None:
    """All are refused, by the one error that is said."""
    head, content, signature = token(signers, "gateway").decode().split(".")
    header, claims = (json.loads(base64.urlsafe_b64decode(each + "==")) for each in (head, content))
    tokens = [
        (one if isinstance(one, bytes | list) else header | one, claims) for one in ODD_HEADERS
    ] + [(header, one if isinstance(one, bytes | list) else claims | one) for one in ODD_CLAIMS]
    for parts in tokens:
        text = ".".join([*map(encoded, parts), signature])
        with pytest.raises(ReceiptInvalid):
            verify_receipt(text.encode(), signers.trust)


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
