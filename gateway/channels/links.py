"""Links: channels of ours that are subscribed at channels, and other producers, of others.

    of the settings     they are there while the settings have them
    of operators        they are there until they are removed
    of the directory    to the channel's parent or its children there, while they are where they are

A link is a source (`gateway.sources`). Its lease is renewed as that of every source:
`gateway.sources.held_leases` says when, `gateway.sources.lease_keeper` sees that it is due, and
`gateway.sources.exchanges.Exchanges.renew` asks for it.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from filters import Reason, Refused
from gateway.channels.channels import Channels
from gateway.delivery import WorkSharing
from gateway.egress import AddressRefused
from gateway.model.sources import Credential, Login, Source, Wanted
from gateway.security.identify import OPERATOR
from gateway.security.resource_addresses import shown
from gateway.sources.new_sources import NewSource
from gateway.sources.sources import Entry, Sources, SourceUnknown
from gateway.store import StoreUnavailable
from mediation.client import LEASED
from mediation.grid_events import CHANNEL, Port, port_of, port_reference
from mediation.model.messages import EndpointReference
from mediation.model.versions import Version

ROUND = 5.0
"""Seconds after which it is looked again whether all links are there that are to be."""
LEASE = timedelta(minutes=10)
SETTINGS, DIRECTORY = "settings", "directory"
"""Where links come from, beside operators."""
_log = structlog.get_logger("dragoman.channels")


@dataclass(frozen=True, slots=True)
class Link:
    """A link as it is asked for.

    Attributes:
        url: The address of the channel, or of another producer.
        channel: The name of ours; empty: the one that has none.
        example: What is wanted, in Grid SOAP Events; other versions take a topic or XPath.
        binding: The name of the channel's service, in Grid SOAP Events.
        credential: What the other side is shown, of the settings.
        login: The same of an operator; a link is no other one by it.
    """

    url: str
    channel: str = ""
    version: Version = Version.GRID_EVENTS
    example: tuple[tuple[str, str], ...] = ()
    topic: str | None = None
    xpath: str | None = None
    namespaces: tuple[tuple[str, str], ...] = ()
    lease: float = LEASE.total_seconds()
    publish_on: str | None = None
    profile: str = "standard"
    binding: str | None = CHANNEL
    credential: Credential | None = None
    login: Login | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Have it equal to `link_of` the source that it becomes."""
        binding = (self.binding or "").strip() or None
        object.__setattr__(self, "binding", binding if self.version in LEASED else CHANNEL)

    def as_source(self, made_by: str) -> NewSource:
        """The source that it is."""
        called = self.version in LEASED
        return NewSource(
            self.url,
            self.version,
            self.topic,
            self.xpath,
            self.namespaces,
            self.lease,
            self.publish_on,
            0.0 if called else 300.0,
            self.profile,
            reference=port_reference(Port(self.url, self.binding)) if called else None,
            channel=self.channel,
            example=self.example,
            made_by=made_by,
            login=self.login,
            credential=self.credential,
        )


def link_of(source: Source) -> Link:
    """The link that *source* is."""
    binding = CHANNEL
    if source.reference is not None:
        binding = port_of(source.reference).binding or ""
    credential = source.credential
    return Link(
        source.url,
        source.channel or "",
        source.spec.version,
        source.example,
        source.topic,
        source.xpath,
        source.namespaces,
        source.lease,
        source.publish_on,
        source.profile,
        binding or None,
        credential.keeping("") if credential is not None and credential.configured else None,
    )


