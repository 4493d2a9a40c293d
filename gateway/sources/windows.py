"""Sources of Windows events that subscribe themselves (Windows Event Forwarding, source-initiated):
they ask what is wanted, and then send it as WS-Management's deliveries."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from uuid import NAMESPACE_URL, uuid4, uuid5

import structlog

from gateway.exchange import Handlers, Inbound
from gateway.security.quotas import PrincipalRate
from mediation import (
    AskForSubscriptions,
    EndOfExchange,
    Incoming,
    NoContent,
    SourceSubscription,
    SourceSubscriptions,
)

_log = structlog.get_logger("dragoman.sources")


@dataclass(frozen=True, slots=True)
class WantedEvents:
    """Events that sources are asked for. Times are seconds.

    Attributes:
        query: A ``QueryList``, which the source evaluates.
        topic: The path of their topic; None leaves it to their channel.
        issuer: The thumbprint of the authority that has issued the certificates of sources.
        existing: What a source has logged already is sent, too.
    """

    name: str
    query: str
    topic: str | None = None
    heartbeats: float = 3600.0
    max_time: float = 30.0
    issuer: str | None = None
    existing: bool = False

    @property
    def version(self) -> str:
        """A name that changes whenever something else is wanted."""
        return str(uuid5(NAMESPACE_URL, repr(astuple(self)))).upper()


class WindowsOperations:
    """Tells sources what is wanted.

    Args:
        wanted: Of every source that asks.
        looks: Counts what strangers ask.
    """

    def __init__(self, wanted: Sequence[WantedEvents], looks: PrincipalRate) -> None:
        self._wanted = tuple(wanted)
        self._looks = looks

    def handlers(self) -> Handlers:
        return {AskForSubscriptions: self.tell, EndOfExchange: self.end}

    async def tell(
        self, _request: AskForSubscriptions, _incoming: Incoming, inbound: Inbound
    ) -> SourceSubscriptions:
        """Tell what is wanted; a source that has it already goes on as before."""
        self._looks.take(inbound.principal)
        _log.info("windows-source.asked", peer=inbound.principal.address, wanted=len(self._wanted))
        return SourceSubscriptions(
            tuple(
                SourceSubscription(
                    one.name,
                    inbound.base + (f"/soap/topic/{one.topic}" if one.topic else "/wsman"),
                    one.query,
                    one.version,
                    f"uuid:{str(uuid4()).upper()}",
                    one.heartbeats,
                    one.max_time,
                    one.issuer,
                    one.existing,
                )
                for one in self._wanted
            )
        )

    async def end(
        self, _request: EndOfExchange, _incoming: Incoming, _inbound: Inbound
    ) -> NoContent:
        """Note that the source says nothing more on this connection."""
        return NoContent()
