"""The file of identities: tenants, users, their API keys and certificates, issuers of tokens, and
rights.

It is TOML, for people and for the commands ``dragoman users`` and ``dragoman keys``; gateways that
share a store share the file, too. No secret is in it: passwords are hashes of Argon2id, keys are
hashes of SHA-256.

    [[tenants]]
    name = "harbour"
    subscriptions = 200                # quotas; without one, any number
    messages = 100                     # a second

    [[users]]
    name = "north-mole"
    password = "$argon2id$..."
    roles = ["harbour"]
    tenant = "harbour"                 # without it, the default tenant

    [[keys]]
    user = "north-mole"
    hash = "sha256:..."
    may = ["publish"]                  # less than the user may; without it, all that
    expires = 2027-06-01T00:00:00Z

    [[certificates]]
    subject = "CN=North mole,O=Harbour"
    user = "north-mole"

    authority = "port"                 # counts only where that has issued it

    [[authorities]]
    name = "port"                      # rules name whom it certified "ca:port"
    file = "port-ca.pem"               # its certificate, then those between it and users

    [[issuers]]
    issuer = "https://id.example.org/realms/plant"
    audience = "dragoman"
    keys = "https://id.example.org/realms/plant/certs"  # or a file; without it, OIDC discovery
    name = "preferred_username"        # the claim with the user's name; else "sub"
    roles = "realm_access.roles"       # the claim with roles
    tenant = "harbour"                 # of all its users; or tenant_claim, where each names its own
    client_id = "dragoman-console"     # people log in to the console there
    client_secret_file = "client"      # without it, by PKCE alone
    roles_days = 30                    # for which the roles of a token count for deliveries

    [[verifiers]]
    name = "badge"                     # an entry point of the group dragoman.identity
    settings = { url = "https://badges.example.org" }
    tenant = "harbour"                 # of all whom it verifies

    [[rights]]
    who = ["role:harbour"]
    may = ["publish"]
    authority = "port"                 # with cert:SUBJECT: counts only where that has issued it
    topics = ["w:weather//."]
    namespaces = { w = "http://example.org/weather" }
"""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from filters import FilterError, Reason, Refused, TopicPattern
from gateway.security.identity_plugins import CredentialVerifier, make_verifier
from gateway.security.passwords import is_hash
from gateway.security.principals import CERTIFIED, issued_by, owner_in
from gateway.security.rights import (
    ALL_RIGHTS,
    EVERYBODY,
    NOBODY_IN_PARTICULAR,
    Policy,
    Right,
    Rule,
    read_topics,
)
from gateway.security.tenant_quotas import Quotas

EVERYTHING = "everything"
MAX_FILE = 64 * 2**20
"""Bytes of the file."""

Name = Annotated[
    str, Field(min_length=1, max_length=256, pattern=r"^[^\s\x00-\x1f]+( [^\s\x00-\x1f]+)*$")
]


_SCHEMES = ("user", "role", "cert", "ca", "broker")


def _are_names(values: list[str]) -> list[str]:
    for value in values:
        scheme, colon, rest = value.partition(":")
        whole = value in (EVERYBODY, NOBODY_IN_PARTICULAR)
        if not whole and not (colon and rest and scheme in _SCHEMES):
            raise ValueError(
                f"{value!r} is nobody: write user:NAME, role:NAME, cert:SUBJECT, ca:NAME, "
                f"broker:NAME, "
                f"{NOBODY_IN_PARTICULAR} or {EVERYBODY}"
            )
    return values


def _is_password(text: str) -> str:
    if not is_hash(text):
        raise ValueError("this is no hash of Argon2id: `dragoman users add` writes one")
    return text


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


RightName = Literal["publish", "subscribe", "manage", "operate", "read", "everything"]


def _rights(names: Sequence[str]) -> frozenset[Right]:
    return ALL_RIGHTS if EVERYTHING in names else frozenset(map(Right, names))


TenantName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]


