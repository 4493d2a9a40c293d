"""``/api/v1/recipients``: what each subscription makes of one message."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query
from pydantic import BaseModel, Field

from gateway.routes import Dependency
from gateway.web.kept_messages import KeptMessages
from gateway.web.parameters import After
from gateway.web.recipients import Recipients
from gateway.web.validation import JsonRoute
from gateway.web.views.message_contents import RecipientView, recipient_view

PAGE, LONGEST_PAGE = 20, 50
SHOWN = 16 * 2**10
"""Bytes of a document that are shown where nothing else is asked for."""
NOT_KEPT = (
    "The message is not kept whole: none of it waits or died, and it is none of the last that the "
    "setting console_messages keeps."
)


@dataclass(frozen=True, slots=True)
class RecipientParts:
    """What the route works with."""

    messages: KeptMessages
    recipients: Recipients


router = APIRouter(prefix="/recipients", tags=["messages"], route_class=JsonRoute)
PARTS = Dependency[RecipientParts]()
Given = Annotated[RecipientParts, Depends(PARTS)]


class RecipientPage(BaseModel, extra="forbid"):
    recipients: list[RecipientView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


@router.get("")
async def list_recipients(
    parts: Given,
    message: Annotated[str, Query(min_length=1, max_length=2048, description="Its id.")],
    matched: Annotated[
        bool | None, Query(description="Those that get it, or those that do not.")
    ] = None,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=LONGEST_PAGE)] = PAGE,
    octets: Annotated[int, Query(alias="bytes", ge=0, le=2**31 - 1)] = SHOWN,
) -> RecipientPage:
    """What each subscription makes of a message that is kept whole, in the order of their ids: as
    its consumer is sent it, or why its filter says no. Filters are asked as they are now; of the
    rights to topics that are somebody's nothing is said. With `matched` a page may be short, or
    empty, and still have a `next`."""
    notification = await parts.messages.find(message)
    if notification is None:
        raise HTTPException(404, NOT_KEPT)
    page, following = await parts.recipients.page(
        notification, matched=matched, after=after, limit=limit
    )
    return RecipientPage(recipients=[recipient_view(one, octets) for one in page], next=following)
