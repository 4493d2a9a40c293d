"""``/api/v1/messages``: what became of one, and what is in it."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path, Query
from pydantic import BaseModel, Field

from gateway.observing.masking import Mask
from gateway.routes import Dependency, open_to_tenants
from gateway.subscriptions.message_tracing import MessageTracing, Traced
from gateway.web.dependencies import TenantSeen
from gateway.web.kept_messages import KeptMessages
from gateway.web.parameters import PAGE, page_of
from gateway.web.validation import JsonRoute
from gateway.web.views.message_contents import (
    MessageContent,
    RecentView,
    message_content,
    recent_view,
)
from gateway.web.views.messages import MessageView, message_view
from mediation.tenants import as_its_tenant_knows_it

MOST_AFTER = 2048 + 64
"""Characters of an id, and of the tenant in front of it."""
SHOWN = 16 * 2**10
"""Bytes of a document that are shown where nothing else is asked for."""


@dataclass(frozen=True, slots=True)
class MessageParts:
    """What the route of messages works with."""

    tracing: MessageTracing
    kept: KeptMessages
    mask: Mask


router = APIRouter(prefix="/messages", tags=["messages"], route_class=JsonRoute)
PARTS = Dependency[MessageParts]()
Given = Annotated[MessageParts, Depends(PARTS)]


class MessagesView(BaseModel, extra="forbid"):
    messages: list[MessageView]


class RecentPage(BaseModel, extra="forbid"):
    messages: list[RecentView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


@router.get("")
@open_to_tenants
async def list_recent_messages(
    parts: Given,
    tenant: TenantSeen,
    after: Annotated[
        str, Query(max_length=MOST_AFTER, description="The `next` of the page before.")
    ] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
) -> RecentPage:
    """The last messages that are kept whole (`console_messages`), the newest first, without what is
    in them; none where the setting is 0. Behind one that is not kept any more comes nothing. A
    tenant has its own."""
    newest = iter(parts.kept.newest(tenant))
    if after:
        any(one.place == after for one in newest)  # Goes on behind it.
    page, following = page_of(newest, limit, lambda one: one.place)
    views = [recent_view(one, own=tenant is not None) for one in page]
    return RecentPage(messages=views, next=following)


@router.get("/{id:path}")
@open_to_tenants
async def trace_message(
    parts: Given,
    tenant: TenantSeen,
    id: Annotated[str, Path(min_length=1, max_length=2048)],
    content: Annotated[
        bool, Query(description="Show it as it came, and as it was understood, too.")
    ] = False,
    limit: Annotated[
        int, Query(ge=0, le=2**31 - 1, description="Bytes of each document that are shown.")
    ] = SHOWN,
) -> MessagesView:
    """What became of a message: by the id of its publisher, of one of its notifications, or the one
    that a consumer was told. With `content` also what is in it, while it waits, where it died, or
    where it is one of the last that the setting `console_messages` keeps."""
    found = await parts.tracing.trace(id, tenant)
    if not found:
        raise HTTPException(
            404,
            "Nothing is known of such a message: none of the last 10,000 has this id, and none of "
            "it waits or died.",
        )
    if not content:
        return MessagesView(messages=list(map(message_view, found)))
    views = [message_view(one, await _content(parts, one, limit, tenant)) for one in found]
    return MessagesView(messages=views)


async def _content(
    parts: MessageParts, traced: Traced, limit: int, tenant: str | None
) -> MessageContent | None:
    """The content of a message, where it is kept, for who sees the messages of *tenant* or of
    all."""
    notification = await parts.kept.find(traced.id, traced.tenant)
    if notification is None:
        return None
    if tenant is not None:
        notification = as_its_tenant_knows_it(notification)
    recent = parts.kept.recent(traced.id, traced.tenant)
    work = partial(message_content, notification, recent, parts.mask, limit)
    return await asyncio.to_thread(work)  # To mask may take time for each element.
