"""Read from a request what proves a right to a topic: `RequestProof`.

A proof comes as ``tdn:Authorization``: in a header of SOAP, beside a request in JSON, or in a
property of a native message. A client certificate of TLS counts as one, too.
"""

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

HEADER = f"{{{TDN}}}Authorization"


class RequestProof:
    """The proof that a request brings. Nothing is parsed when it is made.

    Args:
        request: The id of the request.
        authorization: The ``tdn:Authorization``, where it came by itself.
        envelope: The envelope in whose header it may be.
        certificate: The client's, in DER, where it showed one to TLS: it stands for a possession.
        digest: Computes the digest of the request's content.
    """

    def __init__(
        self,
        request: str,
        *,
        authorization: bytes | None = None,
        envelope: bytes | None = None,
        certificate: bytes | None = None,
        digest: Callable[[], str] | None = None,
    ) -> None:
        self.request = request
        self.certificate = certificate
        self.digest = digest
        self._authorization = authorization
        self._envelope = envelope if envelope and _may_authorize(envelope) else None

    @property
    def may_authorize(self) -> bool:
        """Whether the request has a ``tdn:Authorization``, or looks as if it had."""
        return self._authorization is not None or self._envelope is not None

    def read_authorization(self) -> bytes | None:
        """Return the ``tdn:Authorization``, if any. The first call parses the envelope, which may
        have megabytes: not on the event loop."""
        if self._envelope is not None:
            self._authorization, self._envelope = _authorization_in(self._envelope), None
        return self._authorization


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """A request for a right to a topic.

    Attributes:
        use: What the proof is used for: for the same it may be used again.
        principal: Who sent it; None: it came by the messaging system.
        digest: Computes the digest of the content that the proof has to name.
    """

    proof: RequestProof
    use: str
    principal: Principal | None = None
    digest: Callable[[], str] | None = None


def proof_of(incoming: Incoming, inbound: Inbound) -> RequestProof:
    """Return the proof of a request: beside it, or in a header of its envelope."""
    if inbound.proof is not None:
        return RequestProof(
            inbound.proof.request,
            authorization=inbound.proof.authorization,
            certificate=inbound.certificate,
            digest=partial(json_digest, inbound.proof.content),
        )
    return RequestProof(
        incoming.context.headers.message_id or "",
        envelope=inbound.octets,
        certificate=inbound.certificate,
        digest=partial(body_digest, inbound.octets),
    )


def _may_authorize(envelope: bytes) -> bool:
    return b"Authorization" in envelope and TDN.encode() in envelope


def _authorization_in(envelope: bytes) -> bytes | None:
    """Return the header block ``tdn:Authorization`` of an envelope that was read before."""
    try:
        header = next(iter(parse_document(envelope)), None)
    except Refused:  # What is not SOAP has no header.
        return None
    if header is None:
        return None
    found = [block for block in header if block.tag == HEADER]
    return etree.tostring(found[0], with_tail=False) if len(found) == 1 else None
