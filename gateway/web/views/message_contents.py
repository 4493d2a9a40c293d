"""Contents of messages: as they came, as they were understood, and as consumers are sent them."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from gateway.model.moments import moment_of
from gateway.observing.masking import SECRETS, Mask
from gateway.observing.recent_messages import Arrival, RecentMessage
from gateway.security.resource_addresses import shown, shown_in
from gateway.web.recipients import Recipient
from gateway.web.views.documents import UNSHOWN, Part, masked_part, part_of
from mediation.model.messages import Notification
from mediation.tenants import as_its_tenant_knows_it


class ArrivalView(BaseModel, extra="forbid"):
    """A request as it came."""

    path: str
    headers: list[tuple[str, str]] = Field(description="Those that authorise are masked always.")
    body: Part = Field(description="In UTF-8; of a package its root part.")
    attachments: int


class UnderstoodView(BaseModel, extra="forbid"):
    """A message as it was understood."""

    topic: str | None
    action: str | None
    source: str = Field(description="The scope of its id.")
    time: datetime = Field(description="When it was accepted.")
    expires: datetime | None
    properties: dict[str, str]
    headers: list[str] = Field(description="Header blocks that go on with it.")
    attachments: list[str] = Field(description="Their media types.")
    payload: Part


class RecentView(BaseModel, extra="forbid"):
    """One of the last messages that are kept whole."""

    id: str
    topic: str | None
    at: datetime = Field(description="When it was accepted.")
    by: str | None = Field(description="Who published it.")
    bytes: int


class MessageContent(BaseModel, extra="forbid"):
    """A message that is kept whole."""

    came: ArrivalView | None = Field(
        description="null unless it is one of the last, and came as a request of its own."
    )
    understood: UnderstoodView


_EXAMPLE: dict[str, JsonValue] = {
    "subscription": "5b1f0c9a3e77",
    "consumer": "http://line3.plant/recv",
    "spec": "wsn-1.3",
    "gets": False,
    "why": "does not match the message",
    "details": ["/w:storm[@level > 3]: no: @level is 2"],
    "sent": None,
}


class RecipientView(BaseModel):
    """What one subscription makes of a message."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _EXAMPLE})

    subscription: str
    consumer: str
    spec: str
    gets: bool | None = Field(
        description="Whether its filter, as it is now, takes the message; null where it costs too "
        "much to find that out here."
    )
    why: str
    details: list[str] = Field(
        description="Why, step by step; none where fields are masked, for it may name their values."
    )
    sent: Part | None = Field(
        description="What its consumer is sent, with ids in place of keys; null where it gets "
        "nothing."
    )


def recent_view(recent: RecentMessage, *, own: bool = False) -> RecentView:
    """The view of one of the last messages in a list; where it is the *own* one of who looks, as
    its tenant knows it."""
    notification = as_its_tenant_knows_it(recent.notification) if own else recent.notification
    return RecentView(
        id=notification.id,
        topic=str(notification.topic) if notification.topic else None,
        at=moment_of(recent.at),
        by=recent.by or None,
        bytes=notification.octets,
    )


def message_content(
    notification: Notification, recent: RecentMessage | None, mask: Mask, limit: int
) -> MessageContent:
    """The view of a message, with the first *limit* bytes of its documents. It takes time where
    fields are masked."""
    arrival = recent.arrival if recent is not None else None
    return MessageContent(
        came=None if arrival is None else _came(arrival, mask, limit),
        understood=_understood(notification, mask, limit),
    )


def _came(arrival: Arrival, mask: Mask, limit: int) -> ArrivalView:
    named = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in arrival.headers]
    return ArrivalView(
        path=shown(arrival.path),
        headers=[(name, mask.header(name, value)) for name, value in named],
        body=_without_keys(arrival.body, _with_secrets(arrival.body, mask), limit),
        attachments=arrival.attachments,
    )


def _understood(notification: Notification, mask: Mask, limit: int) -> UnderstoodView:
    return UnderstoodView(
        topic=str(notification.topic) if notification.topic else None,
        action=notification.action,
        source=notification.source,
        time=notification.time,
        expires=notification.expires,
        properties={
            name: mask.header(name, value) for name, value in notification.properties.items()
        },
        headers=[_without_keys(block, mask, limit).text for block in notification.headers],
        attachments=[part.media_type for part in notification.attachments],
        payload=masked_part(notification.payload, mask, limit),
    )


def _with_secrets(body: bytes, mask: Mask) -> Mask:
    """*mask* that hides what proves who sent *body*, too. A text that is neither XML nor JSON has
    no fields, and is shown unless fields are masked: then it cannot be told what is in it."""
    return mask.with_names(SECRETS) if body.lstrip()[:1] in (b"<", b"{", b"[") else mask


def _without_keys(octets: bytes, mask: Mask, limit: int) -> Part:
    """The first *limit* bytes of an envelope or a header block, masked, and with ids in the place
    of keys: a producer names the address of a source of ours, and subscriptions of its own."""
    masked = mask.document(octets)
    if masked is None:
        return UNSHOWN
    text = shown_in(masked.decode("utf-8", "surrogateescape"))
    return part_of(text.encode("utf-8", "surrogateescape"), limit)


def recipient_view(recipient: Recipient, limit: int) -> RecipientView:
    """The view of one subscription, with the first *limit* bytes of what is sent."""
    subscription, step = recipient.entry.subscription, recipient.step
    return RecipientView(
        subscription=subscription.id,
        consumer=shown(subscription.consumer.address),
        spec=subscription.spec.version.value,
        gets=step.holds,
        why=step.text,
        details=list(step.details),
        sent=None if recipient.octets is None else part_of(recipient.octets, limit),
    )
