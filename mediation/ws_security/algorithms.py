"""Algorithms of signatures, by their URIs.

There are no others: neither HMAC, whose key both sides have, nor what is shorter than SHA-256, but
for SHA-1 where an operator has old peers.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import (
    SHA1,
    SHA256,
    SHA384,
    SHA512,
    Hash,
    HashAlgorithm,
)

from mediation import names
from mediation.ws_security.errors import unsupported_algorithm
from mediation.xml_security import ecdsa_der

RSA_SHA1 = f"{names.DSIG}rsa-sha1"
DIGEST_SHA1 = f"{names.DSIG}sha1"
_HASHES: Mapping[str, HashAlgorithm] = {
    "sha1": SHA1(),  # Of old peers, where the operator allows it.
    "sha256": SHA256(),
    "sha384": SHA384(),
    "sha512": SHA512(),
}
_DIGESTS: Mapping[str, HashAlgorithm] = {
    DIGEST_SHA1: _HASHES["sha1"],
    names.XENC_SHA256: _HASHES["sha256"],
    f"{names.DSIG_MORE}sha384": _HASHES["sha384"],
    f"{names.XENC}sha512": _HASHES["sha512"],
}
_METHODS: Mapping[str, tuple[type, HashAlgorithm]] = {
    RSA_SHA1: (rsa.RSAPublicKey, _HASHES["sha1"]),
    **{
        f"{names.DSIG_MORE}{kind}-{hashed}": (key, _HASHES[hashed])
        for kind, key in (("rsa", rsa.RSAPublicKey), ("ecdsa", ec.EllipticCurvePublicKey))
        for hashed in ("sha256", "sha384", "sha512")
    },
}


@dataclass(frozen=True, slots=True)
class Algorithms:
    """Which algorithms are taken.

    Attributes:
        sha1: SHA-1, too.
    """

    sha1: bool = False

    def digest(self, uri: str, octets: bytes) -> bytes:
        """The digest of *octets* by the algorithm *uri*.

        Raises:
            MediationError: ``ALGORITHM_UNSUPPORTED``.
        """
        found = _DIGESTS.get(uri)
        if found is None or (uri == DIGEST_SHA1 and not self.sha1):
            raise unsupported_algorithm(uri[:200])
        hashing = Hash(found)
        hashing.update(octets)
        return hashing.finalize()

    def check_method(self, uri: str) -> None:
        """Refuse a way to sign that is not taken.

        Raises:
            MediationError: ``ALGORITHM_UNSUPPORTED``.
        """
        if uri not in _METHODS or (uri == RSA_SHA1 and not self.sha1):
            raise unsupported_algorithm(uri[:200])


USUAL = Algorithms()
"""Without SHA-1."""


def is_signature(key: object, method: str, signed: bytes, value: bytes) -> bool:
    """Return True if *value* is the signature of *signed* by *key* and *method*, a way that is
    taken (`Algorithms.check_method`)."""
    kind, hashed = _METHODS[method]
    if not isinstance(key, kind):
        return False
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(value, signed, PKCS1v15(), hashed)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(ecdsa_der(key, value), signed, ec.ECDSA(hashed))
    except (InvalidSignature, ValueError):
        return False
    return True
