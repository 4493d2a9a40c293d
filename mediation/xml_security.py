"""What XML Signature and XML Encryption write alike, for topic discovery and for WS-Security."""

import base64
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256

from mediation import names

PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def method_of(key: PrivateKey) -> str:
    """The URI of the way in which *key* signs: with SHA-256."""
    return names.DSIG_RSA_SHA256 if isinstance(key, rsa.RSAPrivateKey) else names.DSIG_ECDSA_SHA256


def sign_octets(key: PrivateKey, octets: bytes) -> bytes:
    """Sign *octets* by the method of *key* (`method_of`): the octets of a ``ds:SignatureValue``."""
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(octets, PKCS1v15(), SHA256())
    # XML Signature writes the two numbers of ECDSA one behind the other.
    length = _length_of(key)
    numbers = decode_dss_signature(key.sign(octets, ec.ECDSA(SHA256())))
    return b"".join(number.to_bytes(length, "big") for number in numbers)


def ecdsa_der(key: ec.EllipticCurvePublicKey, value: bytes) -> bytes:
    """Read a ``ds:SignatureValue`` of ECDSA, two numbers one behind the other, as a signature in
    DER.

    Raises:
        ValueError: They have not the length that *key* gives them.
    """
    length = _length_of(key)
    if len(value) != 2 * length:
        raise ValueError("not two numbers of the length of the key")
    return encode_dss_signature(
        int.from_bytes(value[:length], "big"), int.from_bytes(value[length:], "big")
    )


def _length_of(key: ec.EllipticCurvePublicKey | ec.EllipticCurvePrivateKey) -> int:
    return (key.key_size + 7) // 8


def write_cipher_data(octets: bytes) -> str:
    """Write encrypted *octets* as ``xenc:CipherData``, whose prefix is declared around it."""
    word = base64.b64encode(octets).decode()
    return f"<xenc:CipherData><xenc:CipherValue>{word}</xenc:CipherValue></xenc:CipherData>"
