"""Changes of what a broker holds for the gateway: one after the other, each under a deadline."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from adapters.broker.reconnecting import Lost
from adapters.protocol import AdapterUnavailable

ASKING = 15.0
"""Seconds that a new interest may take, while others are asked for too."""

logger = logging.getLogger(__name__)

ThroughT = TypeVar("ThroughT")


class TopologyChanges(Generic[ThroughT]):
    """Serializes the changes of the broker's side while there is a connection.

    Args:
        adapter: Its name in the log.
        retry_after: Seconds until there may be a connection again.
        told: Why there is no connection, in words for a subscriber (`ConnectionState.told`).
    """

    def __init__(
        self,
        adapter: str,
        retry_after: Callable[[], float],
        told: Callable[[], str] = lambda: "",
    ) -> None:
        self._adapter = adapter
        self._retry_after = retry_after
        self._told = told
        self._turn = asyncio.Lock()
        self.through: ThroughT | None = None
        """The session that changes are made through; None if there is no connection, or it is not
        set up."""

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[ThroughT]:
        """Wait for the turn of one change, and yield the session to make it through.

        Raises:
            AdapterUnavailable: There is no connection, or the change failed.
        """
        try:
            async with asyncio.timeout(ASKING), self._turn:
                if self.through is None:
                    raise unavailable(
                        "there is no connection to the broker", self._told(), self._retry_after()
                    )
                yield self.through
        except Lost as exc:
            logger.warning(
                "adapter.interest_refused", extra={"adapter": self._adapter, "reason": str(exc)}
            )
            raise AdapterUnavailable("the broker did not accept the subscription") from exc
        except TimeoutError:
            raise AdapterUnavailable("the broker did not accept the subscription in time") from None

    def check(self, through: ThroughT) -> None:
        """Check that changes made through *through* hold.

        Raises:
            Lost: The next connection has perhaps been told already what to hold.
        """
        if self.through is not through:
            raise Lost("the connection ended")


def unavailable(text: str, told: str, retry_after: float) -> AdapterUnavailable:
    """The refusal of a subscriber: *text*, with the reason where it may be *told*."""
    return AdapterUnavailable(f"{text}: {told}" if told else text, retry_after=retry_after)
