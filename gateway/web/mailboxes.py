"""Mailboxes for programs that speak no SOAP: JSON, and Server-Sent Events.

The key of a mailbox allows everything with it, at whichever address it was made.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Depends, Header, HTTPException, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.types import Scope

from filters import Refused
from gateway.exchange import Inbound
from gateway.http import client_certificate, public_base, until_gone, was_delivered
from gateway.mailboxes.errors import MailboxUnknown
from gateway.mailboxes.leases import AT_A_TIME, LONGEST_WAIT, Batch
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.removal import MailboxRemoval
from gateway.model.mailboxes import Mailbox, MailboxKind
from gateway.model.moments import moment_of
from gateway.parsing import Parsing
from gateway.routes import Dependency
from gateway.security.audit import note_refusal
from gateway.security.authorise import authorise
from gateway.security.keys import message_urn, public_id
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate
from gateway.security.resource_addresses import ResourceKind
from gateway.security.rights import Right
from gateway.soap.read import read_inbound
from gateway.soap.service import SoapService
from gateway.subscriptions.lifecycle.renewal import Renewal as LeaseRenewal
from gateway.subscriptions.mailbox_feeds import KEPT_ALIVE, MailboxFeeds
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.table import SubscriptionTable
from gateway.web.dependencies import Asking, refuse_when_stopping, route_of
from gateway.web.mailbox_streams import Streams
from gateway.web.parameters import Prefix, Text
from gateway.web.proofs import Proving
from gateway.web.refusals import REFUSALS
from gateway.web.validation import JsonRoute
from gateway.web.views.mailbox_messages import MessageView, mailbox_message_views
from mediation.client import SPECS, write_subscribe
from mediation.model.expiry import UNSPECIFIED, parse_expiry
from mediation.model.messages import EndpointReference
from mediation.model.requests import Rejected, Subscribe, Subscribed, SubscribePulling
from mediation.model.versions import Version, Wsa

LONGEST_LEASE = 3600.0
LATEST = 2**63 - 1
"""The greatest position that a store takes."""
OCTETS = 2**20
"""Octets of the messages in one answer, about: in JSON they are twice as long."""
NOTICED = 60.0
"""Seconds after which we no longer look whether an answer was taken in: its lease decides."""
_LEASE_ENDED = "Nothing is under this lease: it has ended, or all of it is acknowledged."
Expires = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | Text | None
Seconds = Annotated[float, Field(ge=1, le=LONGEST_LEASE, allow_inf_nan=False)]


class Wanted(Proving, extra="forbid"):
    """The messages that a new mailbox subscribes to. Without a topic and an XPath it subscribes to
    none, and its address is for others to send to; ``{"all": true}`` subscribes to everything."""

    all: bool = Field(False, strict=True, description="Everything, whatever its topic.")

    topic: Text | None = Field(None, description="A topic expression: a/b, a//., {urn:x}a.")
    xpath: Text | None = Field(None, description="XPath 1.0 that must hold for the payload.")
    namespaces: dict[Prefix, Text] = Field({}, max_length=100, description="Prefixes of both.")
    expires: Expires = Field(
        None, description="Of the subscription: seconds, or an xsd:duration or xsd:dateTime."
    )

    @property
    def subscribes(self) -> bool:
        return self.all or self.topic is not None or self.xpath is not None


class Made(BaseModel):
    """A mailbox; ``key`` opens it."""

    key: str
    id: str = Field(description="What lists and logs show.")
    address: str = Field(description="Consumers that are given it have their messages sent here.")
    events: str = Field(description="The messages as Server-Sent Events.")
    expires: datetime | None = Field(None, description="When its subscription ends.")


class Status(BaseModel):
    """The contents of a mailbox, in numbers."""

    id: str
    messages: int
    bytes: int
    octets: int = Field(description="The former name of `bytes`.")
    dropped: int = Field(description="Messages that went to the dead letters: no room, or too old.")
    created: datetime
    used: datetime = Field(description="When somebody last took messages.")
    expires: datetime | None = Field(None, description="When its subscription ends.")


class Receive(BaseModel, extra="forbid"):
    """The number of messages to take, the seconds to wait for one, and for how long others get none
    of them."""

    max: Annotated[int, Field(ge=1, le=AT_A_TIME)] = 10
    wait: Annotated[float, Field(ge=0, le=LONGEST_WAIT, allow_inf_nan=False)] = 20.0
    lease: Seconds = 30.0


class Leased(BaseModel):
    """Messages that nobody else gets ``until`` then; acknowledge them before."""

    lease: str
    until: datetime
    more: bool = Field(description="Whether others are left.")
    messages: list[MessageView]


class Under(BaseModel, extra="forbid"):
    """A lease, and which of its messages: those of these ids, or all."""

    lease: Annotated[str, Field(pattern="^[ -~]{1,100}$")]
    ids: (
        Annotated[
            list[Annotated[int, Field(ge=0, le=LATEST)]], Field(min_length=1, max_length=AT_A_TIME)
        ]
        | None
    ) = None


class Longer(Under):
    seconds: Seconds = 30.0


class Renewal(BaseModel, extra="forbid"):
    """A new end of a subscription, as in `Wanted`."""

    expires: Expires = None


class Affected(BaseModel):
    number: int


@dataclass(frozen=True, slots=True)
class MailboxParts:
    """What the routes of mailboxes work with; `making` limits how many a stranger makes."""

    asking: Asking
    mailboxes: Mailboxes
    removal: MailboxRemoval
    table: SubscriptionTable
    renewal: LeaseRenewal
    replication: Replication
    feeds: MailboxFeeds
    parsing: Parsing
    service: SoapService
    streams: Streams
    making: PrincipalRate


router = APIRouter(
    prefix="/mailboxes",
    tags=["mailboxes"],
    dependencies=[Depends(refuse_when_stopping)],
    route_class=JsonRoute,
    responses=dict(REFUSALS),
)
PARTS = Dependency[MailboxParts]()
Given = Annotated[MailboxParts, Depends(PARTS)]


def _authorise_reader(principal: Principal) -> None:
    for right in (Right.SUBSCRIBE, Right.MANAGE):
        authorise(principal, right)


def _check_reader(mailbox: Mailbox, principal: Principal) -> None:
    """Refuse *principal* as a reader of *mailbox*.

    Raises:
        Refused: It has no right to read mailboxes, or none to this one.
    """
    _authorise_reader(principal)
    if not principal.reaches(mailbox.owner):
        raise MailboxUnknown


async def _named(key: str, request: Request, parts: Given) -> Mailbox:
    principal = await parts.asking.principal(request)
    try:
        _authorise_reader(principal)
        parts.asking.demands.check_plain(request.scope["path"], Right.MANAGE)
    except Refused as refused:
        did = f"{request.method} {ResourceKind.MAILBOX.value}"
        note_refusal(parts.asking.audit, principal, did, public_id(key.lower()), refused)
        raise
    mailbox = await parts.mailboxes.reached(key.lower(), principal)
    if mailbox.kind is MailboxKind.SUBSCRIPTION:  # Another gateway may have made it.
        await parts.replication.refresh()
    return mailbox


Named = Annotated[Mailbox, Depends(_named)]
"""The mailbox whose key is in the path."""


@router.post("", status_code=201)
async def make_mailbox(wanted: Wanted, request: Request, parts: Given) -> Made:
    """Make a mailbox; with a topic or an XPath, subscribed to what passes them; with `all`, to
    everything."""
    principal = await parts.asking.principal(request)
    base = public_base(request.scope, parts.asking.http)
    if wanted.all and wanted.topic is not None:
        raise HTTPException(422, "all: true has no topic beside it: leave out one of the two.")
    if wanted.subscribes:
        shown = client_certificate(request.scope, parts.asking.http)
        mailbox = await _make_subscribed(
            parts, wanted, principal, base, shown, await request.body(), request.scope["path"]
        )
    elif wanted.namespaces or wanted.expires is not None:
        raise HTTPException(422, "namespaces and expires go with a topic, an xpath or all.")
    else:
        authorise(principal, Right.SUBSCRIBE)
        parts.making.take(principal)
        mailbox = await parts.mailboxes.make(MailboxKind.MAILBOX, principal)
        _note_change(parts, principal, request, mailbox)
    at = ResourceKind.MAILBOX.address(base, mailbox.key)
    return Made(
        key=mailbox.key,
        id=mailbox.id,
        address=at,
        events=f"{at}/events",
        expires=_end_of_subscription(parts, mailbox),
    )


@router.get("/{key}")
async def show_mailbox_by_key(mailbox: Named, parts: Given) -> Status:
    """What lies in a mailbox."""
    size = await parts.mailboxes.size(mailbox)
    return Status(
        id=mailbox.id,
        messages=size.messages,
        bytes=size.octets,
        octets=size.octets,
        dropped=size.dropped,
        created=moment_of(size.created),
        used=moment_of(size.used),
        expires=_end_of_subscription(parts, mailbox),
    )


@router.delete("/{key}", status_code=204)
async def delete_mailbox_by_key(mailbox: Named, request: Request, parts: Given) -> None:
    """Forget a mailbox with all that lies in it, and end what fills it."""
    principal = await parts.asking.principal(request)
    await parts.removal.remove(mailbox)
    _note_change(parts, principal, request, mailbox)


@router.post("/{key}/renew")
async def renew_mailbox(mailbox: Named, renewal: Renewal, request: Request, parts: Given) -> Status:
    """Move the end of the mailbox's subscription."""
    entry = parts.table.made_with(mailbox)
    if entry is None:
        raise HTTPException(409, "No subscription was made with this mailbox.")
    text = _expiry(renewal.expires)
    asked = parse_expiry(text) if text is not None else UNSPECIFIED
    principal = await parts.asking.principal(request)
    await parts.renewal.renew(entry, asked, principal, now=datetime.now(UTC))
    _note_change(parts, principal, request, mailbox)
    return await show_mailbox_by_key(mailbox, parts)


