"""Replays: what was published once, read from an archive and delivered to one subscription."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from filters.archive_positions import Position


class ReplayState(Enum):
    """How it stands with a replay."""

    RUNNING = "running"
    CANCELLING = "cancelling"
    """It reads no further, and is about to end."""
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class ReplayKind(Enum):
    """Why there is a replay."""

    REPLAY = "replay"
    """Somebody asked for one."""
    START = "start"
    """The subscription began with what the archive has."""


@dataclass(frozen=True, slots=True)
class ReplaySelection:
    """What a replay wants of what the filter of its subscription takes: a topic expression of the
    Full dialect and an XPath over the payload, both of which must hold where they are there."""

    topic: str | None = None
    xpath: str | None = None
    namespaces: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """How far a replay is: the position behind the last row, and how many were *read*, *replayed*,
    waited or lay in the dead letters already (*known*), and could not be evaluated within the
    time that a filter has."""

    position: Position
    read: int = 0
    replayed: int = 0
    known: int = 0
    unevaluated: int = 0


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay of the rows from *since* on, before *until*; None: until the subscription has
    caught up. *rate* is deliveries a second, at most;
    None: as fast as its consumer takes them. *detail* says what it waits for, or why it failed.
    ``begun`` and ``changed`` are POSIX seconds."""

    subscription: str
    since: Position
    until: datetime | None
    selection: ReplaySelection
    rate: float | None
    progress: ReplayProgress
    begun: float
    changed: float
    state: ReplayState = ReplayState.RUNNING
    detail: str = ""
    kind: ReplayKind = ReplayKind.REPLAY
