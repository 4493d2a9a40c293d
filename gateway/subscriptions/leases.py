"""How long a subscription may live: what each family of specifications lets a source grant."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from filters import Reason, Refused
from mediation import Expiry, Family, format_seconds


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """*longest* is what strangers get at most; *longest_trusted* what a trusted peer does who
    asks a WS-Eventing source for a lease without end."""

    default: timedelta = timedelta(hours=24)
    longest: timedelta = timedelta(hours=24)
    longest_trusted: timedelta = timedelta(days=30)
    grace: timedelta = timedelta(seconds=60)


class LeaseRefused(Refused):
    """The lease that is asked for cannot be granted."""


def grant(
    asked: Expiry, family: Family, terms: LeaseTerms, *, trusted: bool, now: datetime
) -> datetime | None:
    """Until when a lease is granted; None is for ever.

    WS-Eventing 2004/08 lets a source shorten a lease. WS-BaseNotification 1.3 grants the time
    that was asked for, or refuses. Trusted peers get what they ask for.

    Raises:
        LeaseRefused: ``EXPIRY_IN_THE_PAST``, ``EXPIRY_TOO_LONG``.
    """
    longest = None if trusted else now + terms.longest
    if asked.unspecified:
        default = now + terms.default
        return min(default, longest) if longest else default
    if asked.never:
        if family is Family.WSE:
            return longest or now + terms.longest_trusted
        if longest is not None:
            raise _too_long(longest)
        return None
    until = asked.at(now)
    if until is None or until <= now:
        raise LeaseRefused(Reason.EXPIRY_IN_THE_PAST, "The expiration is not in the future.")
    if longest is not None and until > longest:
        if family is Family.WSE:
            return longest
        raise _too_long(longest)
    return until


def _too_long(longest: datetime) -> LeaseRefused:
    return LeaseRefused(
        Reason.EXPIRY_TOO_LONG,
        "The expiration is later than what is granted.",
        names=(format_seconds(longest),),
    )
