"""Delivery from memory: each subscription has its own queue and its own task, so that one that is
slow, or away, holds up no other."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from uuid import uuid4

from dragoman.source.subscriptions import Subscriber
from gateway.client.calling import Caller
from gateway.client.errors import GatewayError
from mediation.model.messages import End, Notification
from mediation.rendering import SoapRendering, delivery_id, render, write_subscription_end
from mediation.soap.envelopes import http_headers
from mediation.specifications import SPECIFICATIONS

WAITING = 1000
"""Events that may wait for one subscription."""
PAUSES = (0.1, 0.5, 2.0, 5.0)
"""Seconds between the attempts to deliver an event; after the last the subscription ends."""
PARTING = 5.0
_log = logging.getLogger("dragoman.source")


class Delivery:
    """Delivers to one subscription, in order, until it is stopped or fails.

    Args:
        failed: Told when nothing could be delivered, or too much waits.
    """

    def __init__(
        self,
        subscriber: Subscriber,
        caller: Caller,
        producer: str,
        failed: Callable[["Delivery"], None],
    ) -> None:
        self.subscriber = subscriber
        self._caller = caller
        self._producer = producer
        self._failed = failed
        self._events: asyncio.Queue[Notification] = asyncio.Queue(WAITING)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def put(self, notification: Notification) -> None:
        """Have an event delivered after those before it."""
        try:
            self._events.put_nowait(notification)
        except asyncio.QueueFull:
            self._failed(self)

    async def delivered(self) -> None:
        """Return when all that was put is delivered, or nothing is any more."""
        joining = asyncio.ensure_future(self._events.join())
        await asyncio.wait((joining, self._task), return_when=asyncio.FIRST_COMPLETED)
        joining.cancel()

    def stop(self) -> None:
        """Deliver nothing more."""
        self._task.cancel()

    async def end(self, why: End, reason: str) -> None:
        """Stop, and tell who asked to be told of the subscription's end."""
        self.stop()
        subscription = self.subscriber.subscription
        if subscription.end_to is None or SPECIFICATIONS[subscription.spec.version].ending is None:
            return
        action, body = write_subscription_end(
            subscription, why, message_id=f"urn:uuid:{uuid4()}", reason=reason
        )
        headers = dict(http_headers(subscription.spec.soap, action))
        with contextlib.suppress(GatewayError, TimeoutError):
            async with asyncio.timeout(PARTING):
                address = subscription.end_to.address
                await self._caller.call("POST", address, body=body, headers=headers)

    async def _run(self) -> None:
        while True:
            notification = await self._events.get()
            if not await self._is_delivered(notification):
                self._failed(self)
                return
            self._events.task_done()

    async def _is_delivered(self, notification: Notification) -> bool:
        try:
            return await self._deliver(notification)
        except Exception:  # Else events would go on being put where nothing takes them.
            _log.exception("an event could not be delivered")
            return False

    async def _deliver(self, notification: Notification) -> bool:
        subscription, recipient = self.subscriber.subscription, self.subscriber.recipient
        rendering = render(notification, recipient.shape, self._producer)
        body = rendering.fill(recipient, delivery_id(notification, subscription.id))
        headers = (*rendering.http_headers, *recipient.http_headers)
        if not isinstance(rendering, SoapRendering):
            headers += rendering.own_headers
        for pause in (*PAUSES, None):
            with contextlib.suppress(GatewayError):
                address = subscription.consumer.address
                answer = await self._caller.call("POST", address, body=body, headers=dict(headers))
                if 200 <= answer.status < 300:
                    return True
            if pause is not None:
                await asyncio.sleep(pause)
        return False
