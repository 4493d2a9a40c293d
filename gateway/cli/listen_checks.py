"""The checks of a subscription, as ``dragoman listen --check`` tells them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import AbstractAsyncContextManager

from gateway.cli.output import note
from gateway.client import GatewayError, PulledMailbox, ReceivedMessage, RenewedSubscription
from gateway.client.delivery_checks import CheckState, DeliveryChecks
from gateway.client.push_pull_comparison import Comparison

_SIGNS = {CheckState.OPEN: "[..]", CheckState.PASSED: "[ok]", CheckState.FAILED: "[no]"}
_OPEN = _SIGNS[CheckState.OPEN]


class CheckedListening:
    """Tells how far a listener has come, one line on standard error for each change.

    Args:
        gateway: As people are shown it.
        address: Where messages are sent to; empty where they are fetched.
        mailbox: Makes the mailbox of the comparison.
        subscribe: Subscribes an address as the listener is.
        quiet: Seconds without a message after which push is compared with pull.
    """

    def __init__(
        self,
        gateway: str,
        address: str,
        mailbox: Callable[[], PulledMailbox],
        subscribe: Callable[[str], AbstractAsyncContextManager[RenewedSubscription]],
        quiet: float,
    ) -> None:
        self._checks = DeliveryChecks(gateway, address)
        self._compares = bool(address)
        self._comparison = Comparison(self._checks, mailbox, subscribe, self._say, quiet=quiet)
        self._said = {line for line in self._lines(0.0) if line.startswith(_OPEN)}

    def accepted(self) -> None:
        """Tell that the subscription was accepted."""
        self._checks.accepted()
        self._say()

    def failed(self, error: GatewayError) -> None:
        """Tell that there is no subscription, or none any more."""
        self._checks.failed(error)
        self._say()

    async def messages(
        self, consumer: AsyncIterable[ReceivedMessage]
    ) -> AsyncGenerator[ReceivedMessage, None]:
        """Hand on the messages of *consumer*, and compare meanwhile; to be closed."""
        comparing = asyncio.create_task(self._comparison.run()) if self._compares else None
        try:
            async for message in consumer:
                if message.ended is None:
                    self._checks.received()
                    self._comparison.received()
                    self._say()
                yield message
        finally:
            if comparing is not None:
                comparing.cancel()
                await asyncio.gather(comparing, return_exceptions=True)

    def _say(self) -> None:
        for line in self._lines(asyncio.get_running_loop().time()):
            if line not in self._said:
                note(line)
            self._said.add(line)

    def _lines(self, now: float) -> list[str]:
        return [f"{_SIGNS[check.state]} {check}" for check in self._checks.rows(now)]
