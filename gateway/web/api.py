"""The JSON administration: subscriptions, mailboxes and dead letters."""

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field

from gateway.delivery import Entry
from gateway.doors import shown
from gateway.store import DeadLetter, deadletters, mailboxes, totals
from gateway.store.mailboxes import Mailbox, Size
from gateway.web.mailboxes import destroy
from mediation import End

if TYPE_CHECKING:
    from gateway.service import Gateway

PAGE = 100
LARGEST = 2**63 - 1
"""The largest number that a store takes."""


class Counts(BaseModel):
    """What became of a subscription's deliveries."""

    matched: int
    delivered: int
    waiting: int
    dead: int
    expired: int
    cancelled: int
    skipped: int


class SubscriptionView(BaseModel):
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
    counts: Counts | None = None


class Page(BaseModel):
    subscriptions: list[SubscriptionView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


class MailboxView(BaseModel):
    """A mailbox, without its key."""

    id: str
    owner: str
    kind: str
    messages: int
    octets: int
    dropped: int
    created: datetime
    used: datetime


class MailboxPage(BaseModel):
    mailboxes: list[MailboxView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


class DeadLetterView(BaseModel):
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


class DeadLetterPage(BaseModel):
    dead_letters: list[DeadLetterView]
    next: int | None = Field(None, description="Pass it as `after` for the next page.")


class Selection(BaseModel):
    """Which dead letters: those of these numbers, or all."""

    numbers: list[Annotated[int, Field(ge=0, le=LARGEST)]] | None = Field(None, max_length=10_000)


class Affected(BaseModel):
    number: int


def api_routes(gateway: "Gateway") -> APIRouter:
    """``/api/v1``."""
    router = APIRouter(prefix="/api/v1")

    def found(id_: str) -> Entry:
        entry = gateway.subscriptions.by_id(id_)
        if entry is None:
            raise HTTPException(404, "There is no such subscription.")
        return entry

    @router.get("/subscriptions", tags=["subscriptions"])
    async def list_subscriptions(
        after: str = "", limit: Annotated[int, Query(ge=1, le=1000)] = PAGE
    ) -> Page:
        """Subscriptions in the order of their ids."""
        chosen = sorted(entry.id for entry in gateway.subscriptions.entries if entry.id > after)
        views = [_view(found(id_)) for id_ in chosen[:limit]]
        more = len(chosen) > limit
        return Page(subscriptions=views, next=views[-1].id if more else None)

    @router.get("/subscriptions/{id}", tags=["subscriptions"])
    async def show_subscription(id: str) -> SubscriptionView:
        """One subscription, with what became of its deliveries."""
        entry = found(id)
        view = _view(entry)
        await gateway.courier.counted()
        counted = await gateway.store.submit(partial(totals.read, subscription=id))
        view.counts = Counts(
            matched=counted.matched,
            delivered=counted.delivered,
            waiting=counted.matched - counted.settled(),
            dead=counted.dead,
            expired=counted.expired,
            cancelled=counted.cancelled,
            skipped=counted.skipped,
        )
        return view

    @router.delete("/subscriptions/{id}", status_code=204, tags=["subscriptions"])
    async def delete_subscription(id: str) -> None:
        """End a subscription; its subscriber is told, where it asked for that."""
        await gateway.subscriptions.end(
            found(id), why=End.CANCELLING, reason="The subscription was ended by an operator."
        )

    async def found_box(id_: str) -> tuple[Mailbox, Size]:
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
            partial(deadletters.listed, subscription=subscription, after=after, limit=limit)
        )
        more = len(listed) == limit
        return DeadLetterPage(
            dead_letters=[_dead(letter) for letter in listed],
            next=listed[-1].number if more else None,
        )

    @router.post("/deadletters/redrive", tags=["dead letters"])
    async def redrive(selection: Selection) -> Affected:
        """Deliver dead letters again, with the same message ids, or put them back into their
        mailboxes; those of subscriptions and mailboxes that have ended stay where they are."""
        return Affected(number=await gateway.redrive(selection.numbers))

    @router.post("/deadletters/purge", tags=["dead letters"])
    async def purge(selection: Selection) -> Affected:
        """Forget dead letters; they stay counted."""
        number = await gateway.store.submit(partial(deadletters.purge, numbers=selection.numbers))
        return Affected(number=number)

    return router


def _view(entry: Entry) -> SubscriptionView:
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
    )


def _box(box: Mailbox, size: Size) -> MailboxView:
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
    )
