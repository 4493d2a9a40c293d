"""The room of delivery: attempts and their schedule, and the dispatchers of all shares."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from adapters.tenant_admission import TenantAdmission
from gateway.delivery.attempt import Attempts, MayGet
from gateway.delivery.destination_decisions import DestinationDecisions
from gateway.delivery.destinations.probation import ProbationLimits, Probations
from gateway.delivery.dispatcher import Dispatcher
from gateway.delivery.dispatchers import Dispatchers
from gateway.delivery.entry import Entry
from gateway.delivery.outbox import WINDOW
from gateway.delivery.partition_share import PartitionShare
from gateway.delivery.retry_schedule import DELAYS, BlackList, Schedule
from gateway.delivery.scheduler import SendScheduler
from gateway.delivery.send_again import SendAgain
from gateway.delivery.sequence_attempt import SequenceSending
from gateway.delivery.sequences.protocol import SequenceProtocol
from gateway.delivery.work_sharing import WorkSharing
from gateway.egress import ConsumerOptions, TransportByScheme
from gateway.egress.host_list import HostList
from gateway.egress.returning_events import Origins
from gateway.model.host_decisions import HostDecisions
from gateway.observing.samples import Sample
from gateway.observing.system_events import SystemEvents
from gateway.parsing import Parsing
from gateway.rooms import Room, Work
from gateway.security.audit import Audit
from gateway.settings.settings import WITHIN, Settings
from gateway.store import Store, StoreUnavailable
from gateway.store.owner_bytes import OwnerBytes
from gateway.store.tenant_backlogs import TenantBacklogs

if TYPE_CHECKING:
    from gateway.observing.spans import Spans

LOOK = 1.0
"""Seconds from one look at the backlogs of tenants to the next."""


class DeliveryRoom(Room):
    """Sends, and tries again by a schedule.

    Args:
        options: Of consumers: which of them answer at an address of the gateway.
        decisions: What operators have decided about hosts, as far as it is known.
        producer: The gateway's own address, for events without a producer reference.
        trusts: Whether an owner of subscriptions is trusted.
        entries: Returns the subscriptions of which metrics tell.
        spans: Tells the trace of each attempt; None where none is told.
        may_get: Whether a subscriber may get what is on a topic; None: all may.
        audit: Notes who was sent documents' metadata.
        system_events: Told of subscriptions that fail and of dead letters.
        admission: Says when work of a tenant may begin.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        transport: TransportByScheme,
        parsing: Parsing,
        sharing: WorkSharing,
        owner_bytes: OwnerBytes,
        tenant_backlogs: TenantBacklogs,
        *,
        options: ConsumerOptions,
        decisions: HostDecisions,
        producer: str,
        trusts: Callable[[str], bool],
        entries: Callable[[], Collection[Entry]],
        spans: "Spans | None" = None,
        may_get: MayGet | None = None,
        system_events: SystemEvents,
        admission: TenantAdmission,
        audit: Audit,
    ) -> None:
        self._settings = settings
        self._store = store
        self._owner_bytes = owner_bytes
        self._tenant_backlogs = tenant_backlogs
        self._sharing = sharing
        self._entries = entries
        self._schedule = _schedule(settings)
        self.origins = Origins()
        self.probations = Probations(
            vouches=trusts,
            owns=options.owns,
            exempt=HostList(settings.egress_agreed).__contains__,
            approves=decisions.approves,
            limits=ProbationLimits(settings.probation_per_minute, settings.probation_attempts),
            by_address=settings.egress_proxy is None,
        )
        self.sequence_protocol = SequenceProtocol(
            transport,
            parsing,
            calls_back=lambda target: options.of(target).calls_back,
            token_for=lambda target, owner: options.of(target).sequence_token_for(owner),
        )
        self.sequence_sending = SequenceSending(store, self.sequence_protocol)
        attempts = Attempts(
            transport,
            producer=producer,
            parsing=parsing,
            origins=self.origins,
            probations=self.probations,
            sequences=self.sequence_sending,
            spans=spans,
            may_get=may_get,
        )
        scheduler = SendScheduler(
            attempts,
            slots=settings.slots,
            probe=self._schedule.probe,
            probations=self.probations,
            decisions=decisions,
            quotes_answers=not settings.console_mask,
            system_events=system_events,
            admission=admission,
            audit=audit,
        )
        self.dispatchers = Dispatchers(store, scheduler, sharing.elsewhere)
        self.send_again = SendAgain(attempts, self.dispatchers)
        self.decisions = DestinationDecisions(
            store, self.dispatchers, decisions, shared=sharing.shared
        )

    async def start(self) -> None:
        await self.decisions.learn()

    def works(self) -> Iterable[Work]:
        return self.decisions.run, self._bound_tenants

    async def _bound_tenants(self) -> None:
        """Have backlogs give way where what comes elsewhere, or for another user, is too much for
        their tenant, or its quota is lower now; for ever."""
        while True:
            await asyncio.sleep(LOOK)
            if self._sharing.shared:
                with contextlib.suppress(StoreUnavailable):
                    await self._tenant_backlogs.count_elsewhere()
            if owners := self._tenant_backlogs.exceeding():
                self.dispatchers.bound_backlogs(owners)

    def metrics(self) -> Iterable[Sample]:
        yield from self.dispatchers.metrics(self._entries())
        yield from self._tenant_backlogs.metrics()

    def dispatcher_maker(
        self,
        prefetch: int,
        *,
        give_up: Callable[[Entry, str], None],
        never_agreed: Callable[[Entry, bool], None],
    ) -> Callable[[PartitionShare], Dispatcher]:
        """A function that makes the dispatcher of a share of the work.

        Args:
            prefetch: The number of messages that the messaging system hands out at a time.
            give_up: Ends a subscription that cannot be delivered to.
            never_agreed: Ends one whose host has accepted nothing.
        """
        # A broker hands out few at a time, and whom they wait for too long has them in the store.
        # Our own system hands out many, which may repeat after a crash.
        window = WINDOW if self._settings.scheme in WITHIN else max(WINDOW, prefetch)

        def make(share: PartitionShare) -> Dispatcher:
            return Dispatcher(
                self._store,
                self.dispatchers.scheduler,
                prefetch=prefetch,
                window=window,
                give_up=give_up,
                never_agreed=never_agreed,
                schedule=self._schedule,
                end_on_overflow=self._settings.backlog_policy == "end",
                share=share,
                owner_bytes=self._owner_bytes,
                tenant_backlogs=self._tenant_backlogs,
            )

        return make


def _schedule(settings: Settings) -> Schedule:
    black_list = None
    if settings.black_list_after:
        black_list = BlackList(settings.black_list_after, settings.black_list_for)
    return Schedule.of(
        DELAYS if settings.retry_delays is None else settings.retry_delays, black_list
    )
