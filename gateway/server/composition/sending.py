"""The second step: mailboxes, transports, delivery; sources, and publishers' requests."""

from gateway.delivery.room import DeliveryRoom
from gateway.egress.soap_tcp_transport import Handler
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.observing.recent_messages import RecentMessages
from gateway.observing.system_events import SystemEvents
from gateway.publishing.operations import PublicationChecks
from gateway.publishing.room import PublishingRoom, topic_reading
from gateway.publishing.spool import Spool
from gateway.server.composition.foundation import Foundation
from gateway.server.transports import TransportRoom
from gateway.sources.room import SourceRoom


class Sending:
    """The rooms on the way to the messaging system, and out of it.

    Args:
        respond: Takes what consumers send on connections that were opened to them.
    """

    def __init__(self, base: Foundation, spool: Spool, respond: Handler) -> None:
        settings, peers, sharing = base.settings, base.peers, base.sharing
        trusts, owner_bytes = peers.identification.trusts_owner, base.storage.owner_bytes
        self.boxes = Mailboxes(
            base.store,
            settings.mailbox_quotas,
            shared=sharing.shared,
            trusts=trusts,
            owner_bytes=owner_bytes,
            holds=base.grant_holds,
            signs=bool(settings.ws_security.sign_answers or settings.ws_security.encrypt_answers),
        )
        self.transports = TransportRoom(
            settings, peers, self.boxes, base.parsing, respond, base.audit
        )
        self.delivery = DeliveryRoom(
            settings,
            base.store,
            self.transports.by_scheme,
            base.parsing,
            sharing,
            owner_bytes,
            base.storage.tenant_backlogs,
            options=self.transports.options,
            decisions=peers.decisions,
            producer=peers.producer,
            trusts=trusts,
            entries=lambda: base.table.entries,
            spans=base.spans,
            may_get=base.may_get,
            system_events=SystemEvents(peers.producer),
            admission=base.admission,
            audit=base.audit,
        )
        self.sources = SourceRoom(
            settings, base.store, peers.policy, sharing, base.producer, base=peers.base
        )
        self.reading_topics = topic_reading(settings)
        rights = base.rights
        most = settings.console_messages
        self.recent = RecentMessages(most) if most else None
        self.publishing = PublishingRoom(
            settings,
            base.store,
            spool,
            base.producer,
            intake=base.storage.intake,
            origins=self.delivery.origins,
            traces=self.delivery.dispatchers.scheduler.traces,
            taps=self.delivery.dispatchers.scheduler.taps,
            recent=self.recent,
            reading=self.reading_topics,
            checks=PublicationChecks(
                registered=self.sources.check,
                note=self.sources.note,
                prove=rights.prove_publisher if rights else None,
                prove_reader=rights.prove_reader if rights else None,
                signed=base.signed_topics.checks.admit if base.signed_topics else None,
            ),
            copies=base.copies.copies if base.copies else None,
            endpoint=peers.producer,
            mailboxes_each=self.boxes.most,
            spans=base.spans,
            audit=base.audit,
        )


async def open_spool(base: Foundation) -> Spool:
    """The spool in front of the messaging system."""
    settings, sharing = base.settings, base.sharing
    spool = Spool(
        base.store,
        base.filtering,
        messages=settings.spool_messages,
        octets=settings.spool_bytes,
        spools=settings.spool,
        shared=sharing.shared,
        drains=lambda: sharing.keeps_house,
    )
    await spool.start()  # An earlier run with a spool may have left some.
    return spool
