"""One attempt to deliver: the message is rendered and sent, and the answer is judged."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import structlog

from filters import Topic
from gateway.delivery.contents import Contents
from gateway.delivery.destinations.probation import Probations
from gateway.delivery.outbox import Outbox, PendingDelivery
from gateway.delivery.sequence_attempt import SequenceSending
from gateway.delivery.verdicts import (
    WITHDRAWN,
    Outcome,
    Verdict,
    failed,
    judge,
    judge_acknowledged,
)
from gateway.egress import (
    Answer,
    Posted,
    Posting,
    Request,
    SendFailed,
    Transport,
)
from gateway.egress.returning_events import Origins
from gateway.mailboxes.transport import SCHEME as MAILBOX_SCHEME
from gateway.model.subscriber_grants import SubscriberGrant
from gateway.parsing import Busy, Parsing
from mediation.cloudevents import Secret, signature
from mediation.model.messages import Subscription
from mediation.rendering import Shape

if TYPE_CHECKING:
    from gateway.observing.spans import Spans

MayGet: TypeAlias = Callable[[Subscription, Topic | None], bool]
"""Whether a subscriber may get what is published on a topic; None is an event without one."""
Ended: TypeAlias = Callable[[PendingDelivery, Outcome], None]
"""Hears how an attempt ended."""

_log = structlog.get_logger("dragoman.delivery")


class Attempts:
    """Makes attempts.

    Args:
        producer: The gateway's own address, for events without a producer reference.
        parsing: Where consumers' answers are parsed.
        origins: Says which event a message is.
        probations: The hosts that have not agreed.
        sequences: Sends deliveries in sequences.
        spans: Tells the trace of each attempt; None where none is told.
        may_get: Says whether a subscriber may get what is on a topic now, whatever it could when
            the event was matched; None: all may.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        producer: str,
        parsing: Parsing | None = None,
        origins: Origins | None = None,
        probations: Probations | None = None,
        sequences: SequenceSending | None = None,
        spans: "Spans | None" = None,
        may_get: MayGet | None = None,
    ) -> None:
        self._may_get = may_get
        self._transport = transport
        self._posting = transport if isinstance(transport, Posting) else None
        self._loop = asyncio.get_running_loop()
        self._parsing = parsing or Parsing()
        self._contents = Contents(producer, origins or Origins())
        self._probations = probations
        self._sequences = sequences
        self._spans = spans
        self._reading: set[asyncio.Task[None]] = set()
        """Answers to what was posted that have a body."""
        self.attachments_dropped = 0
        """Left out of deliveries, for want of a packaging that the consumer reads."""

    @property
    def checks_rights(self) -> bool:
        """True if subscribers may lose rights to what waits for them."""
        return self._may_get is not None

    def is_withdrawn(self, pending: PendingDelivery) -> bool:
        """True if the subscriber of *pending* has no right to its event any more."""
        if self._may_get is None or pending.heartbeat:
            return False
        topic = pending.message.notification.topic
        return not self._may_get(pending.outbox.entry.subscription, topic)

    def _is_any_withdrawn(self, pending: PendingDelivery) -> bool:
        return self._may_get is not None and any(map(self.is_withdrawn, pending.carried))

    def may_follow(self, outbox: Outbox) -> bool:
        """True if an attempt of *outbox* would go the way of those that are in flight, behind
        them: on any other way it might overtake them."""
        if outbox.lane is None or self._posting is None:
            return False
        return self._posting.lane(outbox.entry.target) is outbox.lane

    def post(self, pending: PendingDelivery, ended: Ended) -> Posted | None:
        """Begin an attempt at once, without a task; *ended* hears how it ended, in a later turn of
        the loop. None: that is not possible now, and nothing was sent."""
        outbox = pending.outbox
        if outbox.entry.delivery.reliable:
            return None  # Its number has to be committed first.
        if not self._contents.are_ready(pending) or self._is_any_withdrawn(pending):
            return None
        try:
            lane = self._posting.lane(outbox.entry.target) if self._posting is not None else None
            ordered = lane if lane is not None and lane.in_order else None
            if ordered is not outbox.lane:
                outbox.use_lane(ordered)
            if lane is None:
                return None
            request = self._request(pending)
            return lane.post(request, partial(self._answered, ended, pending, request))
        except Exception:  # It is said when it fails in its task, too.
            return None

    async def send(self, pending: PendingDelivery) -> Outcome:
        """Make an attempt, and return how it ended."""
        outcome = await self._send(pending)
        self._end_span(pending, outcome)
        return outcome

    async def _send(self, pending: PendingDelivery) -> Outcome:
        try:
            if not self._contents.are_ready(pending):
                await self._prepare(pending)
            numbered = pending.outbox.entry.delivery.reliable
            if not numbered and self._is_any_withdrawn(pending):
                return WITHDRAWN
            request = self._request(pending)
            if self._may_get is not None:
                request = replace(request, wanted=lambda: not self._is_any_withdrawn(pending))
            if numbered:
                return await self._send_in_sequence(pending, request)
            answer = await self._transport.send(request)
            outcome = await self._judge(pending, request, answer)
            if answer.dropped and outcome.verdict is Verdict.DELIVERED:
                self._note_dropped(pending, answer.dropped)
        except SendFailed as error:
            return WITHDRAWN if self._is_any_withdrawn(pending) else failed(error)
        except Busy:  # Too much is written just now.
            return Outcome(Verdict.RETRY)
        except Exception:
            return self._error(pending)
        return outcome

    async def _prepare(self, pending: PendingDelivery) -> None:
        """Make in a thread what costs time for each element; once for all that get the same.

        Raises:
            Busy: Too much waits to be made.
        """
        message, entry = pending.message, pending.outbox.entry
        publisher = message.notification.source.partition("#")[0]
        make = partial(self._contents.prepare, pending)
        if pending.batch:
            await self._parsing.run_writer(pending.carried_octets, make, owner=publisher)
            return
        key = (entry.recipient.shape, entry.recipient.minimal)
        making = message.preparing.get(key)
        if making is None:
            work = self._parsing.run_writer(pending.octets, make, owner=publisher)
            making = message.preparing[key] = self._loop.create_task(work)
            making.add_done_callback(partial(_forget, message.preparing, key))
        try:
            await asyncio.shield(making)
        finally:  # Else a failure would hold it, and it the failure.
            del making

    async def _send_in_sequence(self, pending: PendingDelivery, request: Request) -> Outcome:
        if self._sequences is None:
            return Outcome(Verdict.RETRY)
        outcome, dropped = await self._sequences.send(pending, request, withdrawn=self.is_withdrawn)
        if dropped and outcome.verdict is Verdict.DELIVERED:
            self._note_dropped(pending, dropped)
        return outcome

    def _note_dropped(self, pending: PendingDelivery, dropped: int) -> None:
        self.attachments_dropped += dropped
        _log.info(
            "delivery.without-attachments",
            subscription=pending.outbox.entry.id,
            attachments=dropped,
        )

    def _request(self, pending: PendingDelivery) -> Request:
        entry = pending.outbox.entry
        if self._spans is not None and not pending.heartbeat:
            notifications = [one.message.notification for one in pending.carried]
            pending.span = self._spans.attempt(notifications, entry.id, entry.target.host)
        content = self._contents.of(pending)
        own_headers = content.own_headers
        if pending.span is not None:
            own_headers += pending.span.headers
        if entry.subscription.secret:
            secret = Secret(entry.subscription.secret)
            own_headers += signature(secret, content.message_id, int(time.time()), content.body)
        return Request(
            entry.target,
            content.body,
            content.headers,
            soap=content.soap,
            own_headers=own_headers,
            attachments=content.attachments,
            packaging=entry.subscription.policy.packaging,
            message_id=content.message_id,
            origin=content.origin,
            admit=self._gate(pending.outbox),
            owner=entry.subscription.owner,
            grant=self._grant(pending),
            expires=None if pending.message.expires_at == math.inf else pending.message.expires_at,
        )

    def _grant(self, pending: PendingDelivery) -> SubscriberGrant | None:
        """The right by which a subscriber gets what *pending* carries into its mailbox, from which
        it may be fetched much later; None where rights do not matter."""
        entry = pending.outbox.entry
        if self._may_get is None or entry.target.scheme != MAILBOX_SCHEME or pending.heartbeat:
            return None
        topics = {
            None if topic is None else str(topic)
            for topic in (one.message.notification.topic for one in pending.carried)
        }
        rights = entry.subscription.policy.rights
        delegation = rights.delegation if rights is not None else None
        return SubscriberGrant(entry.subscription.owner, tuple(topics), delegation)

    def _gate(self, outbox: Outbox) -> Callable[[str], bool] | None:
        """The question asked before anything is written to an address; None: nothing is asked."""
        destination = outbox.destination
        if destination.probation is None or self._probations is None:
            return None
        return self._probations.gate(destination.name, self._loop.time, destination)

    def _answered(
        self,
        ended: Ended,
        pending: PendingDelivery,
        request: Request,
        answer: Answer | SendFailed,
    ) -> None:
        """Judge the answer to what was posted."""
        if pending.span is not None:
            ended = partial(self._ended, ended)
        if isinstance(answer, SendFailed):
            ended(pending, failed(answer))
        elif answer.body or pending.outbox.entry.delivery.acknowledged:
            task = self._loop.create_task(self._read(ended, pending, request, answer))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)
        else:
            ended(pending, judge(answer, None, now=time.time()))

    def _ended(self, ended: Ended, pending: PendingDelivery, outcome: Outcome) -> None:
        """End the span of an attempt, then tell *ended*."""
        self._end_span(pending, outcome)
        ended(pending, outcome)

    def _end_span(self, pending: PendingDelivery, outcome: Outcome) -> None:
        span, pending.span = pending.span, None
        if span is not None and self._spans is not None:
            delivered = outcome.verdict is Verdict.DELIVERED
            error = None if delivered else outcome.failure_text
            self._spans.attempted(span, outcome.verdict.value, outcome.status, error)

    async def _read(
        self, ended: Ended, pending: PendingDelivery, request: Request, answer: Answer
    ) -> None:
        """Judge an answer with a body, which is parsed elsewhere."""
        try:
            outcome = await self._judge(pending, request, answer)
        except Exception:
            outcome = self._error(pending)
        ended(pending, outcome)

    async def _judge(self, pending: PendingDelivery, request: Request, answer: Answer) -> Outcome:
        owner, document = pending.outbox.entry.subscription.owner, answer.document
        if pending.outbox.entry.delivery.acknowledged:
            reply = await self._parsing.reply_in(document, owner=owner) if answer.body else None
            return judge_acknowledged(answer, reply, request.message_id or "", now=time.time())
        fault = await self._parsing.fault_in(document, owner=owner) if answer.body else None
        return judge(answer, fault, now=time.time())

    @staticmethod
    def _error(pending: PendingDelivery) -> Outcome:
        """An attempt went wrong inside the gateway."""
        _log.exception("delivery.error", subscription=pending.outbox.entry.id)
        return Outcome(Verdict.RETRY)


def _forget(
    preparing: dict[tuple[Shape, bool], asyncio.Task[None]],
    key: tuple[Shape, bool],
    made: asyncio.Task[None],
) -> None:
    del preparing[key]
    if not made.cancelled():
        made.exception()  # Whoever waited may have given up.
