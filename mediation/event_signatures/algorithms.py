"""The algorithms of signatures, by keys, and the bounds within which joserfc reads them."""

from functools import lru_cache

from joserfc.jws import JWSRegistry

ALGORITHMS = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
"""By the names of curves."""
RSA = "PS256"
MAX_HEADER = 16 * 1024
"""Octets of a header: five certificates of RSA, in base64 twice."""
_MAX_CONTENT = 2**31


@lru_cache(maxsize=1)
def registry() -> JWSRegistry:
    """What joserfc takes: these algorithms, a header with certificates, content that was bounded
    when it was read."""
    made = JWSRegistry(algorithms=[*ALGORITHMS.values(), RSA], strict_check_header=False)
    made.max_header_length = MAX_HEADER
    made.max_payload_length = _MAX_CONTENT
    return made
