"""The JSON administration: subscriptions, mailboxes and dead letters."""

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, HTTPException, Path, Query
from pydantic import AwareDatetime, BaseModel, Field

from gateway.delivery import Entry
from gateway.delivery.status import DeliveryStatus
from gateway.http import HttpLimits
from gateway.model.deaths import DeadLetter, DeathReason
from gateway.model.mailboxes import Mailbox, MailboxSize
from gateway.security.resource_addresses import shown
from gateway.store import Totals, mailboxes, totals
from gateway.store import dead_letters as rows
from gateway.store.dead_letters import Selection
from gateway.subscriptions import dead_letters
from gateway.subscriptions.dead_letters import covers
from gateway.subscriptions.explaining import Message, explain_subscription
from gateway.web.mailboxes import destroy
from gateway.web.validation import JsonRoute
from mediation import End

if TYPE_CHECKING:
    from gateway.server.application import Gateway

PAGE = 100
EXPLAIN_BODY = 2 * HttpLimits().envelope + 2**16
"""Bytes of a request with a message that a gateway takes, whose quotes JSON escapes."""
SHOWN = 16 * 2**10
"""Bytes of a payload and of an envelope that are shown where nothing else is asked for."""
LARGEST = 2**63 - 1
"""The largest number that a store takes."""


class Counts(BaseModel, extra="forbid"):
    """What became of a subscription's deliveries."""

    matched: int
    delivered: int
    waiting: int
    dead: int
    expired: int
    cancelled: int
    skipped: int


class DeliveryView(BaseModel, extra="forbid"):
    """How it stands with the deliveries, as far as this gateway makes them. What went wrong is kept
    in memory: after a restart it is known again from the next attempt on."""

    failures: int = Field(description="Attempts in a row that failed.")
    last_error: str | None
    last_error_at: datetime | None
    last_attempt: datetime | None = Field(description="By this gateway, since it started.")
    next_attempt: datetime | None = Field(description="Of what waits; null where nothing does.")
    breaker_until: datetime | None = Field(
        description="While so much fails that only a probe is sent: when the next one is."
    )
    elsewhere: list[str] = Field(
        description="Other replicas that deliver for it, and their partitions: ask them, too."
    )


class SubscriptionView(BaseModel, extra="forbid"):
    """A subscription, without its key."""

    id: str
    owner: str
    spec: str
    soap: str
    consumer: str
    end_to: str | None
    topics: list[str]
    contents: list[str]
    raw: bool
    paused: bool
    created: datetime
    expires: datetime | None
    state: str = Field(
        description="active, paused, expired, failing, waiting for breaker; unknown where other "
        "replicas deliver for it, too, and nothing is wrong here."
    )
    delivery: DeliveryView
    counts: Counts


class Asked(BaseModel, extra="forbid"):
    """Whether a subscription would get a message; or, with nothing said, how it stands with it."""

    payload: str | None = Field(None, description="An XML document.")
    topic: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description="The topic that it would be published on: `storms/coast`."
    )
    namespaces: dict[str, str] | None = Field(
        None, max_length=100, description="The prefixes of `topic`."
    )


class StepView(BaseModel, extra="forbid"):
    """One thing that must be so for messages to arrive."""

    name: str
    holds: bool | None = Field(description="null where it is not known.")
    text: str
    details: list[str]


