"""Expirations as WS-Eventing and WS-Notification write them: xsd:dateTime, xsd:duration, and the
forms that peers really send (WS-Eventing 2004/08, Subscribe; WS-BaseNotification 1.3,
TerminationTime)."""

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from filters import Reason
from mediation.model.errors import MediationError

_DURATION = re.compile(
    r"(-)?P(?:(\d{1,20})Y)?(?:(\d{1,20})M)?(?:(\d{1,20})D)?"
    r"(T(?:(\d{1,20})H)?(?:(\d{1,20})M)?(?:(\d{1,20})(?:\.(\d{1,20}))?S)?)?",
    re.ASCII,
)
_DATE_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,20}))?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_MILLISECONDS = re.compile(r"-?\d{1,20}", re.ASCII)

_LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""The latest time: any later one is read as this, which is far beyond any lease and safe to
calculate with. Peers write the greatest time or number that they have for "never"."""
_LONGEST = timedelta(days=366 * 9000)


@dataclass(frozen=True, slots=True)
class Duration:
    """An xsd:duration: calendar months, and seconds."""

    months: int
    seconds: timedelta

    def after(self, start: datetime) -> datetime:
        """Add the duration to *start*; months count on the calendar. Far beyond any lease it
        saturates."""
        year, month = divmod(start.year * 12 + start.month - 1 + self.months, 12)
        if not 1 <= year < _LATEST.year:
            return _LATEST
        day = min(start.day, calendar.monthrange(year, month + 1)[1])
        try:
            moved = start.replace(year=year, month=month + 1, day=day) + self.seconds
        except OverflowError:
            return _LATEST
        return min(moved, _LATEST)


NO_TIME = Duration(0, timedelta())


@dataclass(frozen=True, slots=True)
class Expiry:
    """An expiration that a peer asks for.

    At most one of *instant* and *duration* is set. With neither, *never* tells one that
    shall not end from one that the peer leaves to us. ``as_duration``: the answer is one.
    ``best_effort``: the peer takes a shorter lease, whatever its specification says.
    ``endless``: it also reads an answer without an end, whatever its specification says.
    """

    instant: datetime | None = None
    duration: Duration | None = None
    never: bool = False
    as_duration: bool = True
    best_effort: bool = False
    endless: bool = False

    @property
    def unspecified(self) -> bool:
        return self.instant is None and self.duration is None and not self.never

    def at(self, now: datetime) -> datetime | None:
        """The instant that is meant; None for one that never comes or is not specified."""
        if self.duration is not None:
            return self.duration.after(now)
        return self.instant


UNSPECIFIED = Expiry()
NEVER = Expiry(never=True)
FOR_EVER = Expiry(never=True, as_duration=False, endless=True)
"""The expiration of WS-Messenger's clients who ask for none, or for a negative one."""


