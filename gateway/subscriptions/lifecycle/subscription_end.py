"""The messages that tell of subscriptions which end early: SubscriptionEnd to an ``EndTo``
(WS-Eventing 2004/08, section 4), TerminationNotification to a consumer that subscribed for it
(WS-ResourceLifetime 1.2). They are a courtesy: tried a few times, never stored."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from filters import Refused
from gateway.delivery import Probations
from gateway.egress import Request, SendFailed, Transport
from gateway.security.keys import message_urn
from gateway.subscriptions.consumers import Consumers
from mediation.model.messages import End, EndpointReference, Subscription
from mediation.rendering import write_subscription_end, write_termination
from mediation.soap.envelopes import http_headers
from mediation.specifications import SPECIFICATIONS

DELAYS = (0.0, 5.0, 30.0)
"""Seconds before each attempt."""
AT_A_TIME = 256
"""Messages under way; a subscription that ends while there are more is not told."""
_log = structlog.get_logger("dragoman.subscription_ends")


@dataclass(frozen=True, slots=True)
class _Message:
    """A message that tells of an end, and whom."""

    to: EndpointReference
    headers: tuple[tuple[str, str], ...]
    body: bytes
    id: str


class SubscriptionEnds:
    """Sends SubscriptionEnd messages and termination notifications in the background.

    Args:
        producer: The gateway's own address.
    """

    def __init__(
        self, transport: Transport, consumers: Consumers, probations: Probations, *, producer: str
    ) -> None:
        self._probations = probations
        self._transport = transport
        self._consumers = consumers
        self._producer = producer
        self._tasks: set[asyncio.Task[None]] = set()

    def notify(self, subscription: Subscription, why: End, reason: str) -> None:
        """Tell the subscriber at its ``EndTo``, or the consumer that subscribed for the end, where
        the specification has a message for that."""
        if len(self._tasks) >= AT_A_TIME:
            return
        message = self._write(subscription, why, reason)
        if message is not None:
            task = asyncio.get_running_loop().create_task(self._send(subscription, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _write(self, subscription: Subscription, why: End, reason: str) -> _Message | None:
        id_ = message_urn()
        if subscription.end_to is not None and _has_ending(subscription):
            action, body = write_subscription_end(subscription, why, message_id=id_, reason=reason)
            headers = http_headers(subscription.spec.soap, action)
            return _Message(subscription.end_to, headers, body, id_)
        written = write_termination(
            subscription, reason, producer=self._producer, message_id=id_, now=datetime.now(UTC)
        )
        return None if written is None else _Message(subscription.consumer, *written, id_)

    async def _send(self, subscription: Subscription, message: _Message) -> None:
        for delay in DELAYS:
            await asyncio.sleep(delay)
            try:
                target = await self._consumers.check(message.to, subscription.owner)
                if target is None:
                    return
                now = asyncio.get_running_loop().time()
                if not self._probations.may_notify(target.destination, subscription.owner, now):
                    continue  # Anybody may name any host as EndTo.
                request = Request(
                    target,
                    message.body,
                    message.headers,
                    soap=subscription.spec.soap,
                    packaging=subscription.policy.packaging,
                    message_id=message.id,
                    admit=self._probations.gate_for(
                        target.destination, subscription.owner, asyncio.get_running_loop().time
                    ),
                    owner=subscription.owner,
                )
                answer = await self._transport.send(request)
            except Refused:
                return
            except SendFailed:
                continue
            if answer.status < 500:
                return
        _log.info("subscription-end.unheard", subscription=subscription.id)

    async def close(self, seconds: float) -> None:
        """Give messages under way *seconds*, then give them up."""
        if self._tasks:
            _, pending = await asyncio.wait(list(self._tasks), timeout=seconds)
            for task in pending:
                task.cancel()


def _has_ending(subscription: Subscription) -> bool:
    return SPECIFICATIONS[subscription.spec.version].ending is not None
