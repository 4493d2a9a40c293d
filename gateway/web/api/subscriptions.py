"""``/api/v1/subscriptions``: which there are, how they fare and why; pausing, renewing and ending
them; and new ones of consumers of CloudEvents."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from gateway.delivery import Entry
from gateway.delivery.send_again import SendAgain
from gateway.http import HttpLimits, client_certificate
from gateway.observing.attempts import AttemptLog
from gateway.observing.subscribe_requests import SubscribeRequests
from gateway.routes import Dependency, changing_nothing, open_to_tenants
from gateway.security.identify import without_limits
from gateway.security.principals import tenant_of
from gateway.soap.service import SoapService
from gateway.subscriptions.explaining import Explainer, Message, Step
from gateway.subscriptions.lifecycle.lifecycle import Lifecycle
from gateway.subscriptions.listing import SubscriptionReports
from gateway.subscriptions.management import SubscriptionManagement
from gateway.subscriptions.replaying import Replays
from gateway.subscriptions.table import SubscriptionTable
from gateway.web.api.subscription_selections import Chosen, Deleted, Listing
from gateway.web.dependencies import Asking, Masking, TenantSeen, refuse_when_stopping
from gateway.web.events.subscriptions import Create, Expires, expiry_of, make
from gateway.web.kept_messages import KeptMessages
from gateway.web.recipients import Recipients
from gateway.web.subscribe_requests import shown_request
from gateway.web.validation import JsonRoute
from gateway.web.views.attempts import AttemptView, attempt_view
from gateway.web.views.subscribe_requests import SubscribeRequestView, subscribe_request_view
from gateway.web.views.subscriptions import (
    StepView,
    SubscriptionView,
    manager_address,
    step_view,
    subscription_view,
)
from gateway.web.views.waiting_messages import WaitingMessageView, waiting_message_view
from gateway.web.waiting_messages import WaitingMessages
from mediation.model.messages import End

NOT_TAKEN = "The filter of this subscription does not take the message"
EXPLAIN_BODY = 2 * HttpLimits().envelope + 2**16
"""Bytes of a request with a message that a gateway takes, whose quotes JSON escapes."""


@dataclass(frozen=True, slots=True)
class SubscriptionParts:
    """What the routes of operators about subscriptions work with."""

    base: str
    asking: Asking
    service: SoapService
    table: SubscriptionTable
    lifecycle: Lifecycle
    reports: SubscriptionReports
    management: SubscriptionManagement
    explainer: Explainer
    attempts: AttemptLog
    send_again: SendAgain
    messages: KeptMessages
    recipients: Recipients
    waiting: WaitingMessages
    requests: SubscribeRequests
    replays: Replays


router = APIRouter(prefix="/subscriptions", tags=["subscriptions"], route_class=JsonRoute)
PARTS = Dependency[SubscriptionParts]()
Given = Annotated[SubscriptionParts, Depends(PARTS)]


class Asked(BaseModel, extra="forbid"):
    """Whether a subscription would get a message; or, with nothing said, how it stands with it."""

    payload: str | None = Field(None, description="An XML document.")
    topic: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description="The topic that it would be published on: `storms/coast`."
    )
    namespaces: dict[str, str] | None = Field(
        None, max_length=100, description="The prefixes of `topic`."
    )


class Pausing(BaseModel):
    """How a subscription is paused."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"hold": True}})

    hold: bool | None = Field(
        None,
        description="What is published meanwhile waits for it, within the bounds of any backlog, "
        "and does not pass it by; null: as the setting `hold_while_paused` says.",
    )


class Renewing(BaseModel):
    """The lease that is wanted."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"expires": "PT2H"}})

    expires: Expires = Field(
        None,
        description="Seconds, an xsd:duration or an xsd:dateTime; null leaves it to the gateway.",
    )


class SendingAgain(BaseModel):
    """The delivery that is to be made once more."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"message": "urn:uuid:5b0f"}}
    )

    message: Annotated[str, Field(min_length=1, max_length=2048)] = Field(
        description="The publisher's id of its message, as attempts and dead letters have it."
    )
    force: bool = Field(False, strict=True, description="Although its filter does not take it.")


class Attempts(BaseModel, extra="forbid"):
    attempts: list[AttemptView] = Field(description="The last 50, the latest first.")


class WaitingPage(BaseModel, extra="forbid"):
    messages: list[WaitingMessageView]
    next: int | None = Field(None, description="Pass it as `after` for the next page.")


