"""Sequences of subscribers: the consumer is asked for one before a subscription is made, and when
the subscription ends, the sequence is ended at the consumer."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from filters import Reason, Refused
from gateway.delivery import (
    Probations,
    SequenceProtocol,
    handshake,
    is_one_way,
)
from gateway.delivery.outbox import Outbox
from gateway.delivery.sequences import endings, message_numbers
from gateway.delivery.verdicts import Outcome, Verdict
from gateway.egress import Request, SendFailed, Target, Transport
from gateway.observing.samples import Sample, counters, gauge
from gateway.reliability.records import Wire
from gateway.reliability.storage import StorageManager, Taken
from gateway.reliability.stores.joined_store import run_joined
from gateway.reliability.values import Outgoing
from gateway.security.keys import message_urn
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate, QuotaExceeded
from gateway.store import Store, StoreUnavailable
from gateway.subscriptions.consumers import Consumers
from gateway.subscriptions.sequences.listing import SubscriberSequence, count, find, page
from mediation.model.messages import Subscription
from mediation.reliable_messaging import CreateSequenceResponse, Rm

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds that a consumer has to answer CreateSequence when it is asked at Subscribe."""
ASKED, ASKED_AT_ONCE = 1.0, 10.0
"""Consumers that one stranger may have asked: a second, and at once."""
DUE = 64
"""Sequences that a round of work looks at."""
AT_A_TIME = 16
SHORTEST, LONGEST, LONGEST_SHARED = 0.05, 60.0, 5.0
"""Seconds from one round to the next."""
_log = structlog.get_logger("dragoman.sequences")


@dataclass(frozen=True, slots=True)
class Agreed:
    """A sequence that a consumer has made for a subscription which is not in the store yet."""

    subscription: Subscription
    create_id: str
    response: CreateSequenceResponse
    base: str | None
    """The gateway's address, where the consumer acknowledges at one."""

    def keep(self, connection: Connection) -> None:
        """Keep it, in the operation that inserts the subscription.

        Raises:
            Refused: The consumer gave the identifier of another sequence.
        """
        keep = partial(
            message_numbers.record_created,
            subscription=self.subscription,
            create_id=self.create_id,
            response=self.response,
            now=time.time(),
            base=self.base,
        )
        try:
            run_joined(connection, keep)
        except Taken:
            raise _refused(
                self.subscription, "The consumer gave the identifier of another sequence."
            ) from None


