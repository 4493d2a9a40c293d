"""Encrypted messages, and encrypted advertisements.

A fresh key encrypts the bytes (AES-256-GCM), the receiver's public key encrypts that key (RSA-OAEP
with SHA-256): the two steps of the paper in the form of XML Encryption 1.1
(https://www.w3.org/TR/xmlenc-core1/). The nonce stands before the ciphertext, the tag behind it.
"""

import re
from contextlib import suppress
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from lxml import etree

from filters import DocumentLimits, Refused, parse_document
from filters.charsets import require_utf_8
from filters.documents import parse_own
from mediation import names
from mediation.discovery.credentials import Credentials, usage_of
from mediation.discovery.errors import DecryptionFailed, Malformed
from mediation.discovery.values import (
    MAX_RESPONSE,
    Creator,
    EncryptedAdvertisement,
    TopicAdvertisement,
)
from mediation.discovery.xml_fields import Children, attribute, canonical, text
from mediation.discovery.xml_signature import decode_base64
from mediation.public_keys import is_usable_key
from mediation.soap.envelopes import xml_text
from mediation.xml_security import write_cipher_data

MAX_ENCRYPTED = MAX_RESPONSE * 4 // 3 + 16 * 2**10
"""The most bytes of an encrypted message."""
_LIMITS = DocumentLimits(octets=MAX_ENCRYPTED)
_NONCE, _TAG, _KEY = 12, 16, 32
_NO_KEY = bytes(_KEY)
_BEGINNING = re.compile(rb"\s*+(?:<\?xml[^>]*\?>\s*+)?<(?:[^\s<>:/]+:)?EncryptedData[\s/>]")


def is_encrypted(octets: bytes) -> bool:
    """Return True if *octets* begin as an encrypted message does."""
    return _BEGINNING.match(octets) is not None


def can_receive(certificate: x509.Certificate) -> bool:
    """Return True if messages can be encrypted for *certificate*: its key is RSA, large
    enough, and certified for the encipherment of keys."""
    key = certificate.public_key()
    usage = usage_of(certificate)
    return (
        isinstance(key, rsa.RSAPublicKey)
        and is_usable_key(key)
        and usage is not None
        and usage.key_encipherment
    )


def encrypt(octets: bytes, recipient: str, certificate: x509.Certificate) -> bytes:
    """Encrypt *octets*, one element, for the holder of *certificate*.

    Args:
        recipient: Its identifier.

    Raises:
        ValueError: Nothing can be encrypted for it (`can_receive`).
    """
    key = AESGCM.generate_key(8 * _KEY)
    nonce = AESGCM.generate_key(128)[:_NONCE]
    cipher = nonce + AESGCM(key).encrypt(nonce, octets, None)
    return (
        f'<xenc:EncryptedData xmlns:xenc="{names.XENC}" Type="{names.XENC_ELEMENT}">'
        f'<xenc:EncryptionMethod Algorithm="{names.XENC_AES256_GCM}"/>'
        f'<ds:KeyInfo xmlns:ds="{names.DSIG}">{_write_key(key, recipient, certificate)}'
        f"</ds:KeyInfo>{write_cipher_data(cipher)}</xenc:EncryptedData>"
    ).encode()


def decrypt(
    octets: bytes,
    recipient: str,
    credentials: Credentials,
    key: bytes = b"",
) -> bytes:
    """Decrypt what was encrypted for *recipient*, whose *credentials* are these.

    Args:
        key: An ``xenc:EncryptedKey`` that `hand_on` made for *recipient*, in place of the one in
            *octets*.

    Raises:
        DecryptionFailed: Whatever the cause. All that can be tried is tried, so that the time tells
            no more than the error.
    """
    return _open(octets, recipient, credentials, key)[1]


def hand_on(
    octets: bytes,
    holder: str,
    credentials: Credentials,
    recipient: str,
    certificate: x509.Certificate,
) -> bytes:
    """Encrypt the key of *octets*, which *holder* can decrypt, for another: so a creator lets
    *recipient* read an encrypted advertisement. The result is an ``xenc:EncryptedKey``.

    Raises:
        DecryptionFailed: *holder* cannot decrypt it.
        ValueError: Nothing can be encrypted for *recipient*.
    """
    secret = _open(octets, holder, credentials, b"")[0]
    return _write_key(secret, recipient, certificate).encode()


def encrypt_advertisement(
    advertisement: TopicAdvertisement, signed: bytes, certificate: x509.Certificate
) -> EncryptedAdvertisement:
    """Encrypt an advertisement for its creator.

    Args:
        signed: The same, signed by its node.
        certificate: The creator's.

    Raises:
        ValueError: Nothing can be encrypted for the creator.
    """
    creator = advertisement.creator.entity_id
    return EncryptedAdvertisement(
        advertisement.topic_id,
        advertisement.node,
        Creator(creator),
        advertisement.created,
        advertisement.expires,
        canonical(parse_own(encrypt(signed, creator, certificate))),
    )


# The element.


@dataclass(frozen=True, slots=True)
class _Key:
    recipient: str
    cipher: bytes


