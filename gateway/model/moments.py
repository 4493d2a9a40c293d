"""Moments: POSIX times as dates. No time that a peer sends makes them raise."""

from datetime import UTC, datetime

_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 12, 31, tzinfo=UTC)
_FROM, _TO = _EARLIEST.timestamp(), _LATEST.timestamp()


def moment_of(seconds: float) -> datetime:
    """The date of a POSIX time; outside the calendar, the first or the last date of it."""
    if not seconds > _FROM:  # False for NaN, too.
        return _EARLIEST
    return datetime.fromtimestamp(seconds, UTC) if seconds < _TO else _LATEST


def moment_or_none(seconds: float | None) -> datetime | None:
    """The date of a POSIX time, if there is one."""
    return None if seconds is None else moment_of(seconds)


def seconds_of(date: datetime) -> float:
    """The POSIX time of a date; of one without a zone, by the clock of the machine. At the ends of
    the calendar it saturates."""
    try:
        return date.timestamp()
    except (OverflowError, ValueError):
        return _FROM if date.year < 2000 else _TO
