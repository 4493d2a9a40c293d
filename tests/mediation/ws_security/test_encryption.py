"""Encrypted messages: what comes out is what went in, and all that is wrong is one error."""

import base64
import os
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1
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


def sealed_parts(
    files: tuple[Path, Path],
    octets: bytes,
    *wanted: str,
    cbc: Collection[str] = (),
    plain: Mapping[str, bytes] | None = None,
) -> bytes:
    """*octets* with the elements of these local names encrypted as WSS4J does: a header block in an
    EncryptedHeader, the content of the Body, another element by itself; all with one key. *plain*:
    what is encrypted instead."""
    secret = os.urandom(32)
    root = etree.fromstring(octets)
    header = root[0]
    for name in wanted:
        found = part(root, name)
        body = name == "Body"
        content = b"".join(map(etree.tostring, found)) if body else etree.tostring(
            found, with_tail=False
        )  # fmt: skip
        content = (plain or {}).get(name, content)
        data = _data(content, secret, cbc=name in cbc)
        parent = found.getparent()
        if body:
            found[:] = [data]
        elif parent is header:
            block = etree.Element(f"{{{names.WSSE_1_1}}}EncryptedHeader")
            block.set(f"{{{S12.value}}}mustUnderstand", "true")
            block.append(data)
            header.replace(found, block)
        else:
            assert parent is not None
            parent.replace(found, data)
    public = read_recipient(files[0].read_bytes()).public_key()
    assert isinstance(public, rsa.RSAPublicKey)
    wrapped = base64.b64encode(public.encrypt(secret, OAEP(MGF1(SHA1()), SHA1(), None))).decode()
    key = (
        f'<x:EncryptedKey xmlns:x="{names.XENC}"><x:EncryptionMethod'
        f' Algorithm="{names.XENC_RSA_OAEP_MGF1P}"/><x:CipherData><x:CipherValue>{wrapped}'
        "</x:CipherValue></x:CipherData></x:EncryptedKey>"
    )
    security = header.find(f"{{{names.WSSE}}}Security")
    if security is None:
        security = etree.SubElement(header, f"{{{names.WSSE}}}Security")
    security.insert(0, etree.fromstring(key))
    return etree.tostring(root)


def _data(content: bytes, secret: bytes, *, cbc: bool) -> etree._Element:
    vector = os.urandom(16 if cbc else 12)
    if cbc:
        padding = 16 - len(content) % 16
        padded = content + bytes(padding - 1) + bytes([padding])
        encryptor = Cipher(algorithms.AES(secret), modes.CBC(vector)).encryptor()
        sealed = vector + encryptor.update(padded) + encryptor.finalize()
    else:
        sealed = vector + AESGCM(secret).encrypt(vector, content, None)
    uri = f"{names.XENC}aes256-cbc" if cbc else names.XENC_AES256_GCM
    return etree.fromstring(
        f'<x:EncryptedData xmlns:x="{names.XENC}"><x:EncryptionMethod Algorithm="{uri}"/>'
        f"<x:CipherData><x:CipherValue>{base64.b64encode(sealed).decode()}</x:CipherValue>"
        "</x:CipherData></x:EncryptedData>"
    )


