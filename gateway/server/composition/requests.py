"""The fourth step: the rooms that carry out requests beside publishing and subscribing: mailboxes,
channels, relays, sources, WS-Resources, sequences."""

from typing import TYPE_CHECKING

from gateway.channels.room import ChannelRoom, DirectoryRoom, RelayRoom
from gateway.mailboxes.room import MailboxRoom
from gateway.resources.room import ResourceRoom
from gateway.sequences.room import SequenceRoom
from gateway.server.composition.foundation import Foundation
from gateway.server.composition.sending import Sending
from gateway.server.composition.subscribing import Subscribing
from gateway.soap.replies import Replies
from gateway.sources.room import KeeperRoom

if TYPE_CHECKING:
    from gateway.soap.receipts import Receipts


class Requests:
    """The rooms of mailboxes, channels, sources and sequences."""

    def __init__(self, base: Foundation, sending: Sending, subscribing: Subscribing) -> None:
        settings, store, sharing = base.settings, base.store, base.sharing
        transport, policy = sending.transports.by_scheme, base.peers.policy
        publishing, sources = sending.publishing.operations, sending.sources.sources
        probations = sending.delivery.probations
        self.mailboxes = MailboxRoom(
            store,
            sending.boxes,
            subscribing.subscriptions.feeds,
            base.parsing,
            base.storage.intake,
            keeps_house=lambda: sharing.keeps_house,
            limits=settings.documents,
        )
        self.channels = ChannelRoom(
            settings,
            store,
            base.parsing,
            sharing,
            sources,
            publishing,
            subscribing.subscriptions.operations,
            base.filtering.evaluate_for,
        )
        self.relays = RelayRoom(
            settings,
            store,
            transport,
            policy,
            sharing,
            base.limits,
            base.peers.identification,
            base.asking.http,
            base.audit,
        )
        self.directory = None
        if settings.directory is not None:
            links, address = self.channels.links, base.peers.producer
            self.directory = DirectoryRoom(settings.directory, links, address)
        self.keeper = KeeperRoom(
            settings,
            sources,
            transport,
            policy,
            base.parsing,
            sharing,
            sending.delivery,
            publishing,
            base.table,
            at_channel=self.channels.channels.selecting,
            identification=base.peers.identification,
            base=base.peers.base,
        )
        self.resources = ResourceRoom(
            sending.sources.resources,
            self.mailboxes.resources,
            subscribing.subscriptions.resources,
            producer=base.producer.producer.seen_by,
            looks=base.producer.looks,
            parsing=base.parsing,
        )
        self.replies = Replies(transport, policy, probations)
        self.receipts = _receipts(base)
        self.sequences = None
        if settings.takes_sequences:
            self.sequences = SequenceRoom(
                settings,
                store,
                publishing,
                base.storage.owner_bytes,
                may_name=self.replies.may_name,
                send=self.replies.send_again,
                sign=self.receipts.sign_acknowledgement if self.receipts is not None else None,
                shared=sharing.shared,
            )


def _receipts(base: Foundation) -> "Receipts | None":
    """What signs receipts; None where the gateway has no key for that.

    Raises:
        WsSecurityFileUnusable: The file of the key cannot be used.
    """
    path = base.settings.ws_security.signing_key
    if path is None:
        return None
    from gateway.security.ws_security_files import WsSecurityFile
    from gateway.soap.receipts import Receipts
    from mediation.ws_security import read_key_and_certificate

    signer = WsSecurityFile("signing_key", path, read_key_and_certificate)
    return Receipts(signer, base.parsing, base.audit)
