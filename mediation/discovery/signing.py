"""Signing: the one module that needs signxml, of the extra ``discovery``."""

from cryptography.hazmat.primitives.asymmetric import rsa
from lxml import etree
from signxml.algorithms import DigestAlgorithm, SignatureConstructionMethod, SignatureMethod
from signxml.signer import XMLSigner

from filters.documents import parse_own
from mediation import names
from mediation.discovery.credentials import Credentials
from mediation.discovery.errors import Crowded
from mediation.discovery.parts import canonical
from mediation.discovery.values import MAX_MESSAGE, MAX_RESPONSE, Signable, TopicDiscoveryResponse
from mediation.discovery.writing import write


def sign(value: Signable, credentials: Credentials) -> bytes:
    """Write *value* with a signature of *credentials*, as its last element.

    Raises:
        Crowded: It would be larger than a message may be.
        ValueError: As `write`.
    """
    element = parse_own(write(value))
    signer = XMLSigner(
        method=SignatureConstructionMethod.enveloped,
        signature_algorithm=(
            SignatureMethod.RSA_SHA256
            if isinstance(credentials.key, rsa.RSAPrivateKey)
            else SignatureMethod.ECDSA_SHA256
        ),
        digest_algorithm=DigestAlgorithm.SHA256,
        c14n_algorithm=names.EXCLUSIVE_C14N,
    )
    signed: etree._Element = signer.sign(
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
