"""``/api/v1/messages``: what became of one."""

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path
from pydantic import BaseModel

from gateway.routes import Dependency
from gateway.subscriptions.message_tracing import MessageTracing
from gateway.web.validation import JsonRoute
from gateway.web.views.messages import MessageView, message_view

router = APIRouter(prefix="/messages", tags=["messages"], route_class=JsonRoute)
TRACING = Dependency[MessageTracing]()
Given = Annotated[MessageTracing, Depends(TRACING)]


class MessagesView(BaseModel, extra="forbid"):
    messages: list[MessageView]


@router.get("/{id:path}")
async def trace_message(
    tracing: Given, id: Annotated[str, Path(min_length=1, max_length=2048)]
) -> MessagesView:
    """What became of a message: by the id of its publisher, of one of its notifications, or the one
    that a consumer was told."""
    found = await tracing.trace(id)
    if not found:
        raise HTTPException(
            404,
            "Nothing is known of such a message: none of the last 10,000 has this id, and none of "
            "it waits or died.",
        )
    return MessagesView(messages=list(map(message_view, found)))
