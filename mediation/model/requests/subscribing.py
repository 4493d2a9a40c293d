"""Requests that make, renew, pause and end subscriptions, and their answers."""

from dataclasses import dataclass, field
from datetime import datetime

from filters import EVERYTHING, Filter
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


@dataclass(frozen=True, slots=True)
class Synchronize:
    """Send the current messages of a subscription again (ONVIF, SetSynchronizationPoint)."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The answer to Subscribe, Renew and GetStatus: the subscription as it now is."""

    subscription: Subscription
    now: datetime
