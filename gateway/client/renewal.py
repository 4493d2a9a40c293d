"""A subscription that lives as long as the program that made it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypedDict, Unpack

from gateway.client.errors import GatewayError
from gateway.client.events import AnyClient, EventClient
from gateway.client.grid_events import GridClient
from gateway.client.messaging import LEASE, Authorize, Selector, Subscription
from mediation.model.delivery_modes import DeliveryAssurance

RENEW_EVERY = 60.0
RETRY_EVERY = 5.0
PARTING_TIME = 5.0
"""Seconds that an Unsubscribe may take when its program ends."""


class SubscribeOptions(TypedDict, total=False):
    """What a subscriber wants, in the arguments of `Client.subscribe`."""

    topic: str | None
    xpath: str | None
    namespaces: Mapping[str, str] | None
    selector: Selector | None
    reliable: bool
    assurance: DeliveryAssurance | None
    since: str | None
    order_key: str | None


class RenewedSubscription:
    """A subscription that is renewed until its program ends it.

    Args:
        every: Seconds between renewals; sooner, where the lease is shorter than twice that.
        troubled: Told when a renewal failed and is tried again: once, until one succeeds.
    """

    def __init__(
        self,
        client: AnyClient,
        subscription: Subscription,
        *,
        lease: timedelta = LEASE,
        every: float = RENEW_EVERY,
        troubled: Callable[[GatewayError], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._lease = lease
        self._every = every
        self._troubled = troubled
        self.subscription = subscription
        self.is_over = False
        """Whether the subscription has ended: the gateway says so, or confirmed it."""
        self.failure = ""
        """Why it could not be ended."""

    async def renew_for_ever(self) -> None:
        """Renew in time, again and again.

        Raises:
            GatewayError: The gateway refuses, or was away until the lease was over.
        """
        failed = False
        while True:
            await asyncio.sleep(self._wait(failed))
            try:
                self.subscription = await self._client.renew(self.subscription, self._lease)
                failed = False
            except GatewayError as error:
                if error.is_final or self._left() <= 0:
                    raise GatewayError(f"the subscription is lost: {error}") from error
                if not failed:
                    self._troubled(error)
                failed = True

    def _left(self) -> float:
        """Seconds to the end of the lease."""
        expires = self.subscription.expires
        left = self._lease if expires is None else expires - datetime.now(UTC)
        return left.total_seconds()

    def _wait(self, failed: bool) -> float:
        every = min(self._every, RETRY_EVERY) if failed else self._every
        return max(0.05, min(every, self._left() / 2))

    async def end(self) -> None:
        """Unsubscribe, if the gateway answers soon; otherwise the lease ends by itself."""
        if self.is_over:
            return
        try:
            async with asyncio.timeout(PARTING_TIME):
                await self._client.unsubscribe(self.subscription)
                self.is_over = True
        except GatewayError as error:
            self.failure = str(error)
        except TimeoutError:
            self.failure = f"no answer within {PARTING_TIME:g} s"


@contextlib.asynccontextmanager
async def subscribed(
    client: AnyClient,
    consumer: str,
    *,
    lease: timedelta = LEASE,
    every: float = RENEW_EVERY,
    troubled: Callable[[GatewayError], None] = lambda _: None,
    authorize: Authorize | None = None,
    exact: Mapping[str, str] | None = None,
    **wanted: Unpack[SubscribeOptions],
) -> AsyncIterator[RenewedSubscription]:
    """Subscribe the consumer at an address, renew while the body runs, then unsubscribe.

    *lease* and what is *wanted* are as in `Client.subscribe`, *every* and *troubled* as in
    `RenewedSubscription`. *authorize* is for a protected topic, for which no `GridClient` can ask,
    and *exact* as in `EventClient.subscribe`.

    Raises:
        GatewayError: There is no subscription, or it was lost: then the body is cancelled.
    """
    subscribe = client.subscribe
    if authorize is not None:
        if isinstance(client, GridClient):
            raise GatewayError("Grid SOAP Events have no place for a right to a protected topic")
        subscribe = partial(client.subscribe, authorize=authorize)
    if exact is not None:
        if not isinstance(client, EventClient):
            raise GatewayError(
                "events are asked for by their attributes in CloudEvents alone: speak them (an "
                "EventClient, or --spec cloudevents)"
            )
        subscribe = partial(client.subscribe, exact=exact)
    granted = await subscribe(consumer, lease=lease, **wanted)
    renewed = RenewedSubscription(client, granted, lease=lease, every=every, troubled=troubled)
    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(renewed.renew_for_ever())
            yield renewed
            renewing.cancel()
    except BaseExceptionGroup as several:  # Whatever came first is what went wrong.
        raise several.exceptions[0] from several.exceptions[0].__cause__
    finally:
        await renewed.end()
