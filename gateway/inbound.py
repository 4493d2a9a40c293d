"""A message on its way in has three types, one behind the other.

    type      made by                    what it is
    --------  -------------------------  ------------------------------------------------------
    Inbound   a transport                octets, who sent them, and what the transport knows
    Incoming  `mediation.read`           the request in them, and how to answer
    Reply     `gateway.soap.replies`     what goes back on the connection

`Inbound` is here, below the rooms that carry requests out: a handler gets it beside the `Incoming`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.security.principals import Principal
from mediation import Attachment, Packaging, Soap


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
        packaging: How it came, hence what the peer can read.
        gone: Returns when the peer has gone, so that nobody waits on its behalf.
    """

    octets: bytes
    principal: Principal
    base: str
    path: str = ""
    hint: Soap = Soap.V1_1
    charset: str | None = None
    declared: Soap | None = None
    action: str | None = None
    hops: str | None = None
    origin: str | None = None
    attachments: tuple[Attachment, ...] = ()
    packaging: Packaging = Packaging.NONE
    gone: Callable[[], Awaitable[None]] | None = None