class Page(BaseModel, extra="forbid"):
    subscriptions: list[SubscriptionView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


def _not_found() -> HTTPException:
    return HTTPException(404, "There is no such subscription.")


async def _named(id: str, parts: Given, tenant: TenantSeen) -> Entry:
    entry = parts.table.by_id(id)
    if entry is None or tenant not in (None, tenant_of(entry.subscription.owner)):
        raise _not_found()
    return entry


Named = Annotated[Entry, Depends(_named)]


@router.get("")
@open_to_tenants
async def list_subscriptions(
    parts: Given, listing: Annotated[Listing, Query()], tenant: TenantSeen
) -> Page:
    """Subscriptions in the order of their ids, or sorted: all, or those of a selection. A page of
    a selection may be short, or empty, and still have a `next`."""
    following: str | int | None
    if listing.sort is None:
        found, following = await parts.management.page(
            listing.selection(), after=listing.after, limit=listing.limit, tenant=tenant
        )
    else:
        found, following = await parts.management.sorted_page(
            listing.selection(),
            listing.sort,
            descending=listing.descending,
            start=listing.start,
            limit=listing.limit,
            tenant=tenant,
        )
    # In a thread: 500 views took the event loop 57 ms.
    views = await asyncio.to_thread(lambda: [subscription_view(one) for one in found])
    return Page(subscriptions=views, next=None if following is None else str(following))


@router.post("", status_code=201, dependencies=[Depends(refuse_when_stopping)])
@open_to_tenants
async def create_subscription(wanted: Create, request: Request, parts: Given) -> SubscriptionView:
    """Subscribe a consumer of CloudEvents, in the words of `POST /events/subscriptions`. Its
    `manager` is the public address at which it is shown, extended and ended; who has it, may."""
    principal = await parts.asking.principal(request)
    # Who may ask here may make any number.
    shown = client_certificate(request.scope, parts.asking.http)
    principal, content = without_limits(principal), await request.body()
    made = await make(parts.service, wanted, principal, parts.base, shown, content)
    for report in await parts.reports.of([made.id]):
        return subscription_view(report).model_copy(update={"manager": manager_address(made)})
    raise _not_found()


@router.delete("")
@open_to_tenants
async def delete_subscriptions(
    parts: Given, chosen: Annotated[Chosen, Query()], tenant: TenantSeen
) -> Deleted:
    """End some subscriptions, chosen in one of three ways: by `id`, as often as you like; by some
    of `topic`, `consumer`, `spec`, `state` and `owner`, all of which must hold; or with `all=true`.
    Nothing said never means all. Subscribers are told, where they asked for that."""
    found = await parts.management.delete(
        chosen.chosen(),
        after=chosen.after,
        limit=chosen.limit,
        tenant=tenant,
        dry_run=chosen.dry_run,
        reason="The subscription was ended by an operator.",
    )
    return Deleted(number=len(found.ids), ids=list(found.ids), next=found.next)


@router.get("/{id}")
@open_to_tenants
async def show_subscription(entry: Named, parts: Given) -> SubscriptionView:
    """One subscription, with what became of its deliveries."""
    return await _view(entry, parts)


async def _view(entry: Entry, parts: SubscriptionParts) -> SubscriptionView:
    for report in await parts.reports.of([entry.id]):
        return subscription_view(report)
    raise _not_found()


@router.post("/{id}/pause")
@open_to_tenants
async def pause_subscription(entry: Named, asked: Pausing, parts: Given) -> SubscriptionView:
    """Pause a subscription, as its subscriber may: nothing is sent until it is resumed. What waits
    already is kept; what is published meanwhile passes it by, or waits for it with `hold`."""
    await parts.management.pause(entry, hold=asked.hold)
    return await _view(entry, parts)


@router.post("/{id}/resume")
@open_to_tenants
async def resume_subscription(entry: Named, parts: Given) -> SubscriptionView:
    """Resume a subscription: what waits for it is sent, in its order."""
    await parts.management.resume(entry)
    return await _view(entry, parts)


@router.post("/{id}/renew")
@open_to_tenants
async def renew_subscription(
    entry: Named, asked: Renewing, request: Request, parts: Given
) -> SubscriptionView:
    """Move the end of a subscription's lease. Its specification says what it may be; a stranger's
    bounds do not count."""
    principal = without_limits(await parts.asking.principal(request))
    await parts.management.renew(entry, expiry_of(asked.expires), principal)
    return await _view(entry, parts)


@router.get("/{id}/attempts")
@open_to_tenants
async def list_attempts(entry: Named, parts: Given, masking: Masking) -> Attempts:
    """The last attempts to deliver to a subscription, as far as this gateway made and remembers
    them: of all subscriptions together 32 MiB, and none from before its start. What consumers
    answered is masked as `console_mask` says."""
    made = parts.attempts.of(entry.id)
    return Attempts(
        attempts=await asyncio.to_thread(lambda: [attempt_view(one, masking) for one in made])
    )


@router.get("/{id}/waiting")
@open_to_tenants
async def list_waiting(
    entry: Named,
    parts: Given,
    after: Annotated[int | None, Query(ge=-(2**63), le=2**63 - 1)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> WaitingPage:
    """The messages that wait for a subscription, in their order, without what is in them:
    `GET /api/v1/messages/{id}?content=true` shows that. Those of the store come first;
    what waits in memory alone is at the end."""
    page, following = await parts.waiting.page(entry, after, limit)
    return WaitingPage(messages=list(map(waiting_message_view, page)), next=following)


@router.get("/{id}/request")
@open_to_tenants
async def show_request(
    entry: Named,
    parts: Given,
    masking: Masking,
    limit: Annotated[int, Query(ge=0, le=2**31 - 1)] = 65_536,
) -> SubscribeRequestView:
    """The request that made a subscription: as it came, where it is one of the last 1,000 since the
    start (8 MiB), else as our client would write it. Ids stand in the places of keys; what proves
    who somebody is, and fields of `console_mask`, are masked."""
    shown = await asyncio.to_thread(shown_request, entry, parts.requests, masking, parts.base)
    return subscribe_request_view(shown, limit)


@router.post("/{id}/send-again")
async def send_again(
    entry: Named, asked: SendingAgain, parts: Given, masking: Masking
) -> AttemptView:
    """Make one delivery once more, as it was: with the same message id, in one attempt, and without
    any consequence for the subscription. What waits still waits, and a dead letter stays one. The
    message must wait for this subscription, or have died, or be one of the last that are kept
    (`console_messages`). One that the subscription's filter does not take is refused with 409,
    unless it is forced."""
    tenant = tenant_of(entry.subscription.owner)
    notification = await parts.messages.for_subscription(asked.message, entry.id, tenant)
    if notification is None:
        raise HTTPException(
            404,
            "The message is not kept: it neither waits for this subscription nor died, and is none "
            "of the last that the setting console_messages keeps.",
        )
    if not asked.force:
        step = await parts.recipients.explain(entry, notification)
        if not step.holds:
            raise HTTPException(409, f"{NOT_TAKEN}: it {step.text}. With `force` it is sent.")
    made = await parts.send_again.send(entry, notification)
    return await asyncio.to_thread(attempt_view, made, masking)


@router.post("/{id}/explain", max_body_size=EXPLAIN_BODY)
@open_to_tenants
@changing_nothing
async def explain(entry: Named, asked: Asked, parts: Given, tenant: TenantSeen) -> list[StepView]:
    """Why a subscription gets messages or does not, step by step; with a `payload`, whether it
    would get that. Of the consumer's address a tenant is told whether it may be sent to, and not
    where its name leads."""
    if asked.payload is None and asked.topic is not None:
        raise HTTPException(422, "`topic` is for a `payload`: give one, too.")
    message = None
    if asked.payload is not None:
        namespaces = tuple(sorted((asked.namespaces or {}).items()))
        message = Message(asked.payload.encode(), asked.topic, namespaces)
    steps = await parts.explainer.explain(entry, message)
    if tenant is not None:
        steps = [_for_a_tenant(step) for step in steps if step.name != "delivered by"]
    return [step_view(step) for step in steps]


def _for_a_tenant(step: Step) -> Step:
    """*step* without what names lead to: who subscribes names at will would map our network."""
    if step.name != "address":
        return step
    return Step(step.name, step.holds, "may be sent to" if step.holds else "cannot be sent to")


@router.delete("/{id}", status_code=204)
@open_to_tenants
async def delete_subscription(entry: Named, parts: Given) -> None:
    """End a subscription; its subscriber is told, where it asked for that."""
    await parts.lifecycle.end(
        entry, why=End.CANCELLING, reason="The subscription was ended by an operator."
    )
