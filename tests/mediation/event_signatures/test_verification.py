"""Which signatures count, and which do not."""

import base64
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc import jws
from joserfc.jwk import ECKey

from filters import Refused
from mediation.discovery import Credentials, Role, authority_of, identifier_of
from mediation.event_signatures import (
    EventSigner,
    EventVerifier,
    SignatureInvalid,
    canonical_content,
    read_signer,
    read_trusted_signers,
    topic_agrees,
)
from mediation.event_signatures.algorithms import registry
from mediation.packaging.data import NO_DATA, wrap
from tests.rigs.cases import for_each
from tests.rigs.discovery_keys import ec_key, root, rsa_key
from tests.rigs.event_signatures import (
    authority,
    credentials,
    key_pem,
    now,
    pem,
    signer,
    verifier,
)
from tests.rigs.mediation import topic

PAYLOAD = b'<w:Warning xmlns:w="urn:w" kind="w:Gale">65</w:Warning>'
TOPIC = topic("{urn:example:harbour}storms/coast")


def signed(payload: bytes = PAYLOAD, by: EventSigner | None = None) -> str:
    return (by or signer()).sign(payload, id="urn:uuid:1", topic=TOPIC, time=now())


def with_header(signature: str, **changed: object) -> str:
    head, _, rest = signature.partition(".")
    said = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    octets = json.dumps({**said, **changed}).encode()
    return f"{base64.urlsafe_b64encode(octets).rstrip(b'=').decode()}.{rest}"


@pytest.mark.parametrize(
    "refused",
    [
        identifier_of(credentials().certificate, Role.ENTITY),
        authority_of(authority().certificate),
    ],
    ids=["itself", "its authority"],
)
def test_who_is_refused_is_no_signer(refused: str) -> None:
    trusted = replace(read_trusted_signers(pem()), refused=frozenset({refused}))
    event = signed()
    verifier().verify(event, PAYLOAD, now=now())
    with pytest.raises(SignatureInvalid, match="refused here"):
        EventVerifier(trusted).verify(event, PAYLOAD, now=now())


@pytest.mark.parametrize("id", ["\0", "\ud800", "x" * 1025, "\u20ac" * 342])
def test_an_id_that_a_store_cannot_keep_is_refused(id: str) -> None:
    text = signer().sign(PAYLOAD, id=id, topic=TOPIC, time=now())
    with pytest.raises(SignatureInvalid, match="cannot be read"):
        verifier().verify(text, PAYLOAD, now=now())


@pytest.mark.parametrize(
    "by",
    [
        credentials(),
        Credentials(
            ec.derive_private_key(7, ec.SECP384R1()),
            (authority().issue("North mole", ec.derive_private_key(7, ec.SECP384R1())),),
        ),
        authority().credentials("North mole", rsa_key("North mole")),
    ],
    ids=["P-256", "P-384", "RSA"],
)
def test_who_an_authority_certified_is_believed(by: Credentials) -> None:
    found = verifier().verify(signed(by=EventSigner(by)), PAYLOAD, now=now())
    assert (found.name, found.subject) == ("North mole", "CN=North mole")
    assert (found.id, found.topic) == ("urn:uuid:1", str(TOPIC))


def test_a_signature_may_name_a_key_that_the_reader_knows() -> None:
    by = EventSigner(credentials(), certificates=False)
    signature = signed(by=by)
    assert len(signature) < 400 < len(signed())
    assert verifier(credentials()).verify(signature, PAYLOAD, now=now()).name == "North mole"
    with pytest.raises(SignatureInvalid, match="not known here"):
        verifier().verify(signature, PAYLOAD, now=now())


def test_a_signer_is_read_of_files() -> None:
    by = read_signer(key_pem(credentials()), pem(credentials()))
    verifier().verify(signed(by=by), PAYLOAD, now=now())


def test_any_library_of_jws_checks_a_signature() -> None:
    signature = signed()
    content = canonical_content(PAYLOAD, ["w"])
    assert content == b'<w:Warning xmlns:w="urn:w" kind="w:Gale">65</w:Warning>'
    head, _, value = signature.split(".")
    text = base64.urlsafe_b64encode(content).rstrip(b"=").decode()
    key = ECKey.import_key(key_pem(credentials()))
    jws.deserialize_compact(f"{head}.{text}.{value}", key, registry=registry())


@pytest.mark.parametrize(
    "payload",
    [
        PAYLOAD.replace(b"65", b"66"),
        PAYLOAD.replace(b">65", b"> 65"),
        PAYLOAD.replace(b"w:Gale", b"w:Calm"),
        PAYLOAD.replace(b"urn:w", b"urn:x"),
        # Only a value uses the prefix, whose meaning is signed all the same.
        b'<v:Warning xmlns:v="urn:w" xmlns:w="urn:x" kind="w:Gale">65</v:Warning>',
        wrap(b"{}", "application/json"),
        b"<not well-formed",
        NO_DATA,
    ],
)
def test_another_payload_is_not_what_was_signed(payload: bytes) -> None:
    with pytest.raises(SignatureInvalid):
        verifier().verify(signed(), payload, now=now())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (wrap(PAYLOAD, "text/plain"), PAYLOAD),
        (PAYLOAD, wrap(PAYLOAD, "text/plain")),
        (wrap(b"1", "application/json"), wrap(b"1", "text/csv")),
    ],
)
def test_the_same_octets_of_another_type_are_not_what_was_signed(
    before: bytes, after: bytes
) -> None:
    signature = signed(before)
    verifier().verify(signature, before, now=now(), wrapped=True)
    with pytest.raises(SignatureInvalid, match="was signed, and the event is"):
        verifier().verify(signature, after, now=now(), wrapped=True)


