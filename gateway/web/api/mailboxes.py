"""``/api/v1/mailboxes``: which there are, how much lies in them, and their end."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, Field

from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.removal import MailboxRemoval
from gateway.model.mailboxes import Mailbox, MailboxSize
from gateway.routes import Dependency, open_to_tenants
from gateway.security.principals import tenant_of
from gateway.web.dependencies import TenantSeen
from gateway.web.parameters import PAGE, After, Limit, page_of
from gateway.web.validation import JsonRoute
from gateway.web.views.mailboxes import MailboxView, mailbox_view


@dataclass(frozen=True, slots=True)
class MailboxParts:
    """What the routes of operators about mailboxes work with."""

    mailboxes: Mailboxes
    removal: MailboxRemoval


router = APIRouter(prefix="/mailboxes", tags=["administration of mailboxes"], route_class=JsonRoute)
PARTS = Dependency[MailboxParts]()
Given = Annotated[MailboxParts, Depends(PARTS)]


class MailboxPage(BaseModel, extra="forbid"):
    mailboxes: list[MailboxView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


async def _named(id: str, parts: Given, tenant: TenantSeen) -> tuple[Mailbox, MailboxSize]:
    found = await parts.mailboxes.find_by_id(id)
    if found is None or tenant not in (None, tenant_of(found[0].owner)):
        raise HTTPException(404, "There is no such mailbox.")
    return found


Named = Annotated[tuple[Mailbox, MailboxSize], Depends(_named)]


@router.get("")
@open_to_tenants
async def list_mailboxes(
    parts: Given,
    tenant: TenantSeen,
    after: After = "",
    limit: Limit = PAGE,
) -> MailboxPage:
    """Mailboxes in the order of their ids."""
    found = await parts.mailboxes.listed(after, limit + 1, tenant)
    views = (mailbox_view(*one) for one in found)
    page, next_ = page_of(views, limit, lambda view: view.id)
    return MailboxPage(mailboxes=page, next=next_)


@router.get("/{id}")
@open_to_tenants
async def show_mailbox(named: Named) -> MailboxView:
    """One mailbox."""
    return mailbox_view(*named)


@router.delete("/{id}", status_code=204)
@open_to_tenants
async def delete_mailbox(named: Named, parts: Given) -> None:
    """Forget a mailbox with all that lies in it, and end what fills it."""
    mailbox, _ = named
    await parts.removal.remove(mailbox)