class Page(BaseModel, extra="forbid"):
    subscriptions: list[SubscriptionView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


class MailboxView(BaseModel, extra="forbid"):
    """A mailbox, without its key."""

    id: str
    owner: str
    kind: str
    messages: int
    octets: int
    dropped: int
    created: datetime
    used: datetime


class MailboxPage(BaseModel, extra="forbid"):
    mailboxes: list[MailboxView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


class DeadLetterView(BaseModel, extra="forbid"):
    number: int
    subscription: str
    message_id: str
    topic: str | None
    reason: str
    status: int | None
    failure: str | None
    answer: str
    attempts: int
    since: datetime
    died: datetime
    owner: str
    consumer: str | None
    bytes: int


class Part(BaseModel, extra="forbid"):
    """The first bytes of a document, as text; `bytes` is how many it has."""

    text: str
    bytes: int
    whole: bool


class DeadLetterDetail(DeadLetterView, extra="forbid"):
    """A dead letter with its message. `envelope` is what was sent, or, of a mailbox, what lay in
    it; null where the subscription has ended."""

    action: str | None
    attachments: int
    payload: Part | None
    envelope: Part | None


class DeadLetterPage(BaseModel, extra="forbid"):
    dead_letters: list[DeadLetterView]
    next: int | None = Field(None, description="Pass it as `after` for the next page.")


class Chosen(BaseModel, extra="forbid"):
    """Which dead letters, in one of three ways: `numbers`; or some of `subscription`, `topic`,
    `reason` and `since`, all of which must hold; or `"all": true`. Nothing said never means all."""

    all: bool = Field(False, strict=True)
    numbers: (
        Annotated[
            list[Annotated[int, Field(ge=0, le=LARGEST)]], Field(min_length=1, max_length=10_000)
        ]
        | None
    ) = None
    subscription: Annotated[str, Field(pattern="^[ -~]{1,64}$")] | None = None
    topic: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description="A topic expression of the Full dialect: `storms//.`"
    )
    namespaces: dict[str, str] | None = Field(
        None, max_length=100, description="The prefixes of `topic`."
    )
    reason: DeathReason | None = None
    since: AwareDatetime | None = Field(None, description="Those that died then or later.")
    dry_run: bool = Field(False, description="Say how many there are, and change nothing.")
    limit: int | None = Field(
        None, ge=1, le=LARGEST, description="About how many at most; `next` says where to go on."
    )
    after: str | None = Field(None, max_length=64, description="The `next` of an answer.")

    def selection(self) -> Selection:
        """The letters meant.

        Raises:
            HTTPException: Nothing is chosen, or in two ways.
            FilterError: ``topic`` is no topic expression.
        """
        chosen = [
            name
            for name in ("subscription", "topic", "reason", "since")
            if getattr(self, name) is not None
        ]
        if (self.numbers is not None) + self.all + bool(chosen) > 1:
            raise HTTPException(
                422,
                "Choose dead letters in one way: by `numbers`, by `subscription`, `topic`, "
                '`reason` and `since`, or with `"all": true`.',
            )
        if self.numbers is None and not self.all and not chosen:
            raise HTTPException(
                422,
                "Say which dead letters: `numbers`, or `subscription`, `topic`, `reason` or "
                '`since`, or `"all": true`.',
            )
        if self.namespaces and self.topic is None:
            raise HTTPException(422, "`namespaces` are those of a `topic`, and there is none.")
        topic = covers(self.topic, self.namespaces or {}) if self.topic is not None else None
        numbers = None if self.numbers is None else frozenset(self.numbers)
        since = None if self.since is None else self.since.timestamp()
        return Selection(numbers, self.subscription, topic, self.reason, since)


class Affected(BaseModel, extra="forbid"):
    number: int
    reasons: dict[str, int] = Field(description="How many of each reason.")
    next: str | None = Field(None, description="Pass it as `after` to go on; null at the end.")


def api_routes(gateway: "Gateway") -> APIRouter:
    """``/api/v1``."""
    router = APIRouter(prefix="/api/v1", route_class=JsonRoute)

    def found(id_: str) -> Entry:
        entry = gateway.subscriptions.by_id(id_)
        if entry is None:
            raise HTTPException(404, "There is no such subscription.")
        return entry

    async def viewed(ids: list[str]) -> list[SubscriptionView]:
        """The subscriptions with these ids that there still are, with their counts."""
        await gateway.dispatcher.counted()
        counted = await gateway.store.submit(partial(totals.read_some, subscriptions=ids))
        entries = filter(None, map(gateway.subscriptions.by_id, ids))
        return [
            _view(entry, gateway.dispatcher.status(entry), counted.get(entry.id, Totals()))
            for entry in entries
        ]

    @router.get("/subscriptions", tags=["subscriptions"])
    async def list_subscriptions(
        after: str = "", limit: Annotated[int, Query(ge=1, le=1000)] = PAGE
    ) -> Page:
        """Subscriptions in the order of their ids."""
        chosen = await gateway.subscriptions.listed(after, limit + 1)
        views = await viewed(list(chosen[:limit]))
        more = len(chosen) > limit
        return Page(subscriptions=views, next=chosen[limit - 1] if more else None)

    @router.get("/subscriptions/{id}", tags=["subscriptions"])
    async def show_subscription(id: str) -> SubscriptionView:
        """One subscription, with what became of its deliveries."""
        found(id)
        for view in await viewed([id]):
            return view
        raise HTTPException(404, "There is no such subscription.")

    @router.post("/subscriptions/{id}/explain", tags=["subscriptions"], max_body_size=EXPLAIN_BODY)
    async def explain(id: str, asked: Asked) -> list[StepView]:
        """Why a subscription gets messages or does not, step by step; with a `payload`, whether it
        would get that."""
        entry = found(id)
        if asked.payload is None and asked.topic is not None:
            raise HTTPException(422, "`topic` is that of a `payload`, and there is none.")
        message = None
        if asked.payload is not None:
            namespaces = tuple(sorted((asked.namespaces or {}).items()))
            message = Message(asked.payload.encode(), asked.topic, namespaces)
        return [
            StepView(name=step.name, holds=step.holds, text=step.text, details=list(step.details))
            for step in await explain_subscription(gateway, entry, message)
        ]

    @router.delete("/subscriptions/{id}", status_code=204, tags=["subscriptions"])
    async def delete_subscription(id: str) -> None:
        """End a subscription; its subscriber is told, where it asked for that."""
        await gateway.subscriptions.end(
            found(id), why=End.CANCELLING, reason="The subscription was ended by an operator."
        )

    async def found_box(id_: str) -> tuple[Mailbox, MailboxSize]:
        there = []
        if id_.isascii() and id_.isprintable():  # No database need be asked for others.
            there = await gateway.store.submit(partial(mailboxes.listed, id_=id_, limit=1))
        if not there:
            raise HTTPException(404, "There is no such mailbox.")
        return there[0]

    @router.get("/mailboxes", tags=["administration of mailboxes"])
    async def list_mailboxes(
        after: Annotated[str, Query(pattern="^[ -~]{0,64}$")] = "",
        limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
    ) -> MailboxPage:
        """Mailboxes in the order of their ids."""
        listed = await gateway.store.submit(partial(mailboxes.listed, after=after, limit=limit + 1))
        views = [_box(*one) for one in listed[:limit]]
        return MailboxPage(mailboxes=views, next=views[-1].id if len(listed) > limit else None)

    @router.get("/mailboxes/{id}", tags=["administration of mailboxes"])
    async def show_mailbox(id: str) -> MailboxView:
        """One mailbox."""
        return _box(*await found_box(id))

    @router.delete("/mailboxes/{id}", status_code=204, tags=["administration of mailboxes"])
    async def delete_mailbox(id: str) -> None:
        """Forget a mailbox with all that lies in it, and end what fills it."""
        box, _ = await found_box(id)
        await destroy(gateway, box)

    @router.get("/deadletters", tags=["dead letters"])
    async def list_dead_letters(
        subscription: Annotated[str | None, Query(pattern="^[ -~]{1,64}$")] = None,
        after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
    ) -> DeadLetterPage:
        """Dead letters in the order in which they died."""
        listed = await gateway.store.submit(
            partial(rows.listed, subscription=subscription, after=after, limit=limit)
        )
        more = len(listed) == limit
        return DeadLetterPage(
            dead_letters=[_dead(letter) for letter in listed],
            next=listed[-1].number if more else None,
        )

    @router.get("/deadletters/{number}", tags=["dead letters"])
    async def show_dead_letter(
        number: Annotated[int, Path(ge=0, le=LARGEST)],
        limit: Annotated[int, Query(ge=0, le=2**31 - 1)] = SHOWN,
    ) -> DeadLetterDetail:
        """One dead letter, with the first `limit` bytes of its payload and of its envelope."""
        letter = await gateway.dead_letters.show(number)
        if letter is None:
            raise HTTPException(404, "There is no such dead letter.")
        return DeadLetterDetail(
            **dict(_dead(letter.letter)),
            action=letter.action,
            attachments=letter.attachments,
            payload=_part(letter.payload, limit),
            envelope=_part(letter.envelope, limit),
        )

    @router.post("/deadletters/redrive", tags=["dead letters"])
    async def redrive(chosen: Chosen) -> Affected:
        """Deliver dead letters again, with the same message ids, or put them back into their
        mailboxes; those of subscriptions and mailboxes that have ended stay where they are."""
        selection, letters = chosen.selection(), gateway.dead_letters
        if chosen.dry_run:
            work = letters.count(selection, redrivable=True, limit=chosen.limit, after=chosen.after)
        else:
            work = letters.redrive(selection, limit=chosen.limit, after=chosen.after)
        return _affected(await work)

    @router.post("/deadletters/purge", tags=["dead letters"])
    async def purge(chosen: Chosen) -> Affected:
        """Forget dead letters; they stay counted."""
        selection, letters = chosen.selection(), gateway.dead_letters
        if chosen.dry_run:
            work = letters.count(
                selection, redrivable=False, limit=chosen.limit, after=chosen.after
            )
        else:
            work = letters.purge(selection, limit=chosen.limit, after=chosen.after)
        return _affected(await work)

    return router


def _affected(done: dead_letters.Affected) -> Affected:
    return Affected(number=done.number, reasons=dict(sorted(done.reasons.items())), next=done.next)


def _counts(counted: Totals) -> Counts:
    return Counts(
        matched=counted.matched,
        delivered=counted.delivered,
        waiting=counted.matched - counted.settled(),
        dead=counted.dead,
        expired=counted.expired,
        cancelled=counted.cancelled,
        skipped=counted.skipped,
    )


def _delivery(status: DeliveryStatus) -> DeliveryView:
    return DeliveryView(
        failures=status.failures,
        last_error=status.last_error,
        last_error_at=_at(status.last_error_at),
        last_attempt=_at(status.last_attempt),
        next_attempt=_at(status.next_attempt),
        breaker_until=_at(status.breaker_until),
        elsewhere=list(status.elsewhere),
    )


def _at(moment: float | None) -> datetime | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC)


