"""``/api/v1/keys``: API keys of users, by the file of identities and by the store."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from gateway.security.identities import Name, RightName, TenantName
from gateway.web.dependencies import Administrator
from gateway.web.identities import Identities
from gateway.web.parameters import PAGE, After, Limit, page_of
from gateway.web.validation import JsonRoute
from gateway.web.views.identities import KeyView, NewKeyView, key_views

router = APIRouter(prefix="/keys", tags=["identities"], route_class=JsonRoute)
Id = Annotated[str, Path(max_length=64)]


class KeyRequest(BaseModel, extra="forbid"):
    """A key to make."""

    user: Name = Field(description="A user of the file, or of the store.")
    may: Annotated[list[RightName], Field(min_length=1, max_length=6)] | None = Field(
        None, description="Less than its user may."
    )
    tenant: TenantName | Annotated[str, Field(max_length=0)] | None = Field(
        None, description="It is made only where its user belongs to this tenant."
    )
    days: float | None = Field(
        None, gt=0, le=36_500, description="After which it expires; without it, never."
    )


class RotationRequest(BaseModel, extra="forbid"):
    """Another key in place of one."""

    hours: float = Field(24, ge=0, le=8760, description="For which the former is taken, too.")


class KeyPage(BaseModel, extra="forbid"):
    keys: list[KeyView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


@router.get("")
async def list_keys(identities: Identities, after: After = "", limit: Limit = PAGE) -> KeyPage:
    """Keys in the order of their ids."""
    page, next_ = page_of(key_views(identities.in_force, after), limit, lambda view: view.id)
    return KeyPage(keys=page, next=next_)


@router.post("", status_code=201)
async def add_key(
    wanted: KeyRequest, identities: Identities, administrator: Administrator
) -> NewKeyView:
    """Make a key of a user, and tell it, this once: the store has no more than its hash."""
    expires = None
    if wanted.days is not None:
        expires = (datetime.now(UTC) + timedelta(days=wanted.days)).replace(microsecond=0)
    key, id_ = await identities.add_key(
        wanted.user, administrator.owner, wanted.may or (), expires, tenant=wanted.tenant
    )
    return NewKeyView(id=id_, key=key)


@router.post("/{id}/rotate", status_code=201)
async def rotate_key(
    id: Id,
    wanted: RotationRequest,
    identities: Identities,
    administrator: Administrator,
) -> NewKeyView:
    """Make a key like one of the store, which is taken for some hours more."""
    key, new_id = await identities.rotate_key(id, administrator.owner, wanted.hours)
    return NewKeyView(id=new_id, key=key)


@router.delete("/{id}", status_code=204)
async def remove_key(id: Id, identities: Identities, _: Administrator) -> None:
    """Remove a key from the store."""
    await identities.remove_key(id)
