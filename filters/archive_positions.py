"""Places in an archive, as programs and people name them."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in an archive: behind all rows of an earlier *time*, and behind those of this time
    whose ids are not greater than *id*. Written ``2026-11-21T12:30:00.000000Z``, or with a slash
    and the id behind it."""

    time: datetime
    id: str = ""

    def __str__(self) -> str:
        time = self.time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{time}Z/{self.id}" if self.id else f"{time}Z"


def parse_position(text: str) -> Position:
    """Return the position that *text* says: a time with its zone, or what `str` made of one.

    Raises:
        ValueError: It is neither.
    """
    time, _, id_ = text.partition("/")
    moment = datetime.fromisoformat(time)
    if moment.tzinfo is None:
        raise ValueError(f"{time!r} does not say its time zone: end it with Z")
    return Position(moment.astimezone(UTC), id_)
