"""Moments: POSIX times as dates, whatever peers said."""

from datetime import UTC, datetime

_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 12, 31, tzinfo=UTC)
_FROM, _TO = _EARLIEST.timestamp(), _LATEST.timestamp()


def moment_of(seconds: float) -> datetime:
    """The date of a POSIX time; of one that no date is of, the first or the last that there is."""
    if not seconds > _FROM:  # What is no number is not, either.
        return _EARLIEST
    return datetime.fromtimestamp(seconds, UTC) if seconds < _TO else _LATEST


def seconds_of(date: datetime) -> float:
    """The POSIX time of a date; of one without a zone, by the clock of the machine. At the ends of
    the calendar it saturates."""
    try:
        return date.timestamp()
    except (OverflowError, ValueError):
        return _FROM if date.year < 2000 else _TO