class Links:
    """Makes and removes links.

    Args:
        configured: Those of the settings.
        follows: Whether there are some of the directory; `follow` tells which.
    """

    def __init__(
        self,
        sources: Sources,
        channels: Channels,
        sharing: WorkSharing,
        configured: Iterable[Link] = (),
        *,
        follows: bool = False,
    ) -> None:
        self._sources, self._channels, self._sharing = sources, channels, sharing
        self._configured = tuple(configured)
        self._known = not follows
        self._followed: frozenset[Link] = frozenset()
        self._changed = asyncio.Event()
        self._told: set[Link] = set()

    @property
    def links(self) -> list[Entry]:
        """All links, in the order of their ids."""
        found = [one for one in self._sources.entries if one.source.channel is not None]
        return sorted(found, key=lambda entry: entry.id)

    def by_id(self, id_: str) -> Entry | None:
        """The link with this id."""
        entry = self._sources.by_id(id_)
        return entry if entry is not None and entry.source.channel is not None else None

    async def link(self, link: Link) -> Entry:
        """Make a link, for an operator; it is in the store on return.

        Raises:
            Refused: There is no such channel, or such a link already; the address may not be sent
                to; the filter cannot be said.
            QuotaExceeded: There are too many.
        """
        if any(link_of(one.source) == link for one in self._wanted()):
            raise Refused(Reason.NOT_ALLOWED, "There is such a link already.")
        return await self._add(link, "")

    async def unlink(self, entry: Entry) -> None:
        """Have a link removed; its producer is told.

        Raises:
            Refused: It is not an operator's.
        """
        if entry.source.made_by == SETTINGS:
            raise Refused(Reason.NOT_ALLOWED, "The link is one of the settings: remove it there.")
        if entry.source.made_by == DIRECTORY:
            text = "The link is one of the directory: unset subscribe in [directory]."
            raise Refused(Reason.NOT_ALLOWED, text)
        await self._sources.want(entry.id, Wanted.REMOVED)

    async def leave(self, channel: str) -> None:
        """Have the links of a channel removed, which is not there any more."""
        for entry in self._wanted():
            if entry.source.channel == channel:
                with contextlib.suppress(SourceUnknown):
                    await self._sources.want(entry.id, Wanted.REMOVED)

    def follow(self, channels: Iterable[EndpointReference]) -> None:
        """Have the channel without a name linked to *channels* from now on, and to no others of
        the directory."""
        ports = [port_of(one) for one in channels]
        followed = frozenset(Link(port.location, binding=port.binding) for port in ports)
        if followed != self._followed or not self._known:
            self._followed, self._known = followed, True
            self._changed.set()

    async def run(self) -> None:
        """Have the links of the settings and of the directory there, and no others of theirs."""
        while True:
            self._changed.clear()
            try:
                await self._channels.learn()  # For who asks for the description of one.
                if self._sharing.keeps_house:
                    await self._settle()
            except StoreUnavailable:
                pass  # It is done the next time.
            except Exception:
                _log.exception("links.error")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ROUND):
                    await self._changed.wait()

    async def _settle(self) -> None:
        """Make what is missing, and remove what is too many.

        Raises:
            StoreUnavailable
        """
        wanted = {(SETTINGS, link) for link in self._configured}
        wanted |= {(DIRECTORY, link) for link in self._followed}
        for entry in self._wanted():
            made_by = entry.source.made_by
            if not made_by or (made_by == DIRECTORY and not self._known):
                continue
            there = made_by, link_of(entry.source)
            if there in wanted:
                wanted.discard(there)
            else:
                with contextlib.suppress(SourceUnknown):
                    await self._sources.want(entry.id, Wanted.REMOVED)
        for made_by, link in wanted:
            try:
                await self._add(link, made_by)
            except StoreUnavailable:
                raise
            except Refused as refused:
                if link not in self._told:
                    self._told.add(link)
                    _log.warning("link.refused", producer=shown(link.url), why=refused.text)

    async def _add(self, link: Link, made_by: str) -> Entry:
        if link.channel:
            await self._channels.named(link.channel)
        try:
            return await self._sources.add(link.as_source(made_by), OPERATOR)
        except AddressRefused as refused:
            advice = f"; {refused.allowed_by} can allow it" if refused.allowed_by else ""
            why = advice or f": {refused.text.rstrip('.')}"
            text = f"Nothing may be sent to {shown(link.url)}{why}."
            raise Refused(refused.reason, text) from refused

    def _wanted(self) -> Iterator[Entry]:
        for entry in self.links:  # A list of its own: they change meanwhile.
            if entry.row.wanted is not Wanted.REMOVED:
                yield entry
