"""``/api/v1/messages``: what became of one, and what is in it."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path, Query
from pydantic import BaseModel, Field

from gateway.observing.masking import Mask
from gateway.routes import Dependency
from gateway.subscriptions.message_tracing import MessageTracing, Traced
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
async def list_recent_messages(
    parts: Given,
    after: Annotated[
        str, Query(max_length=2048, description="The id of the last one of a page.")
    ] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
) -> RecentPage:
    """The last messages that are kept whole (`console_messages`), the newest first, without what is
    in them; none where the setting is 0. Behind one that is not kept any more comes nothing."""
    newest = iter(parts.kept.newest())
    if after:
        any(one.notification.id == after for one in newest)  # Goes on behind it.
    page, following = page_of(map(recent_view, newest), limit, lambda view: view.id)
    return RecentPage(messages=page, next=following)


@router.get("/{id:path}")
async def trace_message(
    parts: Given,
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
    found = await parts.tracing.trace(id)
    if not found:
        raise HTTPException(
            404,
            "Nothing is known of such a message: none of the last 10,000 has this id, and none of "
            "it waits or died.",
        )
    if not content:
        return MessagesView(messages=list(map(message_view, found)))
    views = [message_view(one, await _content(parts, one, limit)) for one in found]
    return MessagesView(messages=views)


async def _content(parts: MessageParts, traced: Traced, limit: int) -> MessageContent | None:
    """The content of a message, where it is kept."""
    notification = await parts.kept.find(traced.id)
    if notification is None:
        return None
    recent = parts.kept.recent(traced.id)
    work = partial(message_content, notification, recent, parts.mask, limit)
    return await asyncio.to_thread(work)  # To mask may take time for each element.
