"""The rooms of channels: channels with names, links between them, relays, the directory."""

from collections.abc import Iterable

from starlette.types import Scope

from filters import Reason, Refused
from gateway.channels.channel_filters import Evaluate
from gateway.channels.channels import Channels
from gateway.channels.directory import Directory, DirectoryOptions
from gateway.channels.links import Link, Links
from gateway.channels.naming import Direction, Naming
from gateway.channels.operations import ChannelOperations
from gateway.channels.relay import Relays, relay_routes
from gateway.channels.relay_tokens import RelayTokens, RelayUnknown
from gateway.delivery import WorkSharing
from gateway.egress import AddressPolicy, Transport
from gateway.exchange import Handlers
from gateway.http import HttpLimits, HttpRefusal, HttpSettings, request_of, transport_facts
from gateway.model.channels import Channel
from gateway.observing.samples import Sample
from gateway.parsing import Parsing
from gateway.publishing.operations import PublishingOperations
from gateway.rooms import Room, Work
from gateway.routes import Routes
from gateway.security.audit import Audit, note_refusal
from gateway.security.authorise import authorise
from gateway.security.identify import Identification
from gateway.security.rights import Right
from gateway.settings.settings import Settings
from gateway.settings.tables import Directory as DirectoryTable
from gateway.settings.tables import LinkRow
from gateway.sources.credentials import credential_of, login_of
from gateway.sources.sources import Sources
from gateway.store import Store
from gateway.subscriptions.operations import SubscriptionOperations
from mediation.grid_events import channel_reference


class ChannelRoom(Room):
    """Channels with names, and links by which they get the events of others.

    Args:
        evaluate: Decides a selection.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        parsing: Parsing,
        sharing: WorkSharing,
        sources: Sources,
        publishing: PublishingOperations,
        subscribing: SubscriptionOperations,
        evaluate: Evaluate,
    ) -> None:
        configured = [
            Channel(row.name, row.selection, configured=True) for row in settings.channels
        ]
        self.channels = Channels(store, parsing, evaluate, configured, shared=sharing.shared)
        directory = settings.directory
        self.links = Links(
            sources,
            self.channels,
            sharing,
            map(_link, settings.links),
            follows=directory is not None and directory.subscribe,
        )
        self._operations = ChannelOperations(self.channels, publishing, subscribing)

    def handlers_here(self) -> Handlers:
        """The handlers of what is sent to the address of a channel, in place of others."""
        return self._operations.handlers()

    def works(self) -> Iterable[Work]:
        return (self.links.run,)

    def metrics(self) -> Iterable[Sample]:
        return self.channels.metrics()

    async def start(self) -> None:
        await self.channels.start()


class RelayRoom(Room):
    """Ways to listeners behind a firewall, by tokens."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        transport: Transport,
        policy: AddressPolicy,
        sharing: WorkSharing,
        limits: HttpLimits,
        identification: Identification,
        http: HttpSettings,
        audit: Audit,
    ) -> None:
        async def authorise_sender(scope: Scope) -> None:
            facts = transport_facts(scope, http)
            sender = identification.of_connection(facts)
            try:
                sender = await identification.identify(facts)
                if sender.tenant:  # Relays are the default tenant's.
                    raise RelayUnknown
                authorise(sender, Right.PUBLISH)
            except Refused as refused:
                note_refusal(audit, sender, "relayed", "", refused)
                if refused.reason is Reason.NOT_IDENTIFIED:
                    offered = identification.challenges(request_of(scope, http))
                    raise HttpRefusal(401, refused.text, challenges=offered) from refused
                raise

        configured = [(one.token.get_secret_value(), one.location) for one in settings.relays]
        self.tokens = RelayTokens(configured, policy, store, shared=sharing.shared)
        self.relays = Relays(
            self.tokens, transport, limits=limits, authorise_sender=authorise_sender
        )

    def public_routes(self) -> Routes:
        return relay_routes(self.relays)

    def metrics(self) -> Iterable[Sample]:
        return self.relays.metrics()

    async def start(self) -> None:
        await self.tokens.start()


class DirectoryRoom(Room):
    """The gateway's entry in a directory, which also tells *links* of the parent.

    Args:
        address: The gateway's own, which is written there unless *directory* has another.
    """

    def __init__(self, directory: DirectoryTable, links: Links, address: str) -> None:
        options = DirectoryOptions(
            directory.url,
            directory.start_tls,
            directory.ca,
            directory.user,
            directory.password.get_secret_value(),
            directory.password_file,
        )
        self.naming = Naming(
            Directory(options),
            directory.name,
            channel_reference(directory.location or address),
            interval=directory.interval.total_seconds(),
            direction=Direction(directory.direction) if directory.subscribe else Direction.DOWN,
            found=links.follow if directory.subscribe else lambda _: None,
        )

    def works(self) -> Iterable[Work]:
        return (self.naming.run,)

    def metrics(self) -> Iterable[Sample]:
        return self.naming.metrics()


def _link(row: LinkRow) -> Link:
    wanted = row.selection
    return Link(
        row.url,
        row.channel,
        row.version,
        wanted.example,
        row.topic,
        wanted.xpath,
        wanted.namespaces,
        row.lease.total_seconds(),
        row.publish_on,
        row.profile,
        row.binding or None,
        credential_of(row),
        login_of("links", row),
    )