class SubscriberSequences:
    """Asks consumers for sequences, and ends them.

    Args:
        messages: Counts of messages in sequences, by what became of them.
        durable: The messaging system keeps what it has: without that a number that was given, and
            whose delivery a crash took, would be a gap for ever.
        keeps_house: Whether this gateway ends sequences, of several that share a store.
        shared: There are others, which do not tell it of those that are to end.
    """

    def __init__(
        self,
        store: Store,
        protocol: SequenceProtocol,
        messages: Mapping[str, int],
        transport: Transport,
        consumers: Consumers,
        probations: Probations,
        *,
        durable: bool,
        keeps_house: Callable[[], bool],
        shared: bool,
    ) -> None:
        self._store = store
        self._protocol = protocol
        self._messages = messages
        self._transport = transport
        self._consumers = consumers
        self._probations = probations
        self._durable = durable
        self._keeps_house = keeps_house
        self._longest = LONGEST_SHARED if shared else LONGEST
        self._rate = PrincipalRate(ASKED, ASKED_AT_ONCE, "Too many subscriptions.")
        self._woken = asyncio.Event()
        self._open = 0
        """How many sequences had not ended when this gateway looked last."""

    # The beginning.

    async def ask(
        self, subscription: Subscription, target: Target | None, principal: Principal
    ) -> Agreed | None:
        """Ask the consumer of a subscription for a sequence; None where none is wanted.

        Raises:
            Refused: ``POLICY_UNSUPPORTED``: none can be had. ``CONSUMER_ADDRESS``: the consumer
                does not answer. ``RATE``.
        """
        if not subscription.policy.delivery.reliable:
            return None
        self._rate.take(principal)
        wire, target = self._check_offered(subscription, target)
        like = self._handshake(target, principal.owner)
        create_id, base = message_urn(), self._protocol.base(subscription, target)
        acks_to = message_numbers.acknowledgement_address(wire, create_id, base)
        try:
            async with asyncio.timeout(PATIENCE):
                response = await self._protocol.create(
                    wire, subscription.consumer, create_id, like, acks_to
                )
        except TimeoutError:
            raise Refused(
                Reason.CONSUMER_ADDRESS, "The consumer did not answer CreateSequence in time."
            ) from None
        if isinstance(response, CreateSequenceResponse):
            return Agreed(subscription, create_id, response, base)
        raise _unanswered(subscription, response)

    def _check_offered(
        self, subscription: Subscription, target: Target | None
    ) -> tuple[Wire, Target]:
        """The versions of a subscription's sequence, and its consumer's target.

        Raises:
            Refused: ``POLICY_UNSUPPORTED``: no sequence is offered for them.
        """
        if not self._durable:
            text = "Sequences are not offered: the messaging system keeps nothing over a restart."
            raise _refused(subscription, text)
        if target is None or not (is_one_way(target) or target.scheme in ("http", "https")):
            raise _refused(subscription, "Sequences are sent over HTTP(S) and SOAP.TCP alone.")
        try:
            return message_numbers.wire_of(subscription), target
        except ValueError:
            text = "Sequences are sent with WS-Addressing 2004/08 and 2005/08 alone."
            raise _refused(subscription, text) from None

    def _handshake(self, target: Target, owner: str) -> Request:
        """A request that says how *target* may be asked, for *owner*.

        Raises:
            QuotaExceeded: ``RATE``: its host is on probation, and was asked often enough.
        """
        clock = asyncio.get_running_loop().time
        if not self._probations.may_notify(target.destination, owner, clock()):
            raise QuotaExceeded(
                Reason.RATE, "The consumer's host was asked often enough.", retry_after=60.0
            )
        return handshake(target, owner, self._probations.gate_for(target.destination, owner, clock))

    # What operators ask for.

    async def listed(self, after: str = "", limit: int = 100) -> list[SubscriberSequence]:
        """Sequences in the order of their ids, from behind *after*, at most *limit*."""
        return await self._store.submit(lambda connection: page(connection, after, limit))

    async def by_id(self, id: str) -> SubscriberSequence | None:
        """The sequence with this id."""
        return await self._store.submit(lambda connection: find(connection, id))

    def metrics(self) -> Iterator[Sample]:
        """Sequences, and what became of deliveries in them."""
        yield gauge(
            "subscriber_sequences",
            "Sequences to subscribers that have not ended, as of a while ago.",
            self._open,
        )
        yield counters(
            "sequence_deliveries",
            "Deliveries in sequences, by outcome of the attempt.",
            "outcome",
            self._messages,
        )

    # The end.

    @staticmethod
    def ending_sequences(
        subscription: Subscription, outboxes: Iterable[Outbox]
    ) -> Callable[[Connection], None]:
        """Ends the sequences of a subscription, in the operation that deletes it; see `wake`.
        That has to be submitted at once: what its *outboxes* were given ahead is taken back."""
        if not subscription.policy.delivery.reliable:
            return lambda _: None
        unsaved = {
            outbox.unsaved_numbers.key: known
            for outbox in outboxes
            if outbox.unsaved_numbers is not None
            and (known := outbox.unsaved_numbers.stop()) is not None
        }

        def let_go(connection: Connection) -> None:
            now = time.time()

            def work(storage: StorageManager) -> None:
                endings.end_sequences(storage, connection, subscription.id, now, unsaved)

            run_joined(connection, work)

        return let_go

    def wake(self) -> None:
        """Look what is due: a sequence was made, or is to end."""
        self._woken.set()

    async def run(self) -> None:
        """End sequences at their consumers, and forget them later, for ever."""
        while True:
            self._woken.clear()
            due_at: float | None = None
            if self._keeps_house():
                try:
                    due_at = await self._look()
                except StoreUnavailable:
                    due_at = time.time() + 1.0
            pause = self._longest if due_at is None else due_at - time.time()
            try:
                async with asyncio.timeout(min(max(pause, SHORTEST), self._longest)):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def _look(self) -> float | None:
        """Do what is due; when there is more to do."""
        now = time.time()

        def due(storage: StorageManager) -> list[str]:
            with storage.look() as look:
                return look.outgoing_due(now, DUE)

        keys = await self._store.submit(lambda connection: run_joined(connection, due))
        places = asyncio.Semaphore(AT_A_TIME)
        await asyncio.gather(*(self._end(key, now, places) for key in keys))
        self._open = await self._store.submit(count)
        return await self._store.submit(endings.next_due)

    async def _end(self, key: str, now: float, places: asyncio.Semaphore) -> None:
        async with places:
            try:
                due = partial(endings.end_due, key=key, now=now)
                sent, owner = await self._run(key, due)
                for outgoing in sent:
                    await self._send(key, outgoing, owner)
            except StoreUnavailable:
                raise
            except Exception:
                _log.exception("sequence.internal-error", subscription=_subscription(key))
                await self._store.submit(
                    lambda connection: endings.postpone(connection, key, now + LONGEST)
                )

    async def _send(self, key: str, outgoing: Outgoing, owner: str) -> None:
        """Send a message of the end of a sequence, and take what comes back."""
        clock = asyncio.get_running_loop().time
        try:
            target = await self._consumers.check(outgoing.to, owner)
            if target is None or not self._probations.may_notify(
                target.destination, owner, clock()
            ):
                return
            request = Request(
                target,
                outgoing.envelope,
                outgoing.http_headers,
                soap=outgoing.wire.soap,
                admit=self._probations.gate_for(target.destination, owner, clock),
                owner=owner,
            )
            answer = await self._transport.send(request)
        except (Refused, SendFailed):
            return  # It is sent again when it is time.
        said = await self._protocol.read(answer.document)
        if said is None and not 200 <= answer.status < 300:
            return
        now = time.time()
        await self._run(key, lambda storage: endings.take_answer(storage, outgoing, said, now))

    async def _run(self, key: str, work: Callable[[StorageManager], T]) -> T:
        locks = (f"sequence {key}",)
        return await self._store.submit(
            lambda connection: run_joined(connection, work), locks=locks
        )


def _unanswered(subscription: Subscription, outcome: Outcome) -> Refused:
    """The refusal of a subscription whose consumer made no sequence."""
    if outcome.verdict is Verdict.BROKEN:
        return _refused(subscription, f"{outcome.why.rstrip('.')}.")
    text = f"The consumer could not be asked for a sequence: {outcome.failure_text}."
    return Refused(Reason.CONSUMER_ADDRESS, text)


def _refused(subscription: Subscription, text: str) -> Refused:
    rm = Rm.of(subscription.policy.delivery.reliable)
    assertion = f"{{{rm.rules.policy}}}RMAssertion"
    return Refused(Reason.POLICY_UNSUPPORTED, text, names=(assertion,))


def _subscription(key: str) -> str:
    return message_numbers.subscription_of(key) or key
