"""Signing, for which signxml is needed, of the extra ``discovery``; checking needs none of it."""

import importlib.util
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric import rsa
from lxml import etree

from filters.documents import parse_own
from filters.extras import how_to_install
from mediation import names
from mediation.discovery.credentials import Credentials
from mediation.discovery.errors import Crowded
from mediation.discovery.parts import canonical
from mediation.discovery.values import MAX_MESSAGE, MAX_RESPONSE, Signable, TopicDiscoveryResponse
from mediation.discovery.writing import write

if TYPE_CHECKING:
    from signxml.signer import XMLSigner


def can_sign() -> bool:
    """Whether signxml is installed."""
    return importlib.util.find_spec("signxml") is not None


def sign(value: Signable, credentials: Credentials) -> bytes:
    """Write *value* with a signature of *credentials*, as its last element.

    Raises:
        Crowded: It would be larger than a message may be.
        Malformed, ValueError: As `write`.
        ModuleNotFoundError: signxml is not installed.
    """
    element = parse_own(write(value))
    signed: etree._Element = _signer(credentials).sign(
        element,
        key=credentials.key,
        cert=list(credentials.certificates),
        reference_uri=element.get("ID"),
        id_attribute="ID",
    )
    octets = canonical(signed)
    most = MAX_RESPONSE if isinstance(value, TopicDiscoveryResponse) else MAX_MESSAGE
    if len(octets) > most:
        raise Crowded(f"The {type(value).__name__} is larger than {most} bytes.")
    return octets


def _signer(credentials: Credentials) -> "XMLSigner":
    if not can_sign():
        raise ModuleNotFoundError(
            f"signing messages needs signxml: {how_to_install('discovery')}", name="signxml"
        )
    from signxml.algorithms import DigestAlgorithm, SignatureConstructionMethod, SignatureMethod
    from signxml.signer import XMLSigner

    return XMLSigner(
        method=SignatureConstructionMethod.enveloped,
        signature_algorithm=(
            SignatureMethod.RSA_SHA256
            if isinstance(credentials.key, rsa.RSAPrivateKey)
            else SignatureMethod.ECDSA_SHA256
        ),
        digest_algorithm=DigestAlgorithm.SHA256,
        c14n_algorithm=names.EXCLUSIVE_C14N,
    )