def parse_date_time(text: str) -> datetime:
    """Read an xsd:dateTime; without a zone it is UTC.

    Raises:
        ValueError: *text* is not an xsd:dateTime.
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        raise ValueError("not a dateTime")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction = int((match[7] or "0")[:6].ljust(6, "0"))
    zone: timezone = UTC
    if match[8] and match[8] != "Z":
        offset = timedelta(hours=int(match[8][1:3]), minutes=int(match[8][4:6]))
        zone = timezone(-offset if match[8][0] == "-" else offset)
    day_over = timedelta(days=1) if hour == 24 and minute == second == fraction == 0 else None
    moment = datetime(
        year, month, day, 0 if day_over else hour, minute, second, fraction, tzinfo=zone
    )
    if year >= _LATEST.year:
        return _LATEST
    try:
        return (moment + (day_over or timedelta())).astimezone(UTC)
    except OverflowError as error:
        raise ValueError("not a representable dateTime") from error


def parse_duration(text: str) -> Duration:
    """Read an xsd:duration.

    Raises:
        ValueError: *text* is not an xsd:duration, or is below zero.
    """
    match = _DURATION.fullmatch(text)
    if match is None or text.endswith(("P", "T")):
        raise ValueError("not a duration")
    years, months, days, _, hours, minutes, seconds, fraction = match.groups()[1:]
    whole = int(days or 0) * 86400 + int(hours or 0) * 3600
    whole += int(minutes or 0) * 60 + int(seconds or 0)
    microseconds = int((fraction or "0")[:6].ljust(6, "0"))
    length = Duration(
        int(years or 0) * 12 + int(months or 0),
        _at_most(timedelta(seconds=1), whole) + timedelta(microseconds=microseconds),
    )
    if match[1] and (length.months or length.seconds):
        raise ValueError("a negative duration")
    return length


def _at_most(unit: timedelta, amount: int) -> timedelta:
    """Multiply *unit* by *amount*, up to the longest time that means anything."""
    return unit * amount if amount < _LONGEST // unit else _LONGEST


def parse_expiry(text: str, *, milliseconds: bool = False) -> Expiry:
    """Read a dateTime, a duration, or what peers write instead; *text* is trimmed.

    With *milliseconds* (WS-Eventing), a bare integer is milliseconds from now, negative
    for never, as WS-Messenger's clients write it, and ``*`` is never, as Synapse does.

    Raises:
        MediationError: ``EXPIRY_INVALID``; ``EXPIRY_IN_THE_PAST``: it is a negative duration.
    """
    try:
        if milliseconds and (text == "*" or _MILLISECONDS.fullmatch(text)):
            # Both peers read a dateTime alone.
            if text == "*":
                return Expiry(never=True, as_duration=False)
            if text.startswith("-"):
                return FOR_EVER
            length = _at_most(timedelta(milliseconds=1), int(text))
            return Expiry(duration=Duration(0, length), as_duration=False)
        if text.startswith(("P", "-P")):
            return Expiry(duration=parse_duration(text))
        return Expiry(instant=parse_date_time(text), as_duration=False)
    except (ValueError, OverflowError) as error:
        if text.startswith("-P") and _DURATION.fullmatch(text) and not text.endswith(("P", "T")):
            raise MediationError(
                Reason.EXPIRY_IN_THE_PAST, "The duration is negative.", value=text[:100]
            ) from error
        raise MediationError(
            Reason.EXPIRY_INVALID,
            "The expiration is neither an xsd:dateTime nor an xsd:duration.",
            value=text[:100],
        ) from error


def is_milliseconds(text: str) -> bool:
    """Return whether an expiration of WS-Eventing is a bare number, as WS-Messenger's clients write
    it."""
    return _MILLISECONDS.fullmatch(text) is not None


def format_seconds(moment: datetime) -> str:
    """Write UTC in whole seconds with a ``Z``: clients of WS-Notification read nothing else."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_milliseconds(moment: datetime) -> str:
    """Write UTC with milliseconds and a ``Z``, as Synapse does."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"


def format_duration(length: timedelta) -> str:
    """Write ``PT1H2M3S``: never days, months or years, which sdc11073 does not read."""
    seconds = max(0, round(length.total_seconds()))
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    text = "".join(
        f"{amount}{unit}"
        for amount, unit in ((hours, "H"), (minutes, "M"), (seconds, "S"))
        if amount
    )
    return f"PT{text or '0S'}"


def write_instant(moment: datetime) -> str:
    """Write UTC with milliseconds and a ``Z``, or with microseconds where there are any."""
    utc = moment.astimezone(UTC)
    if utc.microsecond % 1000 == 0:
        return format_milliseconds(utc)
    return f"{utc:%Y-%m-%dT%H:%M:%S.%f}Z"


def write_length(length: timedelta) -> str:
    """Write ``PT1H2M3.5S``: as `format_duration`, but exactly."""
    whole, fraction = divmod(length, timedelta(seconds=1))
    text = format_duration(timedelta(seconds=whole))
    if not fraction:
        return text
    digits = f".{fraction // timedelta(microseconds=1):06d}".rstrip("0")
    return f"{text[:-1]}{digits}S" if text.endswith("S") else f"{text}0{digits}S"
