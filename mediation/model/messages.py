"""The values that carry messages and subscriptions between the floors. XML inside them is octets:
UTF-8, one element, with every namespace declared on it that it uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from types import MappingProxyType

from filters import EVERYTHING, Filter, Topic
from mediation.model.calling import Calling
from mediation.model.delivery_modes import PUSH, DeliveryMode
from mediation.model.values import checked_dataclass
from mediation.model.versions import DataForm, Spec, Wsa

NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


@checked_dataclass(frozen=True, slots=True)
class EndpointReference:
    """An endpoint reference in the WS-Addressing version that it was written in.

    Reference properties and parameters are verbatim octets, one element each, in their order.
    """

    address: str
    wsa: Wsa
    properties: tuple[bytes, ...] = ()
    parameters: tuple[bytes, ...] = ()
    metadata: tuple[bytes, ...] = ()


@checked_dataclass(frozen=True, slots=True)
class MessageHeaders:
    """The message addressing properties of one message; ``wsa`` None where it has none."""

    wsa: Wsa | None = None
    action: str | None = None
    to: str | None = None
    message_id: str | None = None
    relates_to: str | None = None
    reply_to: EndpointReference | None = None
    fault_to: EndpointReference | None = None


NO_HEADERS = MessageHeaders()


@dataclass(frozen=True, slots=True)
class Attachment:
    """A part that travels beside a message. ``content_id`` is the URI by which the envelope refers
    to it: ``cid:...``, or any that DIME named it by. ``media_type`` may be a URI, or empty, where
    it came in DIME."""

    content_id: str
    media_type: str
    content: bytes


class Packaging(Enum):
    """The package in which attachments travel with an envelope: none, MIME multipart/related (SOAP
    Messages with Attachments, MTOM), or DIME (WS-Attachments)."""

    NONE = "none"
    MIME = "mime"
    DIME = "dime"


@checked_dataclass(frozen=True, slots=True)
class Notification:
    """One event, independent of any specification.

    ``source`` names the publisher and scopes ``id``; the pair is the event's identity.
    ``topic`` None means that the publisher named none. ``time`` is when it was accepted;
    ``expires`` None means never. ``topic_header`` is the element in which a publisher of
    WS-Messenger named the topic, which its consumers get as it is.
    """

    id: str
    source: str
    payload: bytes
    time: datetime
    topic: Topic | None = None
    action: str | None = None
    producer: EndpointReference | None = None
    expires: datetime | None = None
    properties: Mapping[str, str] = field(default_factory=lambda: NO_PROPERTIES)
    headers: tuple[bytes, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    topic_header: bytes | None = None

    @property
    def octets(self) -> int:
        """The octets of the payload and the attachments."""
        if not self.attachments:
            return len(self.payload)
        return len(self.payload) + sum(len(part.content) for part in self.attachments)


@dataclass(frozen=True, slots=True)
class Lease:
    """The time that a subscription lives; ``expires`` None means for ever.

    ``as_duration``: the subscriber asked in durations, and is answered in them.
    """

    created: datetime
    expires: datetime | None
    as_duration: bool = True


class End(Enum):
    """Reasons why a subscription ends before its time; the value is the last word of the status."""

    DELIVERY_FAILURE = "DeliveryFailure"
    SHUTTING_DOWN = "SourceShuttingDown"
    CANCELLING = "SourceCancelling"


@dataclass(frozen=True, slots=True)
class Rights:
    """The right to the one topic of a subscription that belongs to somebody, in Clark's notation,
    and when it ends: the lease is no longer. It may rest on a delegation with an id, which can be
    taken back."""

    topic: str
    until: datetime
    delegation: str | None = None


class CatchingUp(Enum):
    """How far a subscription is that began with what an archive has; the value is its name in the
    store."""

    DONE = ""
    """It gets what is published: it did not begin so, or has caught up."""
    ARCHIVE = "archive"
    """It gets what the archive has; what is published is there soon, too."""
    SEAM = "seam"
    """What is published waits for it, while the last part of the archive is read."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The way in which a subscriber wants its notifications. ``dialect`` is the topic dialect that
    it used; ``packaging`` is what it reads attachments from: with NONE it gets messages without
    them. ``data`` is the form of what is sent without SOAP, ``delivery`` the mode of deliveries;
    ``rate`` is how many messages a minute the consumer allows, 0 is any number; ``calling`` is how
    a consumer is called that subscribed by a call, ``rights`` what it proved to have a right to,
    ``channel`` the name of the channel at which it subscribed, empty at none with a name.
    ``hold_while_paused``: what is published while it is paused waits for it. ``order_key`` says of
    what messages are sent in order, as `mediation.order_keys` reads it; empty: all are."""

    raw: bool = False
    paused: bool = False
    ordered: bool = True
    dialect: str | None = None
    packaging: Packaging = Packaging.NONE
    data: DataForm = DataForm.AS_PUBLISHED
    delivery: DeliveryMode = PUSH
    rate: int = 0
    calling: Calling | None = None
    rights: Rights | None = None
    channel: str = ""
    hold_while_paused: bool = False
    catching_up: CatchingUp = CatchingUp.DONE
    order_key: str = ""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription. ``key`` is the capability, ``id`` is what logs and lists show.

    ``owner`` is a principal; an anonymous one is its network address. ``manager`` is the address
    of its subscription manager, as the subscriber was told it. ``secret``, where there is one,
    signs what is sent (Standard Webhooks).
    """

    key: str
    id: str
    owner: str
    spec: Spec
    consumer: EndpointReference
    lease: Lease
    filter: Filter = EVERYTHING
    end_to: EndpointReference | None = None
    policy: Policy = Policy()
    manager: str = ""
    secret: str = field(default="", repr=False)
