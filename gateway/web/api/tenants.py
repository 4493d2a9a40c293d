"""``/api/v1/tenants``: those beside the default one, and what they use of their quotas."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request
from pydantic import BaseModel, Field

from gateway.mailboxes.mailboxes import Mailboxes
from gateway.routes import Dependency, open_to_tenants
from gateway.security.tenant_quotas import TenantQuotas, Tenants
from gateway.store.owner_bytes import OwnerBytes
from gateway.store.tenant_backlogs import TenantBacklogs
from gateway.subscriptions.table import SubscriptionTable
from gateway.web.dependencies import Asking
from gateway.web.tenant_overviews import TenantOverviews
from gateway.web.validation import JsonRoute
from gateway.web.views.tenants import TenantOverviewView, tenant_overview_view


@dataclass(frozen=True, slots=True)
class TenantParts:
    """What the routes of tenants work with."""

    asking: Asking
    tenants: Tenants
    table: SubscriptionTable
    mailboxes: Mailboxes
    owner_bytes: OwnerBytes
    backlogs: TenantBacklogs
    overviews: TenantOverviews


router = APIRouter(prefix="/tenants", tags=["tenants"], route_class=JsonRoute)
PARTS = Dependency[TenantParts]()
Given = Annotated[TenantParts, Depends(PARTS)]


class QuotaView(BaseModel, extra="forbid"):
    """How much of something a tenant has, and may have at most."""

    used: int | None = Field(description="Null for a rate.")
    limit: float | None = Field(description="Null is any number; of a rate: a second.")
    refused: int = Field(description="Requests to this gateway that were refused by it.")


class TenantView(BaseModel, extra="forbid"):
    """A tenant, and its quotas."""

    name: str
    subscriptions: QuotaView
    mailboxes: QuotaView
    disk: QuotaView = Field(description="Bytes that are kept for its users.")
    backlog: QuotaView = Field(
        description="Deliveries that wait, in the store, and in memory at this gateway. `refused` "
        "are those that became dead letters by it."
    )
    messages: QuotaView = Field(description="Events published, a second.")
    bytes: QuotaView = Field(description="Bytes of them, a second.")


class TenantPage(BaseModel, extra="forbid"):
    tenants: list[TenantView]


@router.get("")
@open_to_tenants
async def list_tenants(request: Request, parts: Given) -> TenantPage:
    """The tenants by their names. A tenant's own users see that one alone."""
    seen = await _seen_by(request, parts)
    there = sorted(filter(seen, parts.tenants), key=lambda one: one.name)
    return TenantPage(tenants=[await _view(one, parts) for one in there])


@router.get("/{name}")
@open_to_tenants
async def show_tenant(name: str, request: Request, parts: Given) -> TenantView:
    """One tenant."""
    return await _view(await _find(name, request, parts), parts)


@router.get("/{name}/overview")
@open_to_tenants
async def show_tenant_overview(name: str, request: Request, parts: Given) -> TenantOverviewView:
    """The figures of one tenant: what it has, what waits, what died, which of its consumers fail.
    They are made once in five seconds at most."""
    return tenant_overview_view(await parts.overviews.overview(await _find(name, request, parts)))


async def _find(name: str, request: Request, parts: TenantParts) -> TenantQuotas:
    """The tenant called *name*, if who asks sees it."""
    seen = await _seen_by(request, parts)
    found = parts.tenants.get(name)
    if found is None or not seen(found):
        raise HTTPException(404, "There is no such tenant.")
    return found


async def _seen_by(request: Request, parts: TenantParts) -> Callable[[TenantQuotas], bool]:
    own = (await parts.asking.principal(request)).tenant
    return lambda one: own in ("", one.name)


async def _view(one: TenantQuotas, parts: TenantParts) -> TenantView:
    def quota(name: str, used: int | None) -> QuotaView:
        limit = getattr(one.quotas, name)
        return QuotaView(used=used, limit=limit, refused=one.refused[name])

    return TenantView(
        name=one.name,
        subscriptions=quota("subscriptions", parts.table.of_tenant(one.name)),
        mailboxes=quota("mailboxes", await parts.mailboxes.number_of(one.name)),
        disk=quota("disk", parts.owner_bytes.of_tenant(one.name)),
        backlog=quota("backlog", parts.backlogs.of_tenant(one.name)),
        messages=quota("messages", None),
        bytes=quota("bytes", None),
    )
