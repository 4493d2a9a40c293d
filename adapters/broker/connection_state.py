"""The state of the connections to a broker, summed up as an `AdapterState`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from adapters.protocol import AdapterState


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class ConnectionState:
    """The state of one connection that is opened again whenever it ends."""

    up: bool = False
    since: datetime = field(default_factory=_now)
    error: str = ""
    told: str = ""
    """The part of it that whoever publishes or subscribes may be told."""
    erred: datetime = field(default_factory=_now)
    opened: int = 0
    """The number of times it was opened and set up."""

    def is_up(self) -> None:
        """Note that the connection works."""
        self.opened += 1
        if not self.up:
            self.up, self.since = True, _now()

    def is_down(self, why: str, told: str = "") -> None:
        """Note that the connection has ended, or could not be opened."""
        self.error, self.told, self.erred = why, told, _now()
        if self.up:
            self.up, self.since = False, self.erred


def state_of(
    links: Sequence[ConnectionState],
    *,
    blocked: bool,
    wrapped: int,
    unreadable: int = 0,
    stopped_by: str = "",
    gone: tuple[str, ...] = (),
) -> AdapterState:
    """Return the state of an adapter that needs all of the connections *links*."""
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
        unreadable=unreadable,
        stopped_by=stopped_by,
        gone=gone,
    )