@pytest.mark.parametrize(
    ("wanted", "signed"),
    [
        (("MessageID",), False),
        (("MessageID", "Action"), False),
        (("Body", "MessageID", "Action"), False),
        (("Body", "MessageID", "Action"), True),
        (("Body", "Signature"), True),
        (("Timestamp",), True),
        (("Action", "Body", "Signature", "Timestamp", "BinarySecurityToken"), True),
    ],
)
def test_header_blocks_and_what_is_in_security(
    files: tuple[Path, Path],
    keys: tuple[rsa.RSAPrivateKey, ...],
    tmp_path: Path,
    wanted: tuple[str, ...],
    signed: bool,
) -> None:
    """Come out as they went in, so that a signature still covers them."""
    octets, signers = envelope(CONTENT), Signers.make(tmp_path, "mole")
    octets = signers.signed("mole", octets) if signed else octets
    sealed = sealed_parts(files, octets, *wanted)
    found = decrypt_message(sealed, keys)
    assert found is not None and found.authenticated and found.body is ("Body" in wanted)
    assert b"Encrypted" not in found.octets
    for name in wanted:
        before, after = (part(etree.fromstring(one), name) for one in (octets, found.octets))
        assert canonical(before) == canonical(after)
    if signed:
        assert verify_message(found.octets, signers.trust, now=datetime.now(UTC)) is not None
    assert not all(
        (decrypt_message(sealed_parts(files, octets, *wanted, cbc=[one]), keys, cbc=True) or found)
        .authenticated
        for one in wanted
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.replace(b"</x:EncryptedData></ns0:Enc", b"</x:EncryptedData><a/></ns0:Enc"),
        lambda one: re.sub(rb"(.*<x:CipherValue>).{8}", rb"\1AAAAAAAA", one, flags=re.DOTALL),
        lambda one: re.sub(rb"(<x:CipherValue>).{8}", rb"\1AAAAAAAA", one, count=1),
        lambda one: re.sub(rb"(<[^>]*EncryptedHeader.*EncryptedHeader>)", rb"\1" * 25, one),
        lambda one: one.replace(b"EncryptedKey", b"Other"),
    ],
)
def test_header_blocks_that_cannot_be_decrypted(
    files: tuple[Path, Path], keys: tuple[rsa.RSAPrivateKey, ...], change: Change
) -> None:
    """Are the one error, whatever it is; there are 24 at most."""
    sealed = sealed_parts(files, envelope(CONTENT), "Body", "MessageID")
    changed = change(sealed)
    assert changed != sealed
    with pytest.raises(Refused, match=r"^The message cannot be decrypted\.$"):
        decrypt_message(changed, keys)


def test_each_key_takes_its_time(
    files: tuple[Path, Path], keys: tuple[rsa.RSAPrivateKey, ...]
) -> None:
    """So there are four of them at most."""
    for count, taken in ((4, True), (5, False)):
        blocks = "".join(f"<b{number}/>" for number in range(count))
        octets = envelope(CONTENT, headers=blocks)
        root = etree.fromstring(octets)
        for number in range(count):
            one = etree.fromstring(sealed_parts(files, octets, f"b{number}"))
            key = part(one, "EncryptedKey")
            info = etree.Element(f"{{{names.DSIG}}}KeyInfo")
            info.append(key)
            block = part(one, "EncryptedHeader")
            block[0].insert(1, info)
            root[0].replace(part(root, f"b{number}"), block)
        etree.SubElement(root[0], f"{{{names.WSSE}}}Security").text = " "
        if taken:
            assert decrypt_message(etree.tostring(root), keys) is not None
        else:
            with pytest.raises(Refused, match="cannot be decrypted"):
                decrypt_message(etree.tostring(root), keys)


def test_what_comes_out_is_read_as_a_whole(
    files: tuple[Path, Path], keys: tuple[rsa.RSAPrivateKey, ...], tmp_path: Path
) -> None:
    """Whoever encrypts another Body into a header block has no signature that covers it."""
    signers = Signers.make(tmp_path, "mole")
    octets = signers.signed("mole", envelope(CONTENT))
    evil = b'</s:Header><s:Body><e xmlns="urn:evil"/></s:Body><s:Header>'
    for plain in (evil, b"<a/>", b"<b/><b/>", b"text", b"<unclosed>"):
        sealed = sealed_parts(files, octets, "MessageID", plain={"MessageID": plain})
        found = decrypt_message(sealed, keys)
        assert found is not None
        with pytest.raises(Refused):
            verify_message(found.octets, signers.trust, now=datetime.now(UTC))


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
