"""Sources of Windows events that subscribe themselves (Windows Event Forwarding, source-initiated):
they ask what is wanted, and then send it as WS-Management's deliveries."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from uuid import NAMESPACE_URL, uuid4, uuid5

import structlog

from filters import Reason, Refused
from gateway.exchange import Handlers, Inbound
from gateway.observing.samples import Sample, counter
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate
from gateway.sources.bookmarks import Bookmarks
from gateway.store import Store
from gateway.store.bookmarks import Machine
from mediation.model.requests import (
    AskForSubscriptions,
    EndOfExchange,
    EndOfSubscription,
    Incoming,
    ManagementHeaders,
    NoContent,
    SourceSubscription,
    SourceSubscriptions,
)

MOST_OF_STRANGER = 64
"""Bookmarks that are kept of those at one network address that the gateway does not trust."""

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


class SourceBookmarks:
    """Keeps the last bookmark of each source, behind which it is told to go on when it subscribes
    anew.

    A source is known by its principal and the name of its machine: several may share a network
    address, and each has records of its own. One that does not name its machine has none kept.
    """

    def __init__(self, store: Store, wanted: Sequence[WantedEvents]) -> None:
        self._bookmarks = Bookmarks(store)
        self._names = {one.version: one.name for one in wanted}

    async def note(self, incoming: Incoming, inbound: Inbound) -> None:
        """Keep the bookmark of a delivery whose events are durable; it is durable on return."""
        managed = incoming.context.managed
        if managed is None or managed.bookmark is None or not managed.machine:
            return
        name = self.name_in(incoming)
        if name is None:
            return
        kept = await self._bookmarks.keep(
            _machine(inbound.principal, managed),
            managed.bookmark,
            name,
            of_owner=MOST_OF_STRANGER if inbound.principal.limits.quotas else None,
        )
        if not kept:
            _log.warning("windows-source.bookmark-dropped", peer=inbound.principal.address)

    def name_in(self, incoming: Incoming) -> str | None:
        """The name of what is wanted that a message belongs to; None: of nothing that is wanted
        now."""
        identifiers = [one.upper().removeprefix("UUID:") for one in incoming.named.identifiers]
        return next((self._names[one] for one in identifiers if one in self._names), None)

    async def of(self, incoming: Incoming, inbound: Inbound) -> Mapping[str, bytes]:
        """The last bookmarks of the source that asks, by the names of what is wanted."""
        managed = incoming.context.managed
        if managed is None or not managed.machine:
            return {}
        return await self._bookmarks.of(_machine(inbound.principal, managed))


def _machine(principal: Principal, managed: ManagementHeaders) -> Machine:
    return Machine(principal.owner, managed.machine)


class WindowsOperations:
    """Tells sources what is wanted.

    Args:
        wanted: Of every source that asks.
        looks: Counts what strangers ask.
    """

    def __init__(
        self, wanted: Sequence[WantedEvents], looks: PrincipalRate, marks: SourceBookmarks
    ) -> None:
        self._wanted = tuple(wanted)
        self._looks = looks
        self._bookmarks = marks
        self.ended = 0
        """Sources that said that they forward no more."""

    def handlers(self) -> Handlers:
        return {
            AskForSubscriptions: self.tell,
            EndOfExchange: self.end,
            EndOfSubscription: self.end_of_subscription,
        }

    def metrics(self) -> Iterator[Sample]:
        text = "Windows sources that said that they forward no more."
        yield counter("windows_sources_ended", text, self.ended)

    async def tell(
        self, _request: AskForSubscriptions, incoming: Incoming, inbound: Inbound
    ) -> SourceSubscriptions:
        """Tell what is wanted; a source that has it already goes on as before."""
        self._looks.take(inbound.principal)
        marks = await self._bookmarks.of(incoming, inbound) if self._wanted else {}
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
                    marks.get(one.name),
                )
                for one in self._wanted
            )
        )

    async def end_of_subscription(
        self, request: EndOfSubscription, incoming: Incoming, inbound: Inbound
    ) -> None:
        """Note that a source ended a subscription that it was told, of now or of earlier settings:
        it forwards no more until it asks again.

        Raises:
            Refused: ``ACTION_UNSUPPORTED``: nobody was told of a subscription.
        """
        managed, principal = incoming.context.managed, inbound.principal
        if not self._wanted:
            raise Refused(Reason.ACTION_UNSUPPORTED, "The operation is not offered.")
        self._looks.take(principal)
        self.ended += 1
        _log.warning(
            "windows-source.ended",
            peer=principal.address,
            machine=managed.machine if managed is not None else None,
            wanted=self._bookmarks.name_in(incoming) or "what earlier settings wanted",
            status=request.status,
            reason=request.reason or None,
        )

    async def end(
        self, _request: EndOfExchange, _incoming: Incoming, _inbound: Inbound
    ) -> NoContent:
        """Note that the source says nothing more on this connection."""
        return NoContent()
