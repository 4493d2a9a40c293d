"""What a request brings to prove a right to a topic, and what it is proved for."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lxml import etree

from filters import Refused, parse_document
from gateway.exchange import Inbound
from gateway.security.principals import Principal
from mediation.discovery import body_digest, json_digest
from mediation.model.requests import Incoming
from mediation.names import TDN

BLOCK = f"{{{TDN}}}Authorization"


@dataclass(frozen=True, slots=True)
class Brought:
    """What a request proves a right by.

    Attributes:
        authorization: The ``tdn:Authorization``, if any.
        request: The id of the request.
        certificate: The client's, in DER, where it showed one to TLS: it stands for a possession.
        digest: Computes the digest of the content that it came with.
    """

    authorization: bytes | None
    request: str
    certificate: bytes | None = None
    digest: Callable[[], str] | None = None


@dataclass(frozen=True, slots=True)
class Asking:
    """What a request brings.

    Attributes:
        use: What the proof is used for: for the same it may be used again.
        principal: Who sent it; None: it came by the messaging system.
    """

    brought: Brought
    use: str
    principal: Principal | None = None


def authorization_in(envelope: bytes) -> bytes | None:
    """The header block ``tdn:Authorization`` of an envelope that was read already."""
    if b"Authorization" not in envelope or TDN.encode() not in envelope:
        return None
    try:
        header = next(iter(parse_document(envelope)), None)
    except Refused:  # What is no SOAP has no header.
        return None
    if header is None:
        return None
    found = [block for block in header if block.tag == BLOCK]
    return etree.tostring(found[0], with_tail=False) if len(found) == 1 else None


Bringing = Callable[[], Brought]
"""Looks what a request brings: few need it."""


def brought(incoming: Incoming, inbound: Inbound) -> Bringing:
    """What a request brings: beside it, or in a header of its envelope."""

    def look() -> Brought:
        if inbound.proof is not None:
            authorization: bytes | None = inbound.proof.authorization
            request = inbound.proof.request
            digest = partial(json_digest, inbound.proof.content)
        else:
            authorization = authorization_in(inbound.octets)
            request = incoming.context.headers.message_id or ""
            digest = partial(body_digest, inbound.octets)
        return Brought(authorization, request, inbound.certificate, digest)

    return look
