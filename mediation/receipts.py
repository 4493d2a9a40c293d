"""Receipts: what one side says, signed, of what it has from the other, to be shown to others.

    of a message in SOAP    an envelope, signed (WS-Security): its header relates to the message,
                            and has the digest of the octets that came, as ebXML's receipts have it
    of messages in a        the acknowledgement in a signed envelope, with the digest of the one
    sequence                that was just taken
    of other events         a JSON Web Signature (RFC 7515, compact) of their ids, digest and time

"ebXML Business Signals 2.0" (``NonRepudiationInformation``), as AS4 has it in its receipts.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from lxml import etree

from filters import Reason, Refused
from mediation import names
from mediation.certificates import subject_of
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import read_message
from mediation.soap.addressing import is_forged
from mediation.soap.envelopes import text_of, write_envelope, xml_text
from mediation.ws_security import SigningKey, Trust, verify_when_made

TYPE = "receipt+jws"
"""``typ`` of the header."""
MAX_OCTETS = 64 * 1024
"""Of a receipt: what is longer is none."""
MAX_IDS = 1000
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_RSA = "PS256"
_INFORMATION = f"{{{names.EBBP_SIGNALS}}}NonRepudiationInformation"


class ReceiptInvalid(Refused):
    """It is no receipt, or not of what it is held against; the text says why."""

    def __init__(self, why: str) -> None:
        super().__init__(Reason.SIGNATURE_REFUSED, why)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a receipt says.

    Attributes:
        signer: The subject of the certificate that signed it.
        time: When it was signed, as the signer says.
        messages: The ids of what was received.
        digest: SHA-256 of the octets that were received; empty: it has none.
        acknowledged: The numbers of each sequence, as ``1-4,7``.
    """

    signer: str
    time: datetime
    messages: tuple[str, ...] = ()
    digest: bytes = b""
    acknowledged: Mapping[str, str] = field(default_factory=dict)

    def check_message(self, octets: bytes) -> None:
        """Check that the receipt is of *octets*, as they were sent.

        Raises:
            ReceiptInvalid: It is of others, or has no digest.
        """
        if not self.digest:
            raise ReceiptInvalid("The receipt has no digest of a message.")
        if not hmac.compare_digest(self.digest, hashlib.sha256(octets).digest()):
            raise ReceiptInvalid("The receipt is of another message: the digests differ.")


def receipt_block(received: bytes, message_id: str | None) -> bytes:
    """Write the header block that has the digest of the octets *received*."""
    digest = base64.b64encode(hashlib.sha256(received).digest()).decode()
    return (
        f'<ebbp:NonRepudiationInformation xmlns:ebbp="{names.EBBP_SIGNALS}">'
        f'<ebbp:MessagePartNRInformation><ds:Reference xmlns:ds="{names.DSIG}"'
        f' URI="{xml_text(message_id or "")}"><ds:DigestMethod Algorithm="{names.XENC_SHA256}"/>'
        f"<ds:DigestValue>{digest}</ds:DigestValue></ds:Reference>"
        "</ebbp:MessagePartNRInformation></ebbp:NonRepudiationInformation>"
    ).encode()


def write_receipt(soap: Soap, wsa: Wsa | None, relates_to: str | None, block: bytes) -> bytes:
    """Write an envelope that has nothing but *block*, still to be signed."""
    header = block.decode()
    if wsa is not None:
        header += f"<wsa:Action>{names.DRAGOMAN_RECEIPT}</wsa:Action>"
        if relates_to is not None:
            header += f"<wsa:RelatesTo>{xml_text(relates_to)}</wsa:RelatesTo>"
    return write_envelope(soap, wsa, header, "")


def sign_receipt(
    signer: SigningKey, received: bytes, ids: Sequence[str], *, issuer: str, now: datetime
) -> str:
    """Return the receipt of events that are no SOAP: a JWS, of 1 KB and what *ids* take.

    Args:
        received: The octets that had them.
        issuer: The address of who gives it.
    """
    key = signer.key
    signing: RSAKey | ECKey
    if isinstance(key, rsa.RSAPrivateKey):
        algorithm, signing = _RSA, RSAKey(key, key)
    else:
        algorithm, signing = _CURVES[key.curve.name], ECKey(key, key)
    certificate = signer.certificate.public_bytes(Encoding.DER)
    header = {
        "alg": algorithm,
        "typ": TYPE,
        "x5c": [base64.b64encode(certificate).decode()],
    }
    claims = {
        "iss": issuer,
        "iat": int(now.timestamp()),
        "ids": list(ids[:MAX_IDS]),
        "sha-256": base64.b64encode(hashlib.sha256(received).digest()).decode(),
    }
    content = json.dumps(claims, separators=(",", ":")).encode()
    return jws.serialize_compact(header, content, signing, registry=_registry())


