"""Sources of Windows events, which ask what they shall send (MS-WSMV): requests and answers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AskForSubscriptions:
    """Tell a source of Windows events what it is wanted to send (MS-WSMV)."""


@dataclass(frozen=True, slots=True)
class EndOfExchange:
    """A source of Windows events says nothing more on this connection (MS-WSMV, End)."""


@dataclass(frozen=True, slots=True)
class SourceSubscription:
    """A subscription that a source of Windows events is to make for itself.

    ``address`` is where it sends to; ``query`` a ``QueryList``; ``version`` a UUID that changes
    with anything else; times are seconds. ``issuer``: the thumbprint of the authority of its
    certificate. ``existing``: what it has logged already is wanted, too. ``bookmark``: the element
    with the source's bookmark of what came last, behind which it is to go on.
    """

    name: str
    address: str
    query: str
    version: str
    message_id: str
    heartbeats: float
    max_time: float
    issuer: str | None = None
    existing: bool = False
    bookmark: bytes | None = None


@dataclass(frozen=True, slots=True)
class SourceSubscriptions:
    """The answer to AskForSubscriptions."""

    wanted: tuple[SourceSubscription, ...]


@dataclass(frozen=True, slots=True)
class NoContent:
    """The answer to EndOfExchange, without a message."""
