"""Users, API keys and rules: those of the file of identities, and those that the store keeps."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Literal, TypedDict, TypeVar

from pydantic import BaseModel, Field

from gateway.identities.in_force import ROWS, IdentitiesInForce, known_of
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


def _kept(one: StoredIdentity | None, found: IdentitiesInForce) -> _Kept:
    if one is None:
        return _IN_FILE
    return _Kept(
        kept_in=Place.STORE,
        kept_by=one.by,
        kept=moment_of(one.at),
        problem=found.problem_of(one),
    )


def user_views(found: IdentitiesInForce, after: str = "") -> Iterator[UserView]:
    """The users in the order of their names, behind *after*: each is made when it is asked for."""
    keys = Counter(key.user for key in found.identities.keys)
    certificates = Counter(row.user for row in found.identities.certificates)
    users = [(user, one) for user, one in _rows(found, User) if user.name > after]
    for user, one in sorted(users, key=lambda each: each[0].name):
        yield _user_view(user, keys, certificates, _kept(one, found))


def stored_user_view(found: IdentitiesInForce, name: str) -> UserView | None:
    """The user of the store that is called so; None where there is none."""
    keys = Counter(key.user for key in found.identities.keys)
    for user, one in _rows(found, User):
        if one is not None and user.name == name:
            return _user_view(user, keys, Counter(), _kept(one, found))
    return None


def _user_view(user: User, keys: Counter[str], certificates: Counter[str], kept: _Kept) -> UserView:
    return UserView(
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


def key_views(found: IdentitiesInForce, after: str = "") -> Iterator[KeyView]:
    """The keys in the order of their ids, behind *after*: each is made when it is asked for."""
    keys = [(api_key_id(key.hash), key, one) for key, one in _rows(found, Key)]
    for id_, key, one in sorted(keys, key=lambda each: each[0]):
        if id_ > after:
            yield KeyView(
                id=id_,
                user=key.user,
                may=list(key.may) if key.may is not None else None,
                expires=key.expires,
                state="expired" if is_expired(key.expires) else "valid",
                expired=is_expired(key.expires),
                **_kept(one, found),
            )


def rule_views(found: IdentitiesInForce, after: int = 0) -> Iterator[RuleView]:
    """The rules: those of the file in its order, then those of the store by their age, behind so
    many; each is made when it is asked for."""
    for number, (rule, one) in enumerate(_rows(found, RightsRow), start=1):
        if number > after:
            id_ = one.id if one is not None else f"file-{number}"
            yield _rule_view(id_, rule, _kept(one, found))


def stored_rule_view(found: IdentitiesInForce, rule_id: str) -> RuleView | None:
    """The rule of the store with an id; None where there is none."""
    for rule, one in _rows(found, RightsRow):
        if one is not None and one.id == rule_id:
            return _rule_view(rule_id, rule, _kept(one, found))
    return None


def rule_view(found: IdentitiesInForce, number: int) -> RuleView:
    """The rule in force that has a *number*."""
    rule, one = found.identities.rights[number - 1], found.stored_rule(number)
    return _rule_view(one.id if one is not None else f"file-{number}", rule, _kept(one, found))


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


def _rows(found: IdentitiesInForce, kind: type[R]) -> Iterator[tuple[R, StoredIdentity | None]]:
    """What there is of a *kind*: of the file, then what the store keeps."""
    of_file: Mapping[type, Sequence[Any]] = {
        User: found.file.users,
        Key: found.file.keys,
        RightsRow: found.file.rights,
    }
    for row in of_file[kind]:
        yield row, None
    for one in found.stored:
        if ROWS[one.kind] is kind:
            row = found.rows.get(one) or known_of(one)
            if isinstance(row, kind):
                yield row, one
