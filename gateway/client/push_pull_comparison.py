"""Compares push with pull: while nothing comes to a subscriber's address, a second subscription
fills a mailbox at the broker."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from gateway.client.delivery_checks import DeliveryChecks
from gateway.client.errors import GatewayError
from gateway.client.pulling import PulledMailbox
from gateway.client.renewal import RenewedSubscription

QUIET = 10.0
"""Seconds without a message after which the comparison begins."""


class Comparison:
    """Finds out whether a broker has messages that it cannot send to us.

    Args:
        checks: Told what is found.
        mailbox: Makes the mailbox.
        subscribe: Subscribes an address as the first subscription is.
        changed: Told that the checks say something else.
        quiet: Seconds without a message after which it begins.
    """

    def __init__(
        self,
        checks: DeliveryChecks,
        mailbox: Callable[[], PulledMailbox],
        subscribe: Callable[[str], AbstractAsyncContextManager[RenewedSubscription]],
        changed: Callable[[], None],
        *,
        quiet: float = QUIET,
    ) -> None:
        self._checks = checks
        self._mailbox = mailbox
        self._subscribe = subscribe
        self._changed = changed
        self._quiet = quiet
        self._came = asyncio.Event()

    def received(self) -> None:
        """Note that a message came to the address: there is nothing to compare any more."""
        self._came.set()

    async def run(self) -> None:
        """Compare, where it is quiet, until something came to the address."""
        if await self._comes_within(self._quiet):
            return
        fetching = asyncio.create_task(self._fetch())
        coming = asyncio.create_task(self._came.wait())
        try:
            await asyncio.wait((fetching, coming), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (fetching, coming):
                task.cancel()
            # A mailbox and its subscription are left behind by nobody who has the time to end them.
            await asyncio.gather(fetching, coming, return_exceptions=True)

    async def _fetch(self) -> None:
        try:
            async with self._mailbox() as box, self._subscribe(box.address):
                self._checks.comparing()
                self._changed()
                await self._first(box)
                self._checks.fetched(asyncio.get_running_loop().time())
                self._changed()
        except GatewayError as error:
            self._checks.not_compared(str(error))
            self._changed()
            return
        due = self._checks.due
        if due is not None:
            await self._comes_within(due - asyncio.get_running_loop().time())
            self._changed()

    async def _first(self, box: PulledMailbox) -> None:
        async for message in box:
            if message.ended is None:
                return

    async def _comes_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._came.wait()
        except TimeoutError:
            return False
        return True
