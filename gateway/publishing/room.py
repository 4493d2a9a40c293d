"""The rooms of publishing: the gateway as a producer, its publishers, archive and copies."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from filters import Topic
from gateway.egress.returning_events import Origins
from gateway.exchange import Handlers
from gateway.observing.recent_messages import RecentMessages
from gateway.observing.samples import Sample
from gateway.observing.taps import Taps
from gateway.observing.traces import MessageTraces
from gateway.parsing import Parsing
from gateway.publishing.archive import Archive
from gateway.publishing.event_copies import Copies
from gateway.publishing.metadata import MetadataOperations
from gateway.publishing.operations import PublicationChecks, PublishingOperations, look_rate
from gateway.publishing.producer_documents import ProducerDocuments
from gateway.publishing.resources import Producer
from gateway.publishing.set_aside import Prefix, TopicReading
from gateway.publishing.spool import Spool
from gateway.publishing.synchronization import Evaluate, Synchronizing
from gateway.publishing.topic_files import read_namespaces
from gateway.publishing.topics import TopicsSeen
from gateway.rooms import Room, Work
from gateway.security.audit import NO_AUDIT, Audit
from gateway.security.intake import Intake
from gateway.security.networks import networks
from gateway.settings.settings import Settings
from gateway.store import Store
from mediation.model.requests import Sequences

if TYPE_CHECKING:
    from gateway.observing.spans import Spans

ARCHIVE_CLOSE = 5.0
"""Seconds that the archive gets when the gateway stops."""


class ProducerRoom(Room):
    """The gateway as a producer: its topics, and the documents about them.

    Args:
        sequences: Whether ``/soap`` takes events in sequences.
        hides: Whether a topic is shown to nobody.

    Attributes:
        looks: Counts requests that look at what there is.
    """

    def __init__(
        self,
        settings: Settings,
        parsing: Parsing,
        *,
        sequences: Sequences,
        hides: Callable[[Topic], bool],
    ) -> None:
        namespaces = read_namespaces(settings.topic_namespaces, fixed=settings.fixed_topic_set)
        self.topics = TopicsSeen(namespaces, hides=hides)
        self.looks = look_rate()
        self.producer = Producer(
            self.topics, parsing, requires_registration=settings.requires_registration
        )
        self.documents = ProducerDocuments(self.producer, self.topics)
        self._metadata = MetadataOperations(
            self.topics,
            looks=self.looks,
            parsing=parsing,
            longest_lease=settings.longest_lease,
            sequences=sequences,
            bound=settings.bound_sequences,
        )

    def synchronizing(self, evaluate: Evaluate) -> Synchronizing:
        """Finds current messages, with filters that *evaluate* decides."""
        return Synchronizing(evaluate, self.documents.of)

    def handlers(self) -> Handlers:
        return self._metadata.handlers()


class ArchiveRoom(Room):
    """The archive of all events."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive

    def metrics(self) -> Iterable[Sample]:
        return self.archive.metrics()

    async def start(self) -> None:
        self.archive.start()

    async def close(self) -> None:
        await self.archive.close(ARCHIVE_CLOSE)


class CopiesRoom(Room):
    """Copies of events in RabbitMQ, beside the messaging system."""

    def __init__(self, copies: Copies) -> None:
        self.copies = copies

    def metrics(self) -> Iterable[Sample]:
        return self.copies.metrics()

    async def start(self) -> None:
        self.copies.start()

    async def close(self) -> None:
        await self.copies.close()


class PublishingRoom(Room):
    """Publishers' requests, and the spool on the way to the messaging system.

    Args:
        reading: How topics of publishers are read.
        checks: What other rooms check of a publication.
        endpoint: The gateway's own address.
        mailboxes_each: The number of mailboxes that a stranger may have.
        spans: Tells the trace of each notification; None where none is told.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        spool: Spool,
        producer: ProducerRoom,
        *,
        intake: Intake,
        origins: Origins,
        traces: MessageTraces,
        taps: Taps,
        recent: RecentMessages | None,
        reading: TopicReading,
        checks: PublicationChecks,
        copies: Copies | None,
        endpoint: str,
        mailboxes_each: int,
        spans: "Spans | None" = None,
        audit: Audit = NO_AUDIT,
    ) -> None:
        self.spool = spool
        self.operations = PublishingOperations(
            spool,
            producer.topics,
            intake=intake,
            origins=origins,
            store=store,
            reading=reading,
            looks=producer.looks,
            mailboxes_each=mailboxes_each,
            longest_lease=settings.longest_lease,
            endpoint=endpoint,
            traces=traces,
            taps=taps,
            recent=recent,
            copies=copies,
            checks=checks,
            spans=spans,
            audit=audit,
        )

    def handlers(self) -> Handlers:
        return self.operations.handlers()

    def works(self) -> Iterable[Work]:
        return (self.spool.run,)

    def metrics(self) -> Iterable[Sample]:
        yield from self.operations.metrics()
        yield from self.spool.metrics()


def topic_reading(settings: Settings) -> TopicReading:
    """How topics of publishers are read."""
    rows = [
        Prefix(row.prefix, row.namespace, None if row.peer is None else networks([row.peer]))
        for row in settings.prefixes
    ]
    return TopicReading(rows, set_aside=settings.unknown_topics == "set-aside")
