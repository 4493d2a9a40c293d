"""The rooms of sources: which there are, and what keeps them."""

import asyncio
from collections.abc import Iterable

from gateway.delivery import WorkSharing
from gateway.delivery.room import DeliveryRoom
from gateway.egress import AddressPolicy, TransportByScheme
from gateway.exchange import Handlers
from gateway.observing.samples import Sample
from gateway.parsing import Parsing
from gateway.publishing.operations import PublishingOperations
from gateway.publishing.room import ProducerRoom
from gateway.rooms import Room, Work
from gateway.security.identify import Identification
from gateway.security.password_cipher import PasswordCipher
from gateway.settings.settings import Settings
from gateway.settings.tables import ConfiguredSource
from gateway.sources.admission import Admission
from gateway.sources.authentication import Authentication
from gateway.sources.configured import ConfiguredSources
from gateway.sources.credentials import ConfiguredCredentials, credential_of, login_of
from gateway.sources.demand import Demand
from gateway.sources.exchanges import Exchanges
from gateway.sources.lease_keeper import LeaseKeeper
from gateway.sources.new_sources import NewSource
from gateway.sources.operations import AtChannel, SourceOperations
from gateway.sources.pulling import Pulling
from gateway.sources.registering import RegistrationOperations
from gateway.sources.registrations import Registrations
from gateway.sources.requester import Requester
from gateway.sources.resources import RegistrationResources
from gateway.sources.sources import Sources
from gateway.sources.windows import SourceBookmarks, WantedEvents, WindowsOperations
from gateway.store import Store
from gateway.subscriptions.room import lease_terms
from gateway.subscriptions.table import SubscriptionTable

KEY_FILE = "source.key"
"""In a data folder: the key of the passwords of sources, where the settings name no other."""


class SourceRoom(Room):
    """The sources, the publishers that registered, and Windows hosts that forward events.

    Args:
        base: The gateway's URL, without a slash at its end.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        policy: AddressPolicy,
        sharing: WorkSharing,
        producer: ProducerRoom,
        *,
        base: str,
    ) -> None:
        cipher = PasswordCipher(settings.source_key or settings.data / KEY_FILE)
        self.sources = Sources(store, policy, cipher=cipher, shared=sharing.shared, base=base)
        self.registrations = Registrations(
            store,
            self.sources,
            policy,
            sharing,
            terms=lease_terms(settings),
            required=settings.requires_registration,
        )
        self.resources = RegistrationResources(self.registrations)
        self._registering = RegistrationOperations(self.registrations, producer.topics.namespaces)
        wanted = [WantedEvents(**row.model_dump()) for row in settings.windows_events]
        bookmarks = SourceBookmarks(store, wanted)
        self._windows = WindowsOperations(wanted, producer.looks, bookmarks)
        self.check = self.registrations.check if settings.requires_registration else None
        """Refuses what nobody registered to publish."""
        self.note = bookmarks.note if wanted else None
        """Keeps how far a Windows host has forwarded."""

    def handlers(self) -> Handlers:
        return {**self._registering.handlers(), **self._windows.handlers()}

    def works(self) -> Iterable[Work]:
        return (self.registrations.run,)

    def metrics(self) -> Iterable[Sample]:
        yield from self.sources.metrics()
        yield from self._windows.metrics()

    async def start(self) -> None:
        await self.sources.start()
        await self.registrations.start()


class KeeperRoom(Room):
    """What keeps the sources: it subscribes, renews and pulls, and takes in what producers send.

    Args:
        table: The subscriptions, whose topics say which publishers on demand are wanted.
        at_channel: Selects what is published at a channel.
        base: The gateway's URL, without a slash at its end.

    Attributes:
        operations: Of what is sent to the addresses of sources.
    """

    def __init__(
        self,
        settings: Settings,
        sources: Sources,
        transport: TransportByScheme,
        policy: AddressPolicy,
        parsing: Parsing,
        sharing: WorkSharing,
        delivery: DeliveryRoom,
        publishing: PublishingOperations,
        table: SubscriptionTable,
        *,
        at_channel: AtChannel,
        identification: Identification,
        base: str,
    ) -> None:
        directory = settings.directory
        self.operations = SourceOperations(
            sources,
            publishing.publish,
            publishing.take_in,
            at_channel,
            identification=identification,
            base=base,
        )
        self._credentials = ConfiguredCredentials(
            settings.sources, settings.links, ca=settings.egress_ca
        )
        self._sources = sources
        requester = Requester(
            transport,
            policy,
            parsing,
            Authentication(sources.cipher.decrypt, self._credentials),
            Admission(delivery.probations, asyncio.get_running_loop().time),
            alone=transport.alone,
        )
        endpoint = directory.location if directory is not None else None
        exchanges = Exchanges(requester, base=base, endpoint=endpoint)
        pulling = Pulling(sources, exchanges, self.operations.take_pulled)
        self._keeper = LeaseKeeper(sources, exchanges, sharing, pulling)
        self.demand = Demand(sources, table, base=base)
        self._configured = ConfiguredSources(sources, sharing, map(_of_settings, settings.sources))

    def works(self) -> Iterable[Work]:
        return self._keeper.run, self.demand.run, self._configured.run, self._watch_credentials

    async def _watch_credentials(self) -> None:
        await self._credentials.watch(self._sources.hurry)


def _of_settings(row: ConfiguredSource) -> NewSource:
    """The source that a row of the settings asks for.

    Raises:
        Refused: Its password cannot be read.
    """
    return NewSource(
        row.url,
        row.version,
        row.topic,
        row.xpath,
        tuple(sorted(row.namespaces.items())),
        None if row.lease is None else row.lease.total_seconds(),
        row.publish_on,
        row.silence,
        row.profile,
        actions=row.actions,
        resource=row.resource,
        mode=row.mode,
        existing=row.existing,
        login=login_of("sources", row),
        credential=credential_of(row),
    )
