"""``/api/v1/users``: who there is, by the file of identities and by the store."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field, SecretStr

from gateway.security.identities import Name, TenantName
from gateway.security.passwords import MAX_LENGTH
from gateway.web.dependencies import Administrator
from gateway.web.identities import Identities, there
from gateway.web.parameters import PAGE, Limit, page_of
from gateway.web.validation import JsonRoute
from gateway.web.views.identities import UserView, stored_user_view, user_views

router = APIRouter(prefix="/users", tags=["identities"], route_class=JsonRoute)


class UserRequest(BaseModel, extra="forbid"):
    """A user to keep in the store, or what is to be changed of one that is there."""

    name: Name
    password: SecretStr | None = Field(None, min_length=1, max_length=MAX_LENGTH)
    digest: bool = Field(
        False,
        description="It may prove the password by a digest of WS-Security or of HTTP (RFC 7616), "
        "too, as devices do: it is kept, encrypted.",
    )
    roles: Annotated[list[Name], Field(max_length=100)] | None = None
    tenant: TenantName | Annotated[str, Field(max_length=0)] | None = Field(
        None, description="Of `[[tenants]]` of the file; empty: the default one."
    )


class UserPage(BaseModel, extra="forbid"):
    users: list[UserView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


@router.get("")
async def list_users(
    identities: Identities,
    after: Annotated[str, Query(max_length=256)] = "",
    limit: Limit = PAGE,
) -> UserPage:
    """Users in the order of their names."""
    views = user_views(identities.in_force, after)
    page, next_ = page_of(views, limit, lambda view: view.name)
    return UserPage(users=page, next=next_)


@router.post("", status_code=201)
async def keep_user(
    wanted: UserRequest, identities: Identities, administrator: Administrator
) -> UserView:
    """Keep a user in the store, or give one that there is another password, other roles or another
    tenant. It takes a rule that lets the sender do everything."""
    password = wanted.password.get_secret_value() if wanted.password is not None else None
    await identities.keep_user(
        wanted.name,
        administrator.owner,
        password=password,
        digest=wanted.digest,
        roles=wanted.roles,
        tenant=wanted.tenant,
    )
    return there(stored_user_view(identities.in_force, wanted.name))


@router.delete("/{name:path}", status_code=204)
async def remove_user(
    name: Annotated[str, Path(max_length=256)], identities: Identities, _: Administrator
) -> None:
    """Remove a user from the store, with the keys that it has there."""
    await identities.remove_user(name)