class Tenant(_Row):
    """A tenant: its users' events and subscriptions are theirs alone."""

    name: TenantName
    subscriptions: Annotated[int, Field(ge=0)] | None = None
    mailboxes: Annotated[int, Field(ge=0)] | None = None
    messages: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    bytes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    disk: Annotated[int, Field(ge=0)] | None = None
    backlog: Annotated[int, Field(ge=0)] | None = None

    @property
    def quotas(self) -> Quotas:
        return Quotas(
            subscriptions=self.subscriptions,
            mailboxes=self.mailboxes,
            messages=self.messages,
            bytes=self.bytes,
            disk=self.disk,
            backlog=self.backlog,
        )


class User(_Row):
    """A user: a person, a program or a device."""

    name: Name
    password: Annotated[str, AfterValidator(_is_password)] | None = None
    digest: Annotated[str, Field(pattern=r"^gAAAA[A-Za-z0-9_=-]+$")] | None = None
    """The password, encrypted, of a user who proves it by a digest (`password_cipher`)."""
    roles: list[Name] = []
    tenant: TenantName | Literal[""] = ""


class Key(_Row):
    """An API key of a user."""

    user: Name
    hash: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    may: Annotated[list[RightName], Field(min_length=1)] | None = None
    expires: AwareDatetime | None = None
    note: str = ""

    @property
    def rights(self) -> frozenset[Right]:
        return ALL_RIGHTS if self.may is None else _rights(self.may)


AuthorityName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]


class Certificate(_Row):
    """The certificate of a user, by its subject in the form of RFC 4514."""

    subject: Annotated[str, Field(min_length=1)]
    user: Name
    authority: AuthorityName | None = None
    """Who must have issued it; without, whoever TLS or WS-Security trusts may have."""


class Authority(_Row):
    """Who issues certificates of users."""

    name: AuthorityName
    file: Annotated[str, Field(min_length=1)]
    """PEM: its certificate, then those between it and users."""


class Issuer(_Row):
    """Who issues tokens that count."""

    issuer: Annotated[str, Field(min_length=1)]
    audience: Annotated[str, Field(min_length=1)]
    keys: str | None = None
    name: str = "sub"
    roles: str | None = None
    tenant: TenantName | Literal[""] = ""
    tenant_claim: Annotated[str, Field(min_length=1)] | None = None
    client_id: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """As which the console is known there, where people log in to it by this issuer."""
    client_secret_file: Annotated[str, Field(min_length=1)] | None = None
    scope: Annotated[str, Field(pattern=r"^openid( [!-~]+)*$")] = "openid profile"
    roles_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Days after the last token of a user for which its roles count for what it subscribed to."""
    label: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """What the page to log in at calls it."""


class Verifier(_Row):
    """Credentials that a package verifies."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    settings: Mapping[str, str | int | float | bool] = {}
    tenant: TenantName | Literal[""] = ""


WhoNames = Annotated[list[str], Field(min_length=1), AfterValidator(_are_names)]


class RightsRow(_Row):
    """A rule, as the file has it."""

    who: WhoNames
    may: Annotated[list[RightName], Field(min_length=1)]
    topics: list[str] = []
    namespaces: Mapping[str, str] = {}
    tenant: TenantName | Literal[""] = ""
    """Of whose users it speaks alone."""
    authority: AuthorityName | None = None
    """Who must have issued the certificates that it names; without, whoever is trusted may have."""

    def rule(self, number: int) -> Rule:
        """The rule.

        Raises:
            FilterError: A topic expression cannot be read.
        """
        names = self.who if self.authority is None else map(self._issued, self.who)
        who = frozenset(owner_in(self.tenant, name) for name in names)
        return Rule(number, who, _rights(self.may), self._patterns)

    @cached_property
    def _patterns(self) -> tuple[TopicPattern, ...]:
        return read_topics(self.topics, self.namespaces)

    def _issued(self, name: str) -> str:
        return issued_by(self.authority or "", name)

    @property
    def names_subjects_alone(self) -> bool:
        """Whether it trusts the subject of a certificate, whoever issued that."""
        return self.authority is None and any(name.startswith("cert:") for name in self.who)


