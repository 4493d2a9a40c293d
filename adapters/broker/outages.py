"""What the log says of a broker that is away: two lines an outage, however many connections it has.

adapter.disconnected  adapter=rabbitmq connection=consuming reason="Connection refused"
adapter.connected     adapter=rabbitmq seconds=12.5
"""

import logging
import time

MOST = 32
"""Reasons that are said of one outage: in a broker's own text may be a new number each time."""

logger = logging.getLogger(__name__)


class Outages:
    """The connections of one adapter that are down, and what was said of them.

    A reason is said once, for the connection that meets it first; that all are there again, when
    the last one is.

    Args:
        adapter: Its name in the log.
    """

    def __init__(self, adapter: str) -> None:
        self.adapter = adapter
        self._reasons: dict[str, set[str]] = {}
        """The reasons that were said of this outage, and the connections that met each."""
        self._began = 0.0

    def down(self, connection: str, reason: str) -> None:
        """*connection* has ended, or could not be opened."""
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
        """*connection* works."""
        if self._reasons and not self.forget(connection):
            seconds = round(time.monotonic() - self._began, 1)
            logger.warning("adapter.connected", extra={"adapter": self.adapter, "seconds": seconds})

    def forget(self, connection: str) -> bool:
        """*connection* is not down, or is not wanted any more. Returns whether others are down."""
        for reason, connections in list(self._reasons.items()):
            connections.discard(connection)
            if not connections:
                del self._reasons[reason]
        return bool(self._reasons)
