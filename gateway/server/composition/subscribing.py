"""The third step: subscriptions, and what matches, delivers and ends them."""

from collections.abc import Mapping

from filters import Filter, Topic
from gateway.discovery.room import DiscoveryRoom
from gateway.replicas.room import SharingRoom
from gateway.security.native_rights import NativeRights
from gateway.server.composition.foundation import Foundation, node_settings
from gateway.server.composition.sending import Sending
from gateway.server.housekeeping import HousekeepingRoom
from gateway.subscriptions.archive_reading import Rules
from gateway.subscriptions.matching import InternalSubscriber
from gateway.subscriptions.room import (
    DeadLetterRoom,
    EndingRoom,
    MatchingRoom,
    ReplayRoom,
    SubscriptionRoom,
)


class Subscribing:
    """The rooms of subscriptions, and what is theirs."""

    def __init__(self, base: Foundation, sending: Sending) -> None:
        peers, store, sharing = base.peers, base.store, base.sharing
        self.subscriptions = SubscriptionRoom(
            base.settings,
            store,
            base.table,
            base.filtering,
            sharing,
            sending.boxes,
            sending.transports.by_scheme,
            sending.transports.schemes,
            sending.delivery,
            base.producer,
            base.storage.owner_bytes,
            base=peers.base,
            address=peers.producer,
            durable=base.capabilities.durable,
            trusts=peers.identification.trusts_owner,
            rights=base.rights,
            audit=base.audit,
            may_read=peers.identification.may_read,
            start_of=lambda *subscribing: self.replays.replays.start_of(*subscribing),
        )
        self.ending = EndingRoom(self.subscriptions)
        self.discovery = self._discovery(base, sending)
        inside: Mapping[Topic, InternalSubscriber] = {}
        if self.discovery is not None:
            node = self.discovery.service
            inside = dict.fromkeys(node.node.topics, node)
        may_receive = may_publish = None
        if peers.identification.required:
            may_receive = peers.identification.may_receive
            may_publish = NativeRights(peers.identification, base.audit).allows
        self.matching = MatchingRoom(
            self.subscriptions,
            base.filtering,
            sending.delivery,
            inside,
            base.rights,
            may_receive,
            base.spans,
            may_publish,
        )
        self.replays = ReplayRoom(
            base.archive.archive if base.archive else None,
            store,
            self.subscriptions,
            sending.delivery,
            base.filtering,
            base.producer,
            sharing,
            Rules(may_receive, may_publish, base.rights),
        )
        self.dead_letters = DeadLetterRoom(
            base.settings,
            store,
            self.subscriptions,
            sending.boxes,
            sharing,
            sending.delivery,
            base.storage.owner_bytes,
            producer=peers.producer,
            publish_again=sending.publishing.operations.set_aside.publish_again,
        )
        self.housekeeping = HousekeepingRoom(
            store, self.dead_letters.letters, sending.delivery.dispatchers, sharing
        )
        endings = self.subscriptions.endings
        self.sharing_room = SharingRoom(
            sharing,
            sending.delivery.dispatchers,
            base.table,
            learn=self.subscriptions.replication.learn,
            make_dispatcher=sending.delivery.dispatcher_maker(
                base.capabilities.prefetch,
                give_up=endings.give_up,
                never_agreed=endings.never_agreed,
            ),
            drain=base.settings.drain,
        )

    def _discovery(self, base: Foundation, sending: Sending) -> DiscoveryRoom | None:
        if base.protection is None:
            return None
        subscribers = self.subscriptions.topic_subscribers(base.protection.topics.id_of)
        return DiscoveryRoom(
            node_settings(base.settings),
            base.store,
            base.protection,
            sending.publishing.spool,
            subscribers,
            shared=base.sharing.shared,
            keeps_house=lambda: base.sharing.keeps_house,
        )

    def filters(self) -> Mapping[str, Filter]:
        """The filters with which the messaging system starts."""
        node = self.discovery.filters if self.discovery else {}
        return {**self.subscriptions.filters(), **node}