@router.post("/{key}/receive")
async def receive(
    mailbox: Named, wanted: Receive, request: Request, background: BackgroundTasks, parts: Given
) -> Leased:
    """Take the oldest messages; if there are none, wait for one. They come again, to whoever
    asks next, unless they are acknowledged in time."""
    await parts.feeds.keep_alive_by_reading(mailbox, wanted.wait + KEPT_ALIVE)
    batch = await parts.mailboxes.leases.take(
        mailbox,
        most=wanted.max,
        octets=OCTETS,
        wait=wanted.wait,
        lease=wanted.lease,
        gone=partial(until_gone, request.receive),
    )
    try:
        if batch.messages and wanted.wait:  # Its right may be gone since.
            _check_reader(mailbox, await parts.asking.principal(request))
        messages = await mailbox_message_views(batch.messages, parts.parsing, owner=mailbox.owner)
    except BaseException:
        await parts.mailboxes.leases.handed_over(batch, False)
        raise
    if messages:
        background.add_task(_release_if_lost, parts.mailboxes, batch, request.scope, wanted.lease)
    return Leased(
        lease=batch.lease,
        until=moment_of(batch.until),
        more=batch.more,
        messages=messages,
    )


@router.post("/{key}/acknowledge")
async def acknowledge(mailbox: Named, under: Under, parts: Given) -> Affected:
    """Remove messages: they are dealt with."""
    return _affected(await parts.mailboxes.leases.acknowledge(mailbox, under.lease, under.ids))


