"""SubscriptionEnd messages to the ``EndTo`` of subscriptions that end early (WS-Eventing 2004/08,
section 4). They are a courtesy: tried a few times, never stored."""

import asyncio

import structlog

from filters import Refused
from gateway.delivery import Probations
from gateway.egress import Request, SendFailed, Transport
from gateway.security.keys import message_urn
from gateway.subscriptions.consumers import Consumers
from mediation import SPECIFICATIONS, End, Subscription, http_headers, write_subscription_end

DELAYS = (0.0, 5.0, 30.0)
"""Seconds before each attempt."""
AT_A_TIME = 256
"""Messages under way; a subscription that ends while there are more is not told."""
_log = structlog.get_logger("dragoman.subscription_ends")


class SubscriptionEnds:
    """Sends SubscriptionEnd messages in the background."""

    def __init__(self, transport: Transport, consumers: Consumers, probations: Probations) -> None:
        self._probations = probations
        self._transport = transport
        self._consumers = consumers
        self._tasks: set[asyncio.Task[None]] = set()

    def notify(self, subscription: Subscription, why: End, reason: str) -> None:
        """Tell the subscriber, where it asked for that and its specification has a message."""
        told = SPECIFICATIONS[subscription.spec.version].ending is not None
        if subscription.end_to is not None and told and len(self._tasks) < AT_A_TIME:
            task = asyncio.get_running_loop().create_task(self._send(subscription, why, reason))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, subscription: Subscription, why: End, reason: str) -> None:
        if subscription.end_to is None:
            return
        action, body = write_subscription_end(
            subscription, why, message_id=message_urn(), reason=reason
        )
        headers = http_headers(subscription.spec.soap, action)
        for delay in DELAYS:
            await asyncio.sleep(delay)
            try:
                target = await self._consumers.check(subscription.end_to, subscription.owner)
                if target is None:
                    return
                now = asyncio.get_running_loop().time()
                if not self._probations.may_tell(target.destination, subscription.owner, now):
                    continue  # Anybody may name any host as EndTo.
                request = Request(
                    target,
                    body,
                    headers,
                    soap=subscription.spec.soap,
                    packaging=subscription.policy.packaging,
                    admit=self._probations.gate_for(
                        target.destination, subscription.owner, asyncio.get_running_loop().time
                    ),
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