def _view(entry: Entry, status: DeliveryStatus, counted: Totals) -> SubscriptionView:
    subscription = entry.subscription
    filter_ = subscription.filter
    return SubscriptionView(
        id=subscription.id,
        owner=subscription.owner,
        spec=subscription.spec.version.value,
        soap="1.1" if subscription.spec.soap.name == "V1_1" else "1.2",
        consumer=shown(subscription.consumer.address),
        end_to=shown(subscription.end_to.address) if subscription.end_to else None,
        topics=[one.text for one in filter_.topics],
        contents=[one.text for one in (*filter_.contents, *filter_.others)],
        raw=subscription.policy.raw,
        paused=subscription.policy.paused,
        created=subscription.lease.created,
        expires=subscription.lease.expires,
        state=status.state.value,
        delivery=_delivery(status),
        counts=_counts(counted),
    )


def _box(box: Mailbox, size: MailboxSize) -> MailboxView:
    return MailboxView(
        id=box.id,
        owner=box.owner,
        kind=box.kind.value,
        messages=size.messages,
        octets=size.octets,
        dropped=size.dropped,
        created=datetime.fromtimestamp(size.created, UTC),
        used=datetime.fromtimestamp(size.used, UTC),
    )


def _dead(letter: DeadLetter) -> DeadLetterView:
    death = letter.death
    return DeadLetterView(
        number=letter.number,
        subscription=death.subscription,
        message_id=death.delivery_id,
        topic=death.topic,
        reason=death.reason.value,
        status=death.status,
        failure=death.failure,
        answer=death.answer,
        attempts=death.attempts,
        since=datetime.fromtimestamp(death.since, UTC),
        died=datetime.fromtimestamp(death.died, UTC),
        owner=death.owner,
        consumer=shown(death.consumer) if death.consumer else None,
        bytes=letter.octets,
    )


def _part(octets: bytes | None, limit: int) -> Part | None:
    if octets is None:
        return None
    text = octets[:limit].decode("utf-8", "replace")
    return Part(text=text, bytes=len(octets), whole=len(octets) <= limit)