@router.post("/{key}/release")
async def release(mailbox: Named, under: Under, parts: Given) -> Affected:
    """Give messages back: they are the oldest again."""
    return _affected(await parts.mailboxes.leases.release(mailbox, under.lease, under.ids))


@router.post("/{key}/extend")
async def extend_lease(mailbox: Named, under: Longer, parts: Given) -> Affected:
    """Let a lease end so many seconds from now."""
    return _affected(
        await parts.mailboxes.leases.extend(mailbox, under.lease, under.seconds, under.ids)
    )


@router.get(
    "/{key}/events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}}},
)
async def stream(
    request: Request,
    mailbox: Named,
    parts: Given,
    last_event_id: Annotated[str | None, Query()] = None,
    resumed: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
) -> Response:
    """The messages as Server-Sent Events: `data` is one message, as `receive` gives it. A
    stream that begins ends the one before it."""
    after = _position(resumed)
    refused = partial(parts.asking.until_refused, request, partial(_check_reader, mailbox))
    return parts.streams.open(
        mailbox, _position(last_event_id) if after is None else after, refused
    )


def _note_change(
    parts: MailboxParts, principal: Principal, request: Request, mailbox: Mailbox
) -> None:
    """Have the audit log note what changed a mailbox; a subscription is noted where it is made."""
    parts.asking.audit.note(principal, route_of(request), f"mailboxes {mailbox.id}")


