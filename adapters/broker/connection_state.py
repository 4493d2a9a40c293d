"""What became of the connections to a broker, as `AdapterState` says it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from adapters.protocol import AdapterState


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class ConnectionState:
    """One connection, opened again and again."""

    up: bool = False
    since: datetime = field(default_factory=_now)
    error: str = ""
    erred: datetime = field(default_factory=_now)
    opened: int = 0
    """How often it was opened and set up."""

    def is_up(self) -> None:
        """It works."""
        self.opened += 1
        if not self.up:
            self.up, self.since = True, _now()

    def is_down(self, why: str) -> None:
        """It has ended, or could not be opened."""
        self.error, self.erred = why, _now()
        if self.up:
            self.up, self.since = False, self.erred


def state_of(links: Sequence[ConnectionState], *, blocked: bool, wrapped: int) -> AdapterState:
    """The state of an adapter that needs all of *links*."""
    down = [link.since for link in links if not link.up]
    latest = max(links, key=lambda link: (link.error != "", link.erred))
    return AdapterState(
        connected=not down,
        since=min(down) if down else max(link.since for link in links),
        last_error=latest.error,
        last_error_at=latest.erred if latest.error else None,
        blocked=blocked and not down,
        reconnects=sum(max(0, link.opened - 1) for link in links),
        wrapped=wrapped,
    )


Link = ConnectionState
"""Its former name."""
