"""``/api/v1/deadletters``: which there are, one of them whole, redrive and purge."""

import asyncio
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path, Query
from pydantic import AwareDatetime, BaseModel, Field

from gateway.model.dead_letter_reasons import DeathReason
from gateway.model.moments import seconds_of
from gateway.routes import Dependency, open_to_tenants
from gateway.security.principals import tenant_of
from gateway.store.dead_letters import Selection
from gateway.subscriptions import dead_letters
from gateway.subscriptions.dead_letters import DeadLetters, covers
from gateway.web.dependencies import Masking, TenantSeen
from gateway.web.parameters import PAGE
from gateway.web.validation import JsonRoute
from gateway.web.views.dead_letters import (
    DeadLetterDetail,
    DeadLetterView,
    dead_letter_detail,
    dead_letter_view,
)

SHOWN = 16 * 2**10
"""Bytes of a payload and of an envelope that are shown where nothing else is asked for."""
LARGEST = 2**63 - 1
"""The largest number that a store takes."""
router = APIRouter(prefix="/deadletters", tags=["dead letters"], route_class=JsonRoute)
LETTERS = Dependency[DeadLetters]()
Given = Annotated[DeadLetters, Depends(LETTERS)]


class DeadLetterPage(BaseModel, extra="forbid"):
    dead_letters: list[DeadLetterView]
    next: int | None = Field(None, description="Pass it as `after` for the next page.")


class Chosen(BaseModel, extra="forbid"):
    """Which dead letters, in one of three ways: `numbers`; or some of `subscription`, `topic`,
    `reason`, `since` and `message`, all of which must hold; or `"all": true`. Nothing said never
    means all."""

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
    message: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        None, description="Those of the message with this id: the publisher's, or the consumer's."
    )
    dry_run: bool = Field(False, description="Say how many there are, and change nothing.")
    limit: int | None = Field(
        None, ge=1, le=LARGEST, description="About how many at most; `next` says where to go on."
    )
    after: str | None = Field(None, max_length=64, description="The `next` of an answer.")

    def selection(self) -> Selection:
        """The letters meant.

        Raises:
            HTTPException: Nothing is chosen, or in two ways.
            FilterError: ``topic`` is not a topic expression.
        """
        chosen = [
            name
            for name in ("subscription", "topic", "reason", "since", "message")
            if getattr(self, name) is not None
        ]
        if (self.numbers is not None) + self.all + bool(chosen) > 1:
            raise HTTPException(
                422,
                "Choose dead letters in one way: by `numbers`, by `subscription`, `topic`, "
                '`reason`, `since` and `message`, or with `"all": true`.',
            )
        if self.numbers is None and not self.all and not chosen:
            raise HTTPException(
                422,
                "Say which dead letters: `numbers`, or `subscription`, `topic`, `reason`, "
                '`since` or `message`, or `"all": true`.',
            )
        if self.namespaces and self.topic is None:
            raise HTTPException(422, "`namespaces` needs a `topic`.")
        topic = covers(self.topic, self.namespaces or {}) if self.topic is not None else None
        numbers = None if self.numbers is None else frozenset(self.numbers)
        since = None if self.since is None else seconds_of(self.since)
        return Selection(
            numbers, self.subscription, topic, self.reason, since, message=self.message
        )


class Listing(BaseModel, extra="forbid"):
    """A page of a selection of dead letters: those for which all that is given holds."""

    subscription: Annotated[str, Field(pattern="^[ -~]{1,64}$")] | None = None
    topic: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description="A topic expression of the Full dialect: `storms//.`"
    )
    ns: list[Annotated[str, Field(max_length=2048)]] = Field(
        [], max_length=100, description="A prefix of `topic`: `w=urn:w`."
    )
    reason: DeathReason | None = None
    since: AwareDatetime | None = Field(None, description="Those that died then or later.")
    message: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        None, description="Those of the message with this id: the publisher's, or the consumer's."
    )
    after: int = Field(0, ge=0, le=LARGEST, description="The `next` of an answer.")
    limit: int = Field(PAGE, ge=1, le=1000)

    def selection(self) -> Selection:
        """The letters meant.

        Raises:
            HTTPException: ``ns`` is no prefix.
            FilterError: ``topic`` is not a topic expression.
        """
        namespaces = dict(one.split("=", 1) for one in self.ns if "=" in one)
        if len(namespaces) != len(self.ns) or (self.ns and self.topic is None):
            raise HTTPException(422, "ns: must be a prefix of `topic`, `w=urn:w`, once each.")
        topic = covers(self.topic, namespaces) if self.topic is not None else None
        since = None if self.since is None else seconds_of(self.since)
        return Selection(None, self.subscription, topic, self.reason, since, message=self.message)


class Affected(BaseModel, extra="forbid"):
    number: int
    reasons: dict[str, int] = Field(description="How many of each reason.")
    next: str | None = Field(None, description="Pass it as `after` to go on; null at the end.")


@router.get("")
@open_to_tenants
async def list_dead_letters(
    letters: Given,
    masking: Masking,
    listing: Annotated[Listing, Query()],
    tenant: TenantSeen,
) -> DeadLetterPage:
    """Dead letters in the order in which they died: all, or those of a selection, as `redrive` and
    `purge` take it. A page of a selection may be short, or empty, and still have a `next`."""
    listed, following = await letters.selected(
        replace(listing.selection(), tenant=tenant), after=listing.after, limit=listing.limit
    )
    # In a thread: answers are read to be masked.
    views = await asyncio.to_thread(lambda: [dead_letter_view(one, masking) for one in listed])
    return DeadLetterPage(dead_letters=views, next=following)


@router.get("/{number}")
@open_to_tenants
async def show_dead_letter(
    letters: Given,
    masking: Masking,
    tenant: TenantSeen,
    number: Annotated[int, Path(ge=0, le=LARGEST)],
    limit: Annotated[int, Query(ge=0, le=2**31 - 1)] = SHOWN,
) -> DeadLetterDetail:
    """One dead letter, with the first `limit` bytes of its payload and of its envelope,
    masked as `console_mask` says."""
    letter = await letters.show(number)
    if letter is None or tenant not in (None, tenant_of(letter.letter.death.owner)):
        raise HTTPException(404, "There is no such dead letter.")
    return await asyncio.to_thread(dead_letter_detail, letter, masking, limit)


@router.post("/redrive")
@open_to_tenants
async def redrive(chosen: Chosen, letters: Given, tenant: TenantSeen) -> Affected:
    """Deliver dead letters again, with the same message ids, put them back into their mailboxes,
    or publish them, where their topics could not be read; those of subscriptions and mailboxes that
    have ended, and what still cannot be read, stay where they are."""
    selection = replace(chosen.selection(), tenant=tenant)
    if chosen.dry_run:
        work = letters.count(selection, redrivable=True, limit=chosen.limit, after=chosen.after)
    else:
        work = letters.redrive(selection, limit=chosen.limit, after=chosen.after)
    return _affected(await work)


@router.post("/purge")
@open_to_tenants
async def purge(chosen: Chosen, letters: Given, tenant: TenantSeen) -> Affected:
    """Forget dead letters; they stay counted."""
    selection = replace(chosen.selection(), tenant=tenant)
    if chosen.dry_run:
        work = letters.count(selection, redrivable=False, limit=chosen.limit, after=chosen.after)
    else:
        work = letters.purge(selection, limit=chosen.limit, after=chosen.after)
    return _affected(await work)


def _affected(done: dead_letters.Affected) -> Affected:
    return Affected(number=done.number, reasons=dict(sorted(done.reasons.items())), next=done.next)