def _end_of_subscription(parts: MailboxParts, mailbox: Mailbox) -> datetime | None:
    entry = parts.table.made_with(mailbox)
    return entry.subscription.lease.expires if entry else None


async def _make_subscribed(
    parts: MailboxParts,
    wanted: Wanted,
    principal: Principal,
    base: str,
    certificate: bytes | None,
    content: bytes,
    path: str,
) -> Mailbox:
    """Make a mailbox with the subscription that fills it: the Subscribe of WS-BaseNotification that
    *wanted* stands for is read, and refused, as if it had been sent.

    Raises:
        Refused: It cannot be read, or not be granted.
    """
    _, envelope = write_subscribe(
        SPECS[Version.WSN_1_3],
        to=f"{base}/soap",
        consumer=EndpointReference(base, Wsa.V2005_08),
        message_id=message_urn(),
        topic=wanted.topic,
        xpath=wanted.xpath,
        namespaces=wanted.namespaces,
        expires=_expiry(wanted.expires),
    )
    inbound = Inbound(
        octets=envelope,
        principal=principal,
        base=base,
        path=path,
        certificate=certificate,
        proof=wanted.proof(content),
    )
    try:
        incoming = await read_inbound(inbound, parts.parsing)
    except Rejected as rejected:
        raise rejected.refused from rejected
    request = incoming.request
    if not isinstance(request, Subscribe):  # pragma: no cover
        raise TypeError(request)
    pulling = SubscribePulling(request.filter, request.expires)
    subscribed = await parts.service.execute(inbound, replace(incoming, request=pulling))
    if not isinstance(subscribed, Subscribed):  # pragma: no cover
        raise TypeError(subscribed)
    return await parts.mailboxes.find(subscribed.subscription.key)


def _expiry(said: float | str | None) -> str | None:
    """Seconds as an xsd:duration."""
    return f"PT{said:.3f}S" if isinstance(said, float) else said


async def _release_if_lost(mailboxes: Mailboxes, batch: Batch, scope: Scope, lease: float) -> None:
    """Give back what was written to somebody who had gone: others need not wait for the lease."""
    if not await was_delivered(scope, min(lease, NOTICED)):
        await mailboxes.leases.handed_over(batch, False)


def _affected(number: int) -> Affected:
    if not number:
        raise HTTPException(409, _LEASE_ENDED)
    return Affected(number=number)


def _position(text: str | None) -> int | None:
    """The position that an id of an event is; whatever else stands there says nothing."""
    if text and text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    return None
