"""``/api/v1/mailboxes``: which there are, how much lies in them, and their end."""

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, Field

from gateway.model.mailboxes import Mailbox, MailboxSize
from gateway.web.parameters import PAGE, After, Limit, page_of
from gateway.web.parts import Parts
from gateway.web.validation import JsonRoute
from gateway.web.views.mailboxes import MailboxView, mailbox_view

router = APIRouter(prefix="/mailboxes", tags=["administration of mailboxes"], route_class=JsonRoute)


class MailboxPage(BaseModel, extra="forbid"):
    mailboxes: list[MailboxView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


async def _named(id: str, web: Parts) -> tuple[Mailbox, MailboxSize]:
    found = await web.mailboxes.find_by_id(id)
    if found is None:
        raise HTTPException(404, "There is no such mailbox.")
    return found


Named = Annotated[tuple[Mailbox, MailboxSize], Depends(_named)]


@router.get("")
async def list_mailboxes(
    web: Parts,
    after: After = "",
    limit: Limit = PAGE,
) -> MailboxPage:
    """Mailboxes in the order of their ids."""
    views = (mailbox_view(*one) for one in await web.mailboxes.listed(after, limit + 1))
    page, next_ = page_of(views, limit, lambda view: view.id)
    return MailboxPage(mailboxes=page, next=next_)


@router.get("/{id}")
async def show_mailbox(named: Named) -> MailboxView:
    """One mailbox."""
    return mailbox_view(*named)


@router.delete("/{id}", status_code=204)
async def delete_mailbox(named: Named, web: Parts) -> None:
    """Forget a mailbox with all that lies in it, and end what fills it."""
    mailbox, _ = named
    await web.removal.remove(mailbox)
