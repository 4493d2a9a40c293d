"""``/api/v1/rights``: rules that say who may do what, by the file of identities and by the
store."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Query
from pydantic import BaseModel, Field

from filters import FilterError, parse_clark
from gateway.identities.right_checks import check_right
from gateway.security.identities import (
    AuthorityName,
    Name,
    RightName,
    RightsRow,
    TenantName,
)
from gateway.security.rights import Right
from gateway.web.dependencies import Administrator
from gateway.web.identities import Identities, there
from gateway.web.parameters import PAGE, Limit, Prefix, Text, page_of
from gateway.web.validation import JsonRoute
from gateway.web.views.identities import (
    CheckView,
    RuleView,
    rule_view,
    rule_views,
    stored_rule_view,
)

router = APIRouter(prefix="/rights", tags=["identities"], route_class=JsonRoute)


Who = Annotated[
    str,
    Field(
        pattern="^(everybody|anonymous|(user|role|cert|ca|broker):.+)$",
        max_length=1024,
    ),
]


class RuleRequest(BaseModel, extra="forbid"):
    """A rule to add."""

    who: Annotated[list[Who], Field(min_length=1, max_length=100)] = Field(
        description="user:NAME, role:NAME, cert:SUBJECT, ca:NAME, broker:NAME, anonymous, "
        "everybody.",
    )
    may: Annotated[list[RightName], Field(min_length=1, max_length=6)]
    topics: Annotated[list[Text], Field(max_length=100)] = Field(
        [], description="Full topic expressions, for publish and subscribe; none: all."
    )
    namespaces: dict[Prefix, Text] = Field({}, max_length=100, description="Their prefixes.")
    tenant: TenantName | Annotated[str, Field(max_length=0)] = Field(
        "", description="Of whose users it speaks alone."
    )
    authority: AuthorityName | None = Field(
        None, description="Who must have issued the certificates that it names."
    )


class RulePage(BaseModel, extra="forbid"):
    rules: list[RuleView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


@router.get("")
async def list_rules(
    identities: Identities, after: Annotated[int, Query(ge=0)] = 0, limit: Limit = PAGE
) -> RulePage:
    """Rules: those of the file in its order, then those of the store by their age."""
    page, more = page_of(rule_views(identities.in_force, after), limit, lambda view: view.id)
    return RulePage(rules=page, next=str(after + limit) if more else None)


@router.post("", status_code=201)
async def add_rule(
    wanted: RuleRequest, identities: Identities, administrator: Administrator
) -> RuleView:
    """Add a rule to the store: it is in force at once. It takes a rule that lets the sender do
    everything."""
    rule = RightsRow(**wanted.model_dump())
    id_ = await identities.add_rule(rule, administrator.owner)
    return there(stored_rule_view(identities.in_force, id_))


@router.get("/check")
async def check(
    identities: Identities,
    principal: Annotated[str, Query(min_length=1, max_length=1024)],
    right: Right,
    topic: Annotated[str | None, Query(max_length=8192)] = None,
    role: Annotated[list[Name], Query(max_length=100)] = [],  # noqa: B006  # FastAPI copies it.
    tenant: TenantName | Annotated[str, Field(max_length=0)] | None = None,
) -> CheckView:
    """Say whether *principal* (`user:NAME`, `cert:SUBJECT`, ..., or a user's name alone) may do
    something, and which rule decides: with the roles that its last token said, and further ones."""
    try:
        about = parse_clark(topic) if topic is not None else None
    except FilterError as error:
        raise HTTPException(422, f"topic: {error.text}.") from None
    found = identities.in_force
    checked = check_right(found.identities, principal, right, about, roles=role, tenant=tenant)
    rule = rule_view(found, checked.rule.number) if checked.rule is not None else None
    return CheckView(allowed=rule is not None, rule=rule, names=sorted(checked.names))


@router.delete("/{id}", status_code=204)
async def remove_rule(
    id: Annotated[str, Path(max_length=64)], identities: Identities, _: Administrator
) -> None:
    """Remove a rule from the store: what it granted ends within a second."""
    await identities.remove_rule(id)