Row: TypeAlias = User | Key | Certificate | Issuer | Verifier | RightsRow
"""A row that speaks of others, which must be there."""


class Identities(_Row):
    """What the file says, and beside it the store."""

    tenants: list[Tenant] = []
    users: list[User] = []
    keys: list[Key] = []
    certificates: list[Certificate] = []
    authorities: list[Authority] = []
    issuers: list[Issuer] = []
    verifiers: list[Verifier] = []
    rights: list[RightsRow] = []

    @cached_property
    def policy(self) -> Policy:
        return Policy([row.rule(number) for number, row in enumerate(self.rights, start=1)])

    @cached_property
    def tenant_of_name(self) -> Mapping[str, Tenant]:
        return {tenant.name: tenant for tenant in self.tenants}

    @property
    def quotas(self) -> Mapping[str, Quotas]:
        """The quotas of each tenant."""
        return {tenant.name: tenant.quotas for tenant in self.tenants}

    @cached_property
    def made_verifiers(self) -> Sequence[CredentialVerifier]:
        """What the packages of `verifiers` have made, in their order.

        Raises:
            ValueError: One of them cannot be used.
        """
        return [make_verifier(row.name, row.settings) for row in self.verifiers]

    @cached_property
    def user_of_name(self) -> Mapping[str, User]:
        return {user.name: user for user in self.users}

    @cached_property
    def key_of_hash(self) -> Mapping[str, Key]:
        return {key.hash: key for key in self.keys}

    @cached_property
    def user_of_subject(self) -> Mapping[tuple[str, str | None], str]:
        """Users by the subjects of their certificates, and who must have issued these."""
        return {(row.subject, row.authority): row.user for row in self.certificates}

    @cached_property
    def authorities_of_user(self) -> Mapping[str, frozenset[str]]:
        """The authorities of the certificates of each user that has any."""
        found: dict[str, set[str]] = {}
        for row in self.certificates:
            if row.authority is not None:
                found.setdefault(row.user, set()).add(row.authority)
        return {user: frozenset(names) for user, names in found.items()}

    def rows_of_subjects(self) -> Iterator[str]:
        """The rows that trust the subject of a certificate, whoever issued that."""
        for number, row in enumerate(self.certificates, start=1):
            if row.authority is None:
                yield f"certificates row {number}"
        for number, rights in enumerate(self.rights, start=1):
            if rights.names_subjects_alone:
                yield f"rights row {number}"

    def rows_without_deliveries(self) -> Iterator[str]:
        """The rows that make certificates a user's, and name no authority, where rules let those
        whom an authority has certified subscribe: to the user nothing is delivered by them."""
        if not any(
            Right.SUBSCRIBE in rule.rights and any(one.startswith(CERTIFIED) for one in rule.who)
            for rule in self.policy.rules
        ):
            return
        for number, row in enumerate(self.certificates, start=1):
            if row.authority is None:
                yield f"certificates row {number}"

    def problems(self) -> Iterator[str]:
        """What fits the form and cannot be meant."""
        for table in ("users", "tenants", "authorities"):
            names = [row.name for row in getattr(self, table)]
            yield from (f"{table}: there are two called {name}" for name in _twice(names))
        try:
            _ = self.made_verifiers
        except ValueError as error:
            yield f"verifiers: {error}"
        for table in ("users", "keys", "certificates", "issuers", "verifiers", "rights"):
            for number, row in enumerate(getattr(self, table), start=1):
                yield from (f"{table}: row {number} {text}" for text in self.problems_of(row))

    def problems_of(self, row: "Row") -> Iterator[str]:
        """Why *row*, which need not be one of these, cannot be meant beside them."""
        if isinstance(row, Key | Certificate) and row.user not in self.user_of_name:
            yield f"is of {row.user}, who is no user"
        tenant = "" if isinstance(row, Key | Certificate) else row.tenant
        if tenant and tenant not in self.tenant_of_name:
            yield f"is of {tenant}, which is no tenant"
        authority = row.authority if isinstance(row, Certificate | RightsRow) else None
        if authority is not None and authority not in self._authority_names:
            yield f"is of {authority}, which is no authority"
        if isinstance(row, RightsRow):
            for who in row.who:
                if who.startswith("ca:") and who.removeprefix("ca:") not in self._authority_names:
                    yield f"is for {who}, which is no authority"
                if row.authority is not None and not who.startswith("cert:"):
                    yield f"has an authority, but {who} is not cert:SUBJECT"
            try:
                row.rule(0)
            except FilterError as error:
                yield f"has topics that cannot be read: {error.text}"

    def with_rows(self, rows: Iterable[Row]) -> "Identities":
        """This and further users, keys and rules, behind those that are there."""
        more: dict[type[Row], list[Row]] = {}
        for row in rows:
            more.setdefault(type(row), []).append(row)
        whole = Identities.model_construct(
            **{name: getattr(self, name) for name in Identities.model_fields}
            | {
                "users": [*self.users, *more.get(User, ())],
                "keys": [*self.keys, *more.get(Key, ())],
                "rights": [*self.rights, *more.get(RightsRow, ())],
            }
        )
        # Made of the file: a package need not be asked again for each user that is added.
        whole.__dict__["made_verifiers"] = self.made_verifiers
        return whole

    @cached_property
    def _authority_names(self) -> frozenset[str]:
        return frozenset(row.name for row in self.authorities)


