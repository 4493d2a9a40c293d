"""Requests that make, renew, pause, end and list subscriptions, and their answers."""

from dataclasses import dataclass, field
from datetime import datetime

from filters import EVERYTHING, Filter, Topic
from filters.archive_positions import Position
from mediation.model.calling import Calling
from mediation.model.delivery_modes import PUSH, Bookmark, DeliveryMode
from mediation.model.expiry import UNSPECIFIED, Expiry
from mediation.model.messages import EndpointReference, Packaging, Subscription
from mediation.model.versions import DataForm


@dataclass(frozen=True, slots=True)
class Subscribe:
    consumer: EndpointReference
    filter: Filter = EVERYTHING
    expires: Expiry = UNSPECIFIED
    end_to: EndpointReference | None = None
    raw: bool = False
    dialect: str | None = None
    packaging: Packaging = Packaging.NONE
    """The package that the request came in, which its sender therefore can read."""
    data: DataForm = DataForm.AS_PUBLISHED
    rate: int = 0
    """Messages a minute that the consumer allows; 0 is any number."""
    secret: str = field(default="", repr=False)
    """What signs the messages; empty: nothing does."""
    delivery: DeliveryMode = PUSH
    calling: Calling | None = None
    """How the consumer is called, where it subscribed by a call."""
    bookmark: Bookmark | None = None
    """Go on with the subscription that this is of, from there."""
    since: Position | None = None
    """What was published from there on is wanted, too, out of the archive."""
    order_key: str = ""
    """Messages of one key are sent in order (`mediation.order_keys`); empty: all are."""


@dataclass(frozen=True, slots=True)
class Renew:
    expires: Expiry = UNSPECIFIED


@dataclass(frozen=True, slots=True)
class GetStatus:
    pass


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    pass


@dataclass(frozen=True, slots=True)
class Pause:
    pass


@dataclass(frozen=True, slots=True)
class Resume:
    pass


@dataclass(frozen=True, slots=True)
class EndOfSubscription:
    """SubscriptionEnd as a producer sends it to a subscriber: the last word of its status, and the
    reason."""

    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SubscribePulling:
    """Subscribe, and fetch what comes from a mailbox that is made for it (ONVIF,
    CreatePullPointSubscription; WS-Management, mode Pull)."""

    filter: Filter = EVERYTHING
    expires: Expiry = UNSPECIFIED
    dialect: str | None = None
    delivery: DeliveryMode = PUSH
    since: Position | None = None


@dataclass(frozen=True, slots=True)
class Synchronize:
    """Send the current messages of a subscription again (ONVIF, SetSynchronizationPoint)."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The answer to Subscribe, Renew and GetStatus: the subscription as it now is."""

    subscription: Subscription
    now: datetime


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
