"""One exchange: a message on its way in has three types, one behind the other.

    type      made by                    what it is
    --------  -------------------------  ------------------------------------------------------
    Inbound   a transport                octets, who sent them, and what the transport knows
    Incoming  `mediation.read`           the request in them, and how to answer
    Reply     `gateway.soap`             what goes back on the connection

They are here, below the rooms that carry requests out: a handler gets the `Inbound` beside the
`Incoming`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gateway.security.principals import Principal
from mediation.model.messages import Attachment, Packaging
from mediation.model.requests import Incoming, Request, Response
from mediation.model.versions import Soap


@dataclass(frozen=True, slots=True)
class Proof:
    """The right to a topic, of a request that is no SOAP: a ``tdn:Authorization``, made for the id
    ``request`` and for ``content``, the request in JSON."""

    authorization: bytes
    request: str
    content: bytes


@dataclass(slots=True, kw_only=True)  # Frozen, it would cost 1.3 us more to make, of about 200.
class Inbound:
    """A message as a transport took it in; nobody writes to it.

    Attributes:
        octets: The envelope; of a package, its root part.
        principal: Who sent it.
        base: The gateway's URL as the peer sees it, without a slash at its end.
        path: That of the request; empty where the transport has none, and ``wsa:To`` says it.
        hint: The version of SOAP to refuse it in while the envelope's own is unknown.
        declared: The version that the framing says the envelope has, where it says one.
        action: As the transport says it.
        hops: How many gateways it went through, as the last of them said it.
        origin: Which event it is a copy of, in the same way.
        via: The addresses of gateways and channels that it has passed, in the same way.
        packaging: How it came, hence what the peer can read.
        certificate: Of the client, in TLS: DER; None where it showed none.
        proof: Of a right to a topic, where the envelope cannot bring it.
        headers: The fields of the request; none where the transport has none.
        signer: The certificate of who signed it, in DER; None where nobody did.
        names_signer: What it asks for is to be bound to that certificate.
        encrypted: Its Body was encrypted for the gateway.
        asked: We asked for it, and nobody waits for an answer: what is refused is kept.
        gone: Returns when the peer has gone, so that nobody waits on its behalf.
        identify_again: Tells its sender anew, for what is handed out after a wait: the sender may
            have no key any more, or other roles. It raises as identification does. None: there is
            nothing to ask; *principal* counts.
    """

    octets: bytes
    principal: Principal
    base: str
    path: str = ""
    hint: Soap = Soap.V1_1
    declared: Soap | None = None
    action: str | None = None
    hops: str | None = None
    origin: str | None = None
    via: str | None = None
    attachments: tuple[Attachment, ...] = ()
    packaging: Packaging = Packaging.NONE
    certificate: bytes | None = None
    proof: Proof | None = None
    headers: Sequence[tuple[bytes, bytes]] = ()
    signer: bytes | None = None
    names_signer: bool = False
    encrypted: bool = False
    asked: bool = False
    gone: Callable[[], Awaitable[None]] | None = field(default=None, compare=False)
    identify_again: Callable[[], Awaitable[Principal]] | None = field(default=None, compare=False)

    @property
    def signed(self) -> bool:
        """Whether its sender was proved by a signature of the message."""
        return self.signer is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply on the connection; without a body it says only that the request is taken (HTTP: 202).

    Attributes:
        status: That of HTTP.
        expected: The peer can relate it to its request, which had a message id.
        handed_over: To be awaited when the reply was written, with whether the peer has it.
    """

    status: int
    soap: Soap
    action: str = ""
    body: bytes = b""
    retry_after: float | None = None
    expected: bool = True
    handed_over: Callable[[bool], Awaitable[None]] | None = None


ACCEPTED = {soap: Reply(status=202, soap=soap) for soap in Soap}
"""The reply without a word: the request is taken, or its answer goes elsewhere."""


@dataclass(frozen=True, slots=True)
class Handover:
    """A response with messages of a mailbox.

    Attributes:
        settle: To be awaited once, with whether the peer has taken the response in: then they leave
            the mailbox, else they are its oldest again.
    """

    response: Response
    settle: Callable[[bool], Awaitable[None]]


Result: TypeAlias = Response | Handover | None
"""What a request came to; None where the specification answers nothing."""
Handler: TypeAlias = Callable[[Any, Incoming, Inbound], Awaitable[Result]]
"""Carries a request out: the request itself, what was read with it, and how it came. It raises
`Refused` with nothing changed."""
Handlers: TypeAlias = Mapping[type[Request], Handler]
"""What a room of the gateway offers: the handler of each type of request."""
