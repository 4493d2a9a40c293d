"""Leases: how long a subscription may live, by the rules of its specification."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from filters import Reason, Refused
from mediation.model.expiry import Expiry, format_seconds
from mediation.model.messages import Rights, Subscription
from mediation.model.specification import LeaseRules
from mediation.specifications import SPECIFICATIONS


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The bounds of leases.

    Attributes:
        longest: The longest lease of a stranger.
        longest_trusted: The lease of a trusted peer that asks for an endless one, where the
            specification has none.
        grace: The time after its end in which a lease can be renewed, where the specification has
            that.
    """

    default: timedelta = timedelta(hours=24)
    longest: timedelta = timedelta(hours=24)
    longest_trusted: timedelta = timedelta(days=30)
    grace: timedelta = timedelta(seconds=60)


class LeaseRefused(Refused):
    """The lease that is asked for cannot be granted."""


def grant(
    asked: Expiry, rules: LeaseRules, terms: LeaseTerms, *, trusted: bool, now: datetime
) -> datetime | None:
    """Return until when a lease is granted; None is for ever. Trusted peers get what they ask for,
    as far as *rules* have it.

    Raises:
        LeaseRefused: ``EXPIRY_IN_THE_PAST``, ``EXPIRY_TOO_LONG``.
    """
    shortens = rules.shortens or asked.best_effort
    longest = None if trusted else now + terms.longest
    if asked.unspecified:
        if rules.unasked_endless and longest is None:
            return None
        default = now + terms.default
        return min(default, longest) if longest else default
    if asked.never:
        if longest is None:
            return None if rules.endless or asked.endless else now + terms.longest_trusted
        if shortens:
            return longest
        raise _too_long(longest)
    until = asked.at(now)
    if until is None or until <= now:
        raise LeaseRefused(Reason.EXPIRY_IN_THE_PAST, "The expiration is not in the future.")
    if longest is not None and until > longest:
        if shortens:
            return longest
        raise _too_long(longest)
    return until


def within(rights: Rights | None, expires: datetime | None) -> datetime | None:
    """Return the end of a lease that is no longer than the right that it rests on."""
    if rights is None:
        return expires
    return rights.until if expires is None else min(expires, rights.until)


def rules_of(subscription: Subscription) -> LeaseRules:
    """Return the rules for leases of the specification that *subscription* speaks."""
    return SPECIFICATIONS[subscription.spec.version].leases


def may_be_renewed(subscription: Subscription, terms: LeaseTerms, now: datetime) -> bool:
    """True if the lease of *subscription* is not over, or still in its grace."""
    expires = subscription.lease.expires
    if expires is None or expires > now:
        return True
    return rules_of(subscription).grace and expires + terms.grace > now


def _too_long(longest: datetime) -> LeaseRefused:
    return LeaseRefused(
        Reason.EXPIRY_TOO_LONG,
        "The expiration is later than what is granted.",
        names=(format_seconds(longest),),
    )
