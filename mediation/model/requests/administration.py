"""Requests about all subscriptions of a gateway, for its manager, and their answers."""

from dataclasses import dataclass

from filters import Topic
from mediation.model.messages import Subscription


@dataclass(frozen=True, slots=True)
class SubscriptionSelection:
    """The subscriptions for which all that is given holds.

    Attributes:
        topic: They get messages on it, as far as their topic expressions say.
        consumer: The address of their consumer begins so, or, with ``*`` or ``?`` in it, is like
            this pattern.
        specification: The name of the version that their subscriber spoke.
        states: Their state is one of these; none means any.
        owner: Who made them.
    """

    topic: Topic | None = None
    consumer: str | None = None
    specification: str | None = None
    states: frozenset[str] = frozenset()
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class ListSubscriptions:
    """List the subscriptions of a selection in the order of their ids: at most so many, those
    behind the id *after*; None leaves the number to the gateway."""

    selection: SubscriptionSelection
    most: int | None = None
    after: str = ""


@dataclass(frozen=True, slots=True)
class DeleteSubscriptions:
    """End subscriptions: those with these *names*, ids or keys, or those of a selection. With
    *dry_run* nothing ends."""

    names: tuple[str, ...] = ()
    selection: SubscriptionSelection | None = None
    most: int | None = None
    after: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class SubscriptionEntry:
    """A subscription in a list. ``consumer`` and ``end_to`` are addresses as lists show them,
    without keys; the numbers are of deliveries."""

    subscription: Subscription
    state: str
    consumer: str
    end_to: str | None
    matched: int
    delivered: int
    waiting: int
    dead: int
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class SubscriptionsListed:
    """The answer to ListSubscriptions; *next* is where to go on, None at the end."""

    entries: tuple[SubscriptionEntry, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class SubscriptionsDeleted:
    """The answer to DeleteSubscriptions: the ids of those that ended, or would."""

    ids: tuple[str, ...]
    next: str | None
