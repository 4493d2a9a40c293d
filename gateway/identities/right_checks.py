"""Says which rule lets a principal do something, as operators ask: by names alone, without
credentials."""

from collections.abc import Collection
from dataclasses import dataclass

from filters import Topic
from gateway.security.identities import Identities
from gateway.security.principals import Identity
from gateway.security.rights import NOBODY_IN_PARTICULAR, Right, Rule


@dataclass(frozen=True, slots=True)
class RightCheck:
    """What was found.

    Attributes:
        names: Those by which rules speak of the principal.
        rule: The first that lets it; None: none does.
    """

    names: frozenset[str]
    rule: Rule | None


def check_right(
    found: Identities,
    principal: str,
    right: Right,
    topic: Topic | None = None,
    *,
    roles: Collection[str] = (),
    tenant: str | None = None,
    authorities: frozenset[str] = frozenset(),
) -> RightCheck:
    """Find the rule of *found* that lets *principal* do something.

    Args:
        principal: ``user:NAME``, ``cert:SUBJECT`` and so on, or the name of a user alone.
        roles: Those that its token says, beside those that *found* gives it.
        tenant: That it belongs to; None: what *found* says of a user.
        authorities: Those that have certified it.
    """
    whole = ":" in principal or principal == NOBODY_IN_PARTICULAR
    owner = principal if whole else f"user:{principal}"
    known = found.user_of_name.get(owner.removeprefix("user:"))
    if known is not None and tenant not in (None, known.tenant):
        known = None  # Somebody else, who is called so in another tenant.
    all_roles = frozenset([*(known.roles if known else ()), *roles])
    if tenant is None:
        tenant = known.tenant if known else ""
    names = Identity(owner, all_roles, tenant=tenant, authorities=authorities).names
    return RightCheck(names, found.policy.grants(names).rule_for(right, topic))
