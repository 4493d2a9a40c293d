"""Lines of the log about requests that a transport refuses: many may come, few are written."""

import time
from collections.abc import Callable

import structlog

from gateway.security.resource_addresses import shown
from gateway.token_bucket import TokenBucket

LINES, LINES_AT_ONCE = 5.0, 50.0
"""Lines that the log gets: a second, and at once. What is left out is counted in the next line."""
OF_PEER, OF_PEER_AT_ONCE = 0.5, 10.0
"""Lines about one peer, in the same way."""
LONGEST = 200
"""Characters of a text or a path."""
_log = structlog.get_logger("dragoman.http")


class RefusalLog:
    """Writes a line for a request that was refused, unless there were many lately."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lines = TokenBucket(LINES, LINES_AT_ONCE)
        self._of_peer = TokenBucket(OF_PEER, OF_PEER_AT_ONCE)
        self._left_out = 0

    def say(self, reason: str, text: str, *, peer: str, path: str) -> None:
        """Say that a request of *peer* for *path* was refused."""
        now = self._clock()
        if not (self._of_peer.allows(peer, now) and self._lines.allows("", now)):
            self._left_out += 1
            return
        fields: dict[str, object] = {}
        if self._left_out:
            fields["left_out"], self._left_out = self._left_out, 0
        _log.info(
            "http.refused",
            peer=peer,
            reason=reason,
            text=text[:LONGEST],
            path=shown(path)[:LONGEST],
            **fields,
        )
