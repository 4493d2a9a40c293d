"""The keys by which signatures are verified: one bound for signers and for each authority that a
peer shows, before anything is computed with them.

RSA is verified in a time that grows with the square of the size, and with the length of the public
exponent, and whoever shows a chain of certificates chooses both.
"""

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

RSA_SIZES = range(2048, 8193)
"""Bits of RSA keys."""
LARGEST_EXPONENT = 2**32
"""Of RSA keys: 65537 nearly always; OpenSSL takes up to 64 bits, and any in small keys."""
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
USABLE_KEYS = "RSA of 2048 to 8192 bits, P-256, P-384 or P-521"


def is_usable_key(key: object) -> bool:
    """Return True if a public *key* is of a kind and size that is computed with."""
    if isinstance(key, rsa.RSAPublicKey):
        return key.key_size in RSA_SIZES and key.public_numbers().e <= LARGEST_EXPONENT
    return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, _CURVES)


def subject_public_key_info(key: object) -> bytes:
    """A public *key* as its SubjectPublicKeyInfo in DER: equal keys have equal ones."""
    octets: bytes = key.public_bytes(  # type: ignore[attr-defined]  # All public keys have it.
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    return octets