@dataclass(frozen=True, slots=True)
class _Data:
    key: _Key
    nonce: bytes
    cipher: bytes


def _open(
    octets: bytes, recipient: str, credentials: Credentials, key: bytes
) -> tuple[bytes, bytes]:
    """The key of *octets*, and what it decrypts."""
    try:
        require_utf_8(octets)
        data = _read_data(parse_document(octets, limits=_LIMITS))
        wrapped = _read_key(parse_document(key)) if key else data.key
    except Refused:
        raise DecryptionFailed from None
    secret = _unwrap(wrapped, credentials)
    plain = None
    with suppress(InvalidTag):
        plain = AESGCM(secret or _NO_KEY).decrypt(data.nonce, data.cipher, None)
    if plain is None or secret is None or wrapped.recipient != recipient:
        raise DecryptionFailed
    return secret, plain


def _unwrap(wrapped: _Key, credentials: Credentials) -> bytes | None:
    if not isinstance(credentials.key, rsa.RSAPrivateKey):
        return None
    try:
        secret = credentials.key.decrypt(wrapped.cipher, _OAEP)
    except ValueError:
        return None
    return secret if len(secret) == _KEY else None


_OAEP = OAEP(MGF1(SHA256()), SHA256(), None)


def _read_data(root: etree._Element) -> _Data:
    if root.tag != f"{{{names.XENC}}}EncryptedData":
        raise Malformed("The document is not an EncryptedData.")
    parts = Children(root, "Type")
    if root.get("Type", names.XENC_ELEMENT) != names.XENC_ELEMENT:
        raise Malformed("The encrypted content is not an element.")
    _check_method(_one(parts, "EncryptionMethod"), names.XENC_AES256_GCM)
    info = Children(_one(parts, "KeyInfo", names.DSIG))
    key = _read_key(_one(info, "EncryptedKey"))
    info.end()
    cipher = _read_cipher(parts)
    parts.end()
    if len(cipher) < _NONCE + _TAG:
        raise Malformed("What is encrypted is too short.")
    return _Data(key, cipher[:_NONCE], cipher[_NONCE:])


def _read_key(root: etree._Element) -> _Key:
    if root.tag != f"{{{names.XENC}}}EncryptedKey":
        raise Malformed("The key is not an EncryptedKey.")
    parts = Children(root, "Recipient")
    method = _one(parts, "EncryptionMethod")
    if method.get("Algorithm") != names.XENC_RSA_OAEP:
        raise Malformed("The key is encrypted with another algorithm.")
    options = Children(method, "Algorithm")
    _check_method(_one(options, "DigestMethod", names.DSIG), names.XENC_SHA256)
    _check_method(_one(options, "MGF", names.XENC_1_1), names.XENC_MGF1_SHA256)
    options.end()
    info = parts.take(f"{{{names.DSIG}}}KeyInfo")
    recipient = root.get("Recipient", "")
    if info is not None:
        hints = Children(info)
        name = text(_one(hints, "KeyName", names.DSIG))
        hints.end()
        if name != recipient:
            raise Malformed("The key is for two receivers.")
    cipher = _read_cipher(parts)
    parts.end()
    return _Key(recipient, cipher)


def _one(parts: Children, name: str, namespace: str = names.XENC) -> etree._Element:
    child = parts.take(f"{{{namespace}}}{name}")
    if child is None:
        raise Malformed(f"{name} is missing or out of place.")
    return child


def _check_method(element: etree._Element, wanted: str) -> None:
    Children(element, "Algorithm").end()
    if element.get("Algorithm") != wanted:
        raise Malformed("It is encrypted with another algorithm.")


def _read_cipher(parts: Children) -> bytes:
    data = Children(_one(parts, "CipherData"))
    octets = decode_base64(text(_one(data, "CipherValue")))
    data.end()
    return octets


def _write_key(key: bytes, recipient: str, certificate: x509.Certificate) -> str:
    """Write *key* for the holder of *certificate*: an element that can stand alone."""
    public = certificate.public_key()
    if not isinstance(public, rsa.RSAPublicKey) or not can_receive(certificate):
        raise ValueError("nothing can be encrypted for this certificate")
    return (
        f'<xenc:EncryptedKey xmlns:xenc="{names.XENC}" xmlns:ds="{names.DSIG}"'
        f"{attribute('Recipient', recipient)}>"
        f'<xenc:EncryptionMethod Algorithm="{names.XENC_RSA_OAEP}">'
        f'<ds:DigestMethod Algorithm="{names.XENC_SHA256}"/>'
        f'<xenc11:MGF xmlns:xenc11="{names.XENC_1_1}" Algorithm="{names.XENC_MGF1_SHA256}"/>'
        f"</xenc:EncryptionMethod>"
        f"<ds:KeyInfo><ds:KeyName>{xml_text(recipient)}</ds:KeyName></ds:KeyInfo>"
        f"{write_cipher_data(public.encrypt(key, _OAEP))}</xenc:EncryptedKey>"
    )
