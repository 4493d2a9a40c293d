"""Reads instants as people write them in options: a date, a time, or an age, ``12h``."""

import re
from datetime import UTC, datetime, timedelta

from gateway.cli.errors import ASKED_WRONGLY, CommandFailed

_AGO = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def instant(option: str, text: str) -> datetime:
    """The instant that *option* names: a date, a time, local where it says no zone, or an age.

    Raises:
        CommandFailed: It is none of these.
    """
    try:
        if ago := _AGO.fullmatch(text.strip()):
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError, OSError) as error:
        raise CommandFailed(
            f"{option}: {text!r} is not a time: write 2026-03-01, 2026-03-01T12:00:00Z, or 12h",
            ASKED_WRONGLY,
        ) from error


def read_position(option: str, text: str) -> str:
    """The position in an archive that *option* names: a time as `instant` reads it, or one with an
    id behind a slash, as it was shown.

    Raises:
        CommandFailed: It is neither.
    """
    time, slash, id_ = text.partition("/")
    return instant(option, time).isoformat() + slash + id_
