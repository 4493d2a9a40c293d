"""Encrypted messages: what comes out is what went in, and all that is wrong is one error."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from lxml import etree

from filters import Reason, Refused
from mediation import names
from mediation.ws_security import verify_message
from mediation.ws_security.encryption import (
    decrypt_message,
    encrypt_envelope,
    read_decryption_keys,
    read_recipient,
)
from tests.rigs.envelopes import S12, Message, canonical
from tests.rigs.signers import Signers, envelope, part, rsa_pair

CONTENT = '<e xmlns="urn:e" xmlns:w="urn:w">w:tide<!--c--></e>'


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return rsa_pair(tmp_path_factory.mktemp("keys"), "gateway")


@pytest.fixture(scope="module")
def keys(files: tuple[Path, Path]) -> tuple[rsa.RSAPrivateKey, ...]:
    return read_decryption_keys(files[1].read_bytes())


def encrypted(files: tuple[Path, Path], octets: bytes) -> bytes:
    return encrypt_envelope(octets, read_recipient(files[0].read_bytes()), unique="x")


@pytest.mark.parametrize(
    "octets",
    [
        envelope(CONTENT),
        envelope(f"text {CONTENT} text"),
        envelope(""),
        envelope(CONTENT, headers=""),
        f'<s:Envelope xmlns:s="{S12.value}"><s:Body>{CONTENT}</s:Body></s:Envelope>'.encode(),
    ],
)
def test_what_comes_out_is_what_went_in(
    files: tuple[Path, Path], keys: tuple[rsa.RSAPrivateKey, ...], octets: bytes
) -> None:
    sealed = encrypted(files, octets)
    assert b"tide" not in sealed
    found = decrypt_message(sealed, keys)
    assert found is not None and found.authenticated
    bodies = [canonical(part(etree.fromstring(one), "Body")) for one in (octets, found.octets)]
    assert bodies[0] == bodies[1]
    assert b"Encrypted" not in found.octets and b"Security" not in found.octets
    assert decrypt_message(octets, keys) is None and decrypt_message(found.octets, keys) is None


def test_signed_and_then_encrypted(
    files: tuple[Path, Path], keys: tuple[rsa.RSAPrivateKey, ...], tmp_path: Path
) -> None:
    signers = Signers.make(tmp_path, "mole")
    found = decrypt_message(encrypted(files, signers.signed("mole", envelope(CONTENT))), keys)
    assert found is not None
    assert verify_message(found.octets, signers.trust, now=datetime.now(UTC)) is not None
    assert len(Message(found.octets).body) == 1


Change = Callable[[bytes], bytes]


def _flip(name: str) -> Change:
    """Change one octet in the middle of what the last element *name* has in Base64."""

    def change(octets: bytes) -> bytes:
        end = octets.rindex(b"</xenc:CipherValue>", 0, octets.index(f"</xenc:{name}>".encode()))
        at = end - 40
        return octets[:at] + (b"A" if octets[at : at + 1] != b"A" else b"B") + octets[at + 1 :]

    return change


WRONG: dict[str, tuple[Change, Reason]] = {
    "the data": (_flip("EncryptedData"), Reason.SIGNATURE_REFUSED),
    "the key": (_flip("EncryptedKey"), Reason.SIGNATURE_REFUSED),
    "no key": (lambda one: one.replace(b"EncryptedKey", b"Other"), Reason.SIGNATURE_REFUSED),
    "no value": (lambda one: one.replace(b"CipherValue", b"Value"), Reason.SIGNATURE_REFUSED),
    "no Base64": (
        lambda one: one.replace(b"<xenc:CipherValue>", b"<xenc:CipherValue>!"),
        Reason.SIGNATURE_REFUSED,
    ),
    "something beside it": (
        lambda one: one.replace(b"</s:Body>", b"<x/></s:Body>"),
        Reason.SIGNATURE_REFUSED,
    ),
    "no method": (
        lambda one: one.replace(b"EncryptionMethod", b"Method"),
        Reason.SIGNATURE_REFUSED,
    ),
    "PKCS #1 1.5": (
        lambda one: one.replace(b"rsa-oaep-mgf1p", b"rsa-1_5"),
        Reason.ALGORITHM_UNSUPPORTED,
    ),
    "another digest": (
        lambda one: one.replace(b"xmldsig#sha1", b"xmldsig#md5"),
        Reason.ALGORITHM_UNSUPPORTED,
    ),
    "CBC": (
        lambda one: one.replace(names.XENC_AES256_GCM.encode(), f"{names.XENC}aes256-cbc".encode()),
        Reason.ALGORITHM_UNSUPPORTED,
    ),
    "3DES": (
        lambda one: one.replace(
            names.XENC_AES256_GCM.encode(), f"{names.XENC}tripledes-cbc".encode()
        ),
        Reason.ALGORITHM_UNSUPPORTED,
    ),
    "a shorter key": (
        lambda one: one.replace(b"aes256-gcm", b"aes128-gcm"),
        Reason.SIGNATURE_REFUSED,
    ),
}


@pytest.mark.parametrize(("change", "reason"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_decrypted(
    files: tuple[Path, Path], keys: tuple[rsa.RSAPrivateKey, ...], change: Change, reason: Reason
) -> None:
    octets = encrypted(files, envelope(CONTENT))
    changed = change(octets)
    assert changed != octets
    with pytest.raises(Refused) as refused:
        decrypt_message(changed, keys)
    assert refused.value.reason is reason
    if reason is Reason.SIGNATURE_REFUSED:
        assert refused.value.text == "The message cannot be decrypted."


def test_while_a_key_is_rotated(files: tuple[Path, Path], tmp_path: Path) -> None:
    other = rsa_pair(tmp_path, "other")
    both = read_decryption_keys(other[1].read_bytes() + files[1].read_bytes())
    assert len(both) == 2
    octets = encrypted(files, envelope(CONTENT))
    assert decrypt_message(octets, both) is not None
    with pytest.raises(Refused, match="cannot be decrypted"):
        decrypt_message(octets, both[:1])


def test_keys_that_do_not_serve(files: tuple[Path, Path], tmp_path: Path) -> None:
    signers = Signers.make(tmp_path, "mole")
    certificate, key = signers.files["mole"]
    for pem, text in (
        (b"", "has 0 keys"),
        (files[1].read_bytes() * 3, "has 3 keys"),
        (key.read_bytes(), "not RSA"),
        (certificate.read_bytes(), "cannot be read"),
    ):
        with pytest.raises(ValueError, match=text):
            read_decryption_keys(pem)
    with pytest.raises(ValueError, match="not RSA"):
        read_recipient(certificate.read_bytes())