@pytest.mark.parametrize(
    ("signed_as", "said", "counts"),
    [
        ("application/json", "application/json", True),
        ("application/json", "Application/JSON; charset=utf-8", True),
        ("application/json", None, True),
        ("application/json", "application/octet-stream", True),
        ("application/json", "text/csv", False),
        ("application/json", "application/xml", False),
        (None, "application/xml", True),
        (None, "application/soap+xml", True),
        (None, "text/plain", False),
        (None, "application/json", False),
    ],
)
def test_data_that_a_cloud_event_says_are_of_another_type(
    signed_as: str | None, said: str | None, counts: bool
) -> None:
    """A consumer has the data bare, and the type beside them, where whoever is between wrote it."""
    signature = signed(PAYLOAD if signed_as is None else wrap(PAYLOAD, signed_as))
    if counts:
        verifier().verify(signature, PAYLOAD, now=now(), media_type=said)
    else:
        with pytest.raises(SignatureInvalid, match="was signed, and the event is"):
            verifier().verify(signature, PAYLOAD, now=now(), media_type=said)


def test_what_envelopes_declare_besides_changes_nothing() -> None:
    written = b"<w:Warning kind='w:Gale' xmlns:s='urn:s' xmlns:w='urn:w'>65<!-- kn --></w:Warning >"
    verifier().verify(signed(), written, now=now())


@for_each(
    "changed",
    [
        {"id": "urn:uuid:2"},
        {"topic": "{urn:example:harbour}storms"},
        {"time": "2026-01-01T00:00:00Z"},
        {"time": "2026-01-01T00:00:00"},
        {"time": "yesterday"},
        {"typ": "JWT"},
        {"cty": "text/plain"},
        {"ns": ["w"] * 65},
        {"ns": []},
        {"x5c": ["AAAA"]},
        {"x5c": ["AAAA"] * 6},
        {"x5c": 7},
        {"alg": "none"},
        {"alg": "HS256"},
        {"alg": "PS256"},
        {"crit": ["unheard"], "unheard": 1},
    ],
    ids=str,
)
def test_another_header_is_not_what_was_signed(changed: dict[str, object]) -> None:
    with pytest.raises(SignatureInvalid):
        verifier().verify(with_header(signed(), **changed), PAYLOAD, now=now())


@pytest.mark.parametrize("payload", [b"<e xmlns='u'>1</e>", b"<p:e xmlns:p='../x'/>"])
def test_what_has_no_canonical_form_is_neither_signed_nor_verified(payload: bytes) -> None:
    """A namespace that is a relative URI."""
    with pytest.raises(Refused, match="no canonical form"):
        signed(payload)
    with pytest.raises(SignatureInvalid):
        verifier().verify(signed(), payload, now=now())


@pytest.mark.parametrize("signature", ["", "a", "a..b", "é..b", "e30..AA", "." * 20_000, "....."])
def test_what_is_no_signature_is_said_to_be_none(signature: str) -> None:
    with pytest.raises(SignatureInvalid, match="cannot be read"):
        verifier().verify(signature, PAYLOAD, now=now())


def test_content_must_be_detached() -> None:
    head, _, value = signed().split(".")
    with pytest.raises(SignatureInvalid, match="detached"):
        verifier().verify(f"{head}.AAAA.{value}", PAYLOAD, now=now())


def test_whom_nobody_trusted_certified_is_not_believed() -> None:
    other = root("Another authority", ec_key("another authority"))
    by = EventSigner(other.credentials("North mole", ec_key("an impostor")))
    with pytest.raises(SignatureInvalid, match="not trusted"):
        verifier().verify(signed(by=by), PAYLOAD, now=now())


def test_a_certificate_counts_while_it_is_valid() -> None:
    by = credentials().certificate
    for time in (by.not_valid_before_utc, by.not_valid_after_utc):
        step = timedelta(days=1 if time == by.not_valid_after_utc else -1)
        with pytest.raises(SignatureInvalid, match="not trusted"):
            verifier().verify(signed(), PAYLOAD, now=time + step)


def test_attachments_are_those_that_were_signed() -> None:
    signature = signer().sign(
        PAYLOAD, id="urn:uuid:1", topic=None, time=now(), attachments=[b"chart"]
    )
    check = verifier()
    assert check.verify(signature, PAYLOAD, now=now()).topic is None  # The reader has none.
    check.verify(signature, PAYLOAD, now=now(), attachments=[b"chart"])
    for attachments in ([], [b"another"], [b"chart", b"chart"]):
        with pytest.raises(SignatureInvalid, match="attachments"):
            check.verify(signature, PAYLOAD, now=now(), attachments=attachments)


def test_what_dialects_leave_of_a_topic_agrees_with_it() -> None:
    said = str(TOPIC)
    for left in (None, TOPIC, topic("storms/coast"), topic("wseTopic")):
        assert topic_agrees(said, left)
    for other in ("storms/inland", "{urn:other}storms/coast", "coasts"):
        assert not topic_agrees(said, topic(other))
    assert not topic_agrees(None, topic("storms"))