class IdentitiesUnusable(Refused):
    """The file of identities cannot be used; the text names it and what is wrong."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(Reason.MESSAGE_INVALID, f"{path}: {why}")


def load_identities(path: Path) -> Identities:
    """Read the file at *path*.

    Raises:
        IdentitiesUnusable: It cannot be read, or says what cannot be.
    """
    try:
        if path.stat().st_size > MAX_FILE:
            raise IdentitiesUnusable(path, f"it has more than {MAX_FILE // 2**20} MiB")
        text = path.read_bytes()
    except OSError as error:
        raise IdentitiesUnusable(path, str(error.strerror or error)) from error
    return parse_identities(text, path)


def parse_identities(text: bytes, path: Path) -> Identities:
    """Read *text*, which is in the file at *path*.

    Raises:
        IdentitiesUnusable: It says what cannot be.
    """
    try:
        found = Identities.model_validate(tomllib.loads(text.decode()))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise IdentitiesUnusable(path, f"it is no TOML: {error}") from error
    except ValidationError as error:
        raise IdentitiesUnusable(path, "; ".join(_problems_of(error))) from error
    if problems := list(found.problems()):
        raise IdentitiesUnusable(path, "; ".join(problems))
    return found


def _problems_of(error: ValidationError) -> Iterator[str]:
    # Never the input: somebody may have written a password where a hash belongs.
    for one in error.errors(include_url=False, include_input=False):
        table, *rest = one["loc"]
        row = f" row {int(rest.pop(0)) + 1}:" if rest and isinstance(rest[0], int) else ""
        place = ".".join(map(str, rest))
        text = one["msg"].removeprefix("Value error, ")
        yield f"{table}:{row} {place + ': ' if place else ''}{text}"


def _twice(names: Sequence[str]) -> list[str]:
    return sorted(name for name, number in Counter(names).items() if number > 1)


def key_file(identities: Path) -> Path:
    """The file of the key by which passwords are encrypted that the file of *identities* keeps."""
    return identities.with_name(identities.name + ".key")


def is_expired(moment: datetime | None) -> bool:
    """Return True if *moment* has passed; None never does."""
    return moment is not None and moment <= datetime.now(UTC)
