"""Users, API keys and rules: those of the file of identities, and those that the store keeps."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import Literal, TypedDict, TypeVar

from pydantic import BaseModel, Field

from gateway.identities.in_force import IdentitiesInForce, known_of
from gateway.model.moments import moment_of
from gateway.model.stored_identities import StoredIdentity
from gateway.security.api_key_hashes import api_key_id
from gateway.security.identities import Key, RightsRow, User, is_expired


class Place(Enum):
    """Where something is kept, and changed."""

    FILE = "file"
    STORE = "store"


class _KeptView(BaseModel, extra="forbid"):
    kept_in: Place = Field(description="What is in the file of identities is changed there alone.")
    kept_by: str | None = Field(description="Who kept it in the store, or changed it last.")
    kept: datetime | None = Field(description="When that was.")
    problem: str | None = Field(
        description="Why it is not in force: it does not go with the file. Null: it is."
    )


class UserView(_KeptView):
    """A user."""

    name: str
    proofs: list[Literal["password", "digest", "key", "certificate"]] = Field(
        description="How it may prove that it is this user; a digest is of HTTP or of WS-Security."
    )
    password: bool
    keys: int
    certificates: int
    roles: list[str]
    tenant: str = Field(description="Empty: the default one.")


class KeyView(_KeptView):
    """An API key, without itself."""

    id: str
    user: str
    may: list[str] | None = Field(description="Null: all that its user may.")
    expires: datetime | None
    state: Literal["valid", "expired"]
    expired: bool


class NewKeyView(BaseModel, extra="forbid"):
    """A key that was made; it is told this one time."""

    id: str
    key: str


class RuleView(_KeptView):
    """A rule."""

    id: str = Field(description="Of one in the file `file-` and its place there, from 1.")
    who: list[str]
    may: list[str]
    topics: list[str] = Field(description="None: all, and what has none.")
    namespaces: dict[str, str]
    tenant: str = Field(description="Of whose users it speaks alone; empty: of all.")
    authority: str | None


class CheckView(BaseModel, extra="forbid"):
    """Whether somebody may do something."""

    allowed: bool
    rule: RuleView | None = Field(description="The first rule that lets it.")
    names: list[str] = Field(description="Those by which rules speak of it.")


class _Kept(TypedDict):
    kept_in: Place
    kept_by: str | None
    kept: datetime | None
    problem: str | None


_IN_FILE = _Kept(kept_in=Place.FILE, kept_by=None, kept=None, problem=None)


def _in_store(one: StoredIdentity, found: IdentitiesInForce) -> _Kept:
    return _Kept(
        kept_in=Place.STORE,
        kept_by=one.by,
        kept=moment_of(one.at),
        problem=found.problem_of(one),
    )


def user_views(found: IdentitiesInForce) -> Iterator[UserView]:
    """All users: those of the file, then those of the store."""
    keys = Counter(key.user for key in found.identities.keys)
    certificates = Counter(row.user for row in found.identities.certificates)
    users = [(user, _IN_FILE) for user in found.file.users]
    users += [(row, _in_store(one, found)) for one, row in _rows(found, User)]
    for user, kept in users:
        yield UserView(
            name=user.name,
            proofs=list(_proofs(user, keys, certificates)),
            password=user.password is not None,
            keys=keys[user.name],
            certificates=certificates[user.name],
            roles=list(user.roles),
            tenant=user.tenant,
            **kept,
        )


def _proofs(
    user: User, keys: Counter[str], certificates: Counter[str]
) -> Iterator[Literal["password", "digest", "key", "certificate"]]:
    if user.password is not None:
        yield "password"
    if user.digest is not None:
        yield "digest"
    if keys[user.name]:
        yield "key"
    if certificates[user.name]:
        yield "certificate"


def key_views(found: IdentitiesInForce) -> Iterator[KeyView]:
    """All keys: those of the file, then those of the store."""
    keys = [(key, _IN_FILE) for key in found.file.keys]
    keys += [(row, _in_store(one, found)) for one, row in _rows(found, Key)]
    for key, kept in keys:
        yield KeyView(
            id=api_key_id(key.hash),
            user=key.user,
            may=list(key.may) if key.may is not None else None,
            expires=key.expires,
            state="expired" if is_expired(key.expires) else "valid",
            expired=is_expired(key.expires),
            **kept,
        )


def rule_views(found: IdentitiesInForce) -> Iterator[RuleView]:
    """All rules: those of the file, then those of the store."""
    for number, rule in enumerate(found.file.rights, start=1):
        yield _rule_view(f"file-{number}", rule, _IN_FILE)
    for one, row in _rows(found, RightsRow):
        yield _rule_view(one.id, row, _in_store(one, found))


def rule_view(found: IdentitiesInForce, number: int) -> RuleView:
    """The rule in force that has a *number*."""
    rule = found.identities.rights[number - 1]
    one = found.stored_rule(number)
    if one is None:
        return _rule_view(f"file-{number}", rule, _IN_FILE)
    return _rule_view(one.id, rule, _in_store(one, found))


def _rule_view(rule_id: str, rule: RightsRow, kept: _Kept) -> RuleView:
    return RuleView(
        id=rule_id,
        who=list(rule.who),
        may=list(rule.may),
        topics=list(rule.topics),
        namespaces=dict(rule.namespaces),
        tenant=rule.tenant,
        authority=rule.authority,
        **kept,
    )


R = TypeVar("R", User, Key, RightsRow)


def _rows(found: IdentitiesInForce, kind: type[R]) -> Iterator[tuple[StoredIdentity, R]]:
    """What the store keeps of a *kind*."""
    for one in found.stored:
        row = known_of(one)
        if isinstance(row, kind):
            yield one, row