_UNREADABLE = (
    JoseError, ValueError, TypeError, KeyError, AttributeError, OverflowError, OSError,
    RecursionError,
)  # fmt: skip
"""What is raised by tokens that are none: also by times beyond all, and by lists within lists."""


def verify_receipt(octets: bytes, trust: Trust) -> Receipt:
    """Read a receipt, which one of *trust* signed with a certificate that was valid at its time.

    Raises:
        ReceiptInvalid: It is none, or nobody in *trust* signed it.
    """
    if len(octets) > MAX_OCTETS:
        raise ReceiptInvalid(f"It is no receipt: it has more than {MAX_OCTETS} bytes.")
    try:
        if octets.lstrip()[:1] == b"<":
            return _of_envelope(octets, trust)
        return _of_token(octets.strip().decode(), trust)
    except ReceiptInvalid:
        raise
    except Refused as refused:
        raise ReceiptInvalid(refused.text) from None
    except _UNREADABLE as error:
        raise ReceiptInvalid(f"It cannot be read as a receipt: {str(error)[:200]}") from None


def _of_envelope(octets: bytes, trust: Trust) -> Receipt:
    verified = verify_when_made(octets, trust)
    if verified is None:
        raise ReceiptInvalid("It has no signature.")
    signed, now, headers = verified
    said = read_message(octets)
    digest = b""
    # Signed, but not the signer's words: a receiver's own address brought them. Nothing marks them
    # before WS-Addressing 1.0: there a second block beside the signer's own is all that tells.
    if any(map(is_forged, headers)):
        raise ReceiptInvalid("A part of the receiver's own address stands for what was received.")
    # Of the blocks that are signed: anybody could add one that is meant for somebody else.
    found = [one for one in headers if one.tag == _INFORMATION]
    if len(found) > 1:
        raise ReceiptInvalid("It says several times what was received.")
    ids = [said.headers.relates_to] if said.headers.relates_to else []
    if found:
        digest, id = _digest_in(found[0])
        ids += [id] if id and id not in ids else []
    acknowledged = {one.identifier: str(one.ranges) for one in said.acknowledgements}
    if not (ids or digest or acknowledged):
        raise ReceiptInvalid("It says of no message that it was received.")
    return Receipt(subject_of(signed.certificate), now, tuple(ids), digest, acknowledged)


def _digest_in(information: etree._Element) -> tuple[bytes, str]:
    references = list(information.iter(f"{{{names.DSIG}}}Reference"))
    if len(references) != 1:
        raise ReceiptInvalid("It has several digests, or none.")
    [reference] = references
    method = reference.find(f"{{{names.DSIG}}}DigestMethod")
    value = reference.find(f"{{{names.DSIG}}}DigestValue")
    if method is None or value is None or method.get("Algorithm") != names.XENC_SHA256:
        raise ReceiptInvalid("Its digest is not of SHA-256.")
    return base64.b64decode(text_of(value), validate=True), reference.get("URI", "")


def _of_token(token: str, trust: Trust) -> Receipt:
    head, content, _ = token.split(".")
    header: dict[str, Any] = json.loads(_decoded(head))
    claims: dict[str, Any] = json.loads(_decoded(content))
    if header.get("typ") != TYPE:
        raise ReceiptInvalid(f"It is a token of another type than {TYPE}.")
    time = datetime.fromtimestamp(int(claims["iat"]), UTC)
    chain = tuple(base64.b64decode(one, validate=True) for one in header["x5c"][:4])
    certificate = trust.check(chain, time)
    public = certificate.public_key()
    key: ECKey | RSAKey
    if isinstance(public, ec.EllipticCurvePublicKey):
        key = ECKey(public, public)
    elif isinstance(public, rsa.RSAPublicKey):
        key = RSAKey(public, public)
    else:
        raise ReceiptInvalid("Its key is of a kind that does not sign receipts.")
    try:
        jws.deserialize_compact(token, key, registry=_registry())
    except JoseError:
        raise ReceiptInvalid("The receipt is not what was signed.") from None
    ids = tuple(str(one) for one in claims["ids"][:MAX_IDS])
    digest = base64.b64decode(claims["sha-256"], validate=True)
    return Receipt(subject_of(chain[0]), time, ids, digest)


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _registry() -> jws.JWSRegistry:
    made = jws.JWSRegistry(algorithms=[*_CURVES.values(), _RSA], strict_check_header=False)
    made.max_header_length = made.max_payload_length = MAX_OCTETS
    return made
