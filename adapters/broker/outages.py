"""Logging of outages of a broker: two lines an outage, however many connections it has.

adapter.disconnected  adapter=rabbitmq connection=consuming reason="Connection refused"
adapter.connected     adapter=rabbitmq seconds=12.5
"""

import logging
import time

MOST = 32
"""The most reasons logged for one outage: a broker's own text may have a new number each time."""

logger = logging.getLogger(__name__)


class Outages:
    """The connections of one adapter that are down, and the reasons that were logged.

    A reason is logged once, for the connection that meets it first; that the outage is over is
    logged when the last connection is back.

    Args:
        adapter: Its name in the log.
    """

    def __init__(self, adapter: str) -> None:
        self.adapter = adapter
        self._reasons: dict[str, set[str]] = {}
        """The reasons that were logged for this outage, each with the connections that met it."""
        self._began = 0.0

    def down(self, connection: str, reason: str) -> None:
        """Note that *connection* has ended, or could not be opened."""
        if not self._reasons:
            self._began = time.monotonic()
        if reason not in self._reasons and len(self._reasons) >= MOST:
            reason = next(reversed(self._reasons))
        if reason not in self._reasons:
            self._reasons[reason] = set()
            logger.warning(
                "adapter.disconnected",
                extra={"adapter": self.adapter, "connection": connection, "reason": reason},
            )
        self._reasons[reason].add(connection)

    def up(self, connection: str) -> None:
        """Note that *connection* works."""
        if self._reasons and not self.forget(connection):
            seconds = round(time.monotonic() - self._began, 1)
            logger.info("adapter.connected", extra={"adapter": self.adapter, "seconds": seconds})

    def forget(self, connection: str) -> bool:
        """Drop *connection*: it works, or is not wanted any more. Returns True if others are
        down."""
        for reason, connections in list(self._reasons.items()):
            connections.discard(connection)
            if not connections:
                del self._reasons[reason]
        return bool(self._reasons)
