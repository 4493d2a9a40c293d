"""Events of a subscription as they come, however they come."""

import asyncio
from collections import deque
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

from dragoman.client.subscriptions import Subscription
from dragoman.events import Event

if TYPE_CHECKING:
    from dragoman.client.base import Client
    from gateway.client.consumer import ReceivedMessage

_AHEAD = 256
"""Events that were sent and wait for the program; a broker keeps the others."""
_RETRY = 2.0
"""Seconds after which a broker that is away is asked again."""


class Listening:
    """Events as they come: an asynchronous iterator, and a context manager that subscribes on entry
    and unsubscribes on exit. Without ``async with`` it subscribes when it is first iterated.

    One task of its own holds the subscription, so that it may be entered, iterated and left by
    different tasks. Events that are pulled are acknowledged when the next is asked for.

    Raises:
        GatewayError: On entry, there is no subscription; while it is iterated, it was lost, or the
            broker ended it.
    """

    def __init__(
        self, client: "Client", wanted: dict[str, Any], *, pull: bool, host: str | None, port: int
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._pull = pull
        self._host = host
        self._port = port
        self._events: asyncio.Queue[Event | None] = asyncio.Queue(1 if pull else _AHEAD)
        self._task: asyncio.Task[None] | None = None
        self._ready: deque[Event] = deque()
        self._taken = 0
        """Events that were handed out last, which may be acknowledged when others are asked for."""

    async def __aenter__(self) -> Self:
        if self._task is None:
            loop = asyncio.get_running_loop()
            subscribed: asyncio.Future[None] = loop.create_future()
            self._client._listenings.add(self)
            self._task = loop.create_task(self._listen(subscribed))
            self._task.add_done_callback(self._wake)
            await asyncio.wait((self._task, subscribed), return_when=asyncio.FIRST_COMPLETED)
            if self._task.done():
                self._task.result()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Unsubscribe; the iteration ends."""
        self._client._listenings.discard(self)
        if self._task is not None and not self._task.done():
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if not self._ready:
            self._ready.extend(await self.take())
        if not self._ready:
            raise StopAsyncIteration
        return self._ready.popleft()

    async def take(self) -> list[Event]:
        """Wait for the next event; it, and those that are there already. Empty at the end."""
        await self.__aenter__()
        assert self._task is not None
        for _ in range(self._taken):
            self._events.task_done()
        self._taken = 0
        taken = []
        if not (self._task.done() and self._events.empty()):
            taken.append(await self._events.get())
        while not self._events.empty():
            taken.append(self._events.get_nowait())
        events = [event for event in taken if event is not None]
        if not events and not self._task.cancelled():
            self._task.result()
        self._taken = len(events)
        return events

    def _wake(self, task: asyncio.Task[None]) -> None:
        if self._events.empty():  # Else nobody waits.
            self._events.put_nowait(None)
        if not task.cancelled():
            task.exception()  # It is raised to who iterates, if anybody does.

    async def _listen(self, subscribed: asyncio.Future[None]) -> None:
        async with AsyncExitStack() as stack:
            if self._pull:
                await self._fetch(stack, subscribed)
            else:
                await self._receive(stack, subscribed)

    async def _receive(self, stack: AsyncExitStack, subscribed: asyncio.Future[None]) -> None:
        from gateway.client.calling import address_towards
        from gateway.client.consumer import Consumer
        from gateway.client.renewal import subscribed as held

        url = self._client._url
        host = self._host or str(await asyncio.to_thread(address_towards, url))
        consumer = await stack.enter_async_context(Consumer(host, self._port))
        subscribing = held(self._client._client, consumer.address, **self._wanted)
        await stack.enter_async_context(subscribing)
        subscribed.set_result(None)
        async for message in consumer:
            await self._hand_out(message)

    async def _fetch(self, stack: AsyncExitStack, subscribed: asyncio.Future[None]) -> None:
        from gateway.client.renewal import RenewedSubscription

        subscription = await self._client.subscribe(**self._wanted)
        stack.push_async_callback(self._client._forget, subscription)
        held = RenewedSubscription(
            self._client._client, subscription.granted, lease=self._wanted["lease"]
        )
        stack.push_async_callback(held.end)
        subscribed.set_result(None)
        renewing = asyncio.create_task(held.renew_for_ever())
        stack.callback(renewing.cancel)
        while not renewing.done():
            for event in await self._pulled(subscription):
                await self._events.put(event)
                await self._events.join()
        renewing.result()

    async def _pulled(self, subscription: Subscription) -> list[Event]:
        """The next events; none yet while the broker is away, for as long as the lease lasts."""
        from gateway.client.errors import GatewayError

        try:
            return await self._client.pull(subscription)
        except GatewayError as error:
            if error.is_final:
                raise
            await asyncio.sleep(_RETRY)
            return []

    async def _hand_out(self, message: "ReceivedMessage") -> None:
        from dragoman.client.base import event_of
        from gateway.client.errors import GatewayError

        if message.ended is not None:
            raise GatewayError(
                f"the subscription was ended: {message.ended.reason or message.ended.status}"
            )
        for received in message.notifications:
            await self._events.put(event_of(received, self._client._signers))
