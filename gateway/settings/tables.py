"""Settings that are tables, or rows of them."""

import os
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from filters import NCNAME, Refused, parse_document
from filters.topics import is_namespace
from gateway.egress.addresses import AddressRefused, parse_target
from gateway.egress.credential_kinds import Credential, UsernameToken, keeps_secrets
from gateway.model.channels import Selection
from gateway.model.hosts import origin_of
from gateway.security.rights import Right
from gateway.security.secret_files import read_first_line
from gateway.settings.values import Length, is_base
from mediation.client import LEASED, SPECS
from mediation.grid_events import CHANNEL
from mediation.model.calling import CallRules
from mediation.model.delivery_modes import Mode
from mediation.model.versions import Version
from mediation.profiles import PRODUCERS


class NamedCertificate(BaseModel):
    """A row of ``tls_names``: what is shown to those who ask for *name*."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$")
    certificate: Path
    key: Path | None = None


def _is_query_list(text: str) -> str:
    """Refuse what is no QueryList; the sources evaluate it."""
    try:
        root = parse_document(text.strip().encode())
    except Refused as error:
        raise ValueError(f"is no XML: {error.text}") from error
    if root.tag != "QueryList":
        raise ValueError("is no QueryList")
    return text.strip()


def _is_network(text: str) -> str:
    """Refuse what is neither a network nor an address."""
    ip_network(text, strict=False)
    return text


class WindowsEvents(BaseModel):
    """A row of ``windows_events``: what sources of Windows Event Forwarding are asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[A-Za-z0-9 ._-]{1,100}$")
    query: Annotated[str, AfterValidator(_is_query_list)]
    topic: str | None = Field(None, pattern=r"^[\w.-]+(/[\w.-]+)*$")
    heartbeats: float = Field(3600.0, ge=60, le=86400)
    max_time: float = Field(30.0, gt=0, le=3600)
    issuer: str | None = Field(None, pattern=r"^[0-9A-Fa-f]{40}$")
    existing: bool = False


class PrefixRow(BaseModel):
    """A row of ``prefixes``: what a prefix stands for in topics that do not declare it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prefix: str = Field(pattern=f"^{NCNAME}$", max_length=256)
    namespace: str = Field(min_length=1, max_length=2048)
    peer: Annotated[str, AfterValidator(_is_network)] | None = None
    """The network of its senders; without one, all."""

    @field_validator("namespace")
    @classmethod
    def _is_namespace(cls, value: str) -> str:
        if "{" in value or "}" in value or not is_namespace(value):
            raise ValueError("must be a URI that XML may declare")
        return value


class GridEvents(BaseModel):
    """The table ``grid_events``: what is decided for calls of Grid SOAP Events."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    unknown_type: str = Field("pass", pattern="^(pass|fault)$")
    """What becomes of events of types that are not known here."""
    schemas: Path | None = None
    """A folder with XML Schemas of own types, which are known then, and served."""
    fault_status: int = 500
    """The status of HTTP with which faults are told; old clients read none but those in a 200."""
    default_lease: Length = timedelta(minutes=10)
    min_lease: Length = timedelta(seconds=10)
    max_lease: Length = timedelta(hours=24)

    @field_validator("fault_status")
    @classmethod
    def _is_status(cls, value: int) -> int:
        if value not in (200, 500):
            raise ValueError("must be 200 or 500")
        return value

    @property
    def rules(self) -> CallRules:
        """The rules of endpoints."""
        return CallRules(
            known_types=self.unknown_type == "fault",
            fault_status=self.fault_status,
            lease=_milliseconds(self.default_lease),
            shortest=_milliseconds(self.min_lease),
            longest=_milliseconds(self.max_lease),
        )


def _is_demand(text: str) -> str:
    """Refuse what is neither a right nor the path of an endpoint."""
    rights = [right.value for right in Right]
    if not text.startswith("/") and text not in rights:
        raise ValueError(f"{text!r} is neither a right ({', '.join(rights)}) nor a path")
    return text


def _is_address(text: str) -> str:
    """Refuse what is neither the URL of a gateway nor a name of one."""
    if origin_of(text) is None and not re.fullmatch(r"urn:[!-~]{1,1000}", text):
        raise ValueError(f"{text!r} is neither a URL, https://gateway.example.org, nor a urn:")
    return text


class WsSecurity(BaseModel):
    """The table ``ws_security``: signed and encrypted messages (WS-Security, X.509)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    signers: Path | None = None
    """PEM: authorities whose certificates count, single certificates, and lists of revoked ones."""
    required: tuple[Annotated[str, AfterValidator(_is_demand)], ...] = ()
    """Rights, and paths of endpoints, for which messages must be signed."""
    addresses: tuple[Annotated[str, AfterValidator(_is_address)], ...] = ()
    """Addresses, beside those of the gateway that are known, for which messages may be signed."""
    sha1: bool = False
    """Whether SHA-1 is taken, too."""
    key: Path | None = None
    """PEM: the key, of RSA, that decrypts messages; two while one replaces the other."""
    encrypted: tuple[Annotated[str, AfterValidator(_is_demand)], ...] = ()
    """Rights, and paths of endpoints, for which the Body of messages must be encrypted."""
    signing_key: Path | None = None
    """PEM: the gateway's own key and, in the same file, its certificate, which sign receipts and
    answers."""
    sign_answers: tuple[Annotated[str, AfterValidator(_is_demand)], ...] = ()
    """Rights, and paths of endpoints, whose answers are signed, faults too."""
    encrypt_answers: tuple[Annotated[str, AfterValidator(_is_demand)], ...] = ()
    """Rights, and paths of endpoints, whose answers are signed, and encrypted for who signed the
    request."""
    cbc: bool = False
    """Whether AES-CBC is taken, too, in messages that are signed."""

    @model_validator(mode="after")
    def _knows_signers(self) -> Self:
        if self.required and self.signers is None:
            raise ValueError("required: needs signers, too")
        if self.encrypted and self.key is None:
            raise ValueError("encrypted: needs key, too")
        for name in ("sign_answers", "encrypt_answers"):
            if getattr(self, name) and self.signing_key is None:
                raise ValueError(f"{name}: needs signing_key, too")
        if self.encrypt_answers and self.signers is None:
            raise ValueError("encrypt_answers: needs signers, too")
        return self


class Relay(BaseModel):
    """A row of ``relays``: where what is posted to ``/relay/TOKEN`` goes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    token: SecretStr
    location: str = Field(min_length=1, max_length=4096)

    @field_validator("token")
    @classmethod
    def _is_token(cls, value: SecretStr) -> SecretStr:
        if not re.fullmatch(r"[A-Za-z0-9._~-]{16,128}", value.get_secret_value()):
            raise ValueError("must be 16 to 128 letters, digits or any of . _ ~ -")
        return value


class SelectionTable(BaseModel):
    """What a channel takes: an example of an event, a condition, or both."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    example: dict[str, str] = {}
    xpath: str | None = Field(None, min_length=1, max_length=8192)
    namespaces: dict[str, str] = {}

    @property
    def selection(self) -> Selection:
        """The same as the gateway has it."""
        return Selection(_pairs(self.example), self.xpath, _pairs(self.namespaces))


class ChannelRow(SelectionTable):
    """A row of ``channels``: a channel with a name."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")


class ProducerRow(BaseModel):
    """A row for a producer that the gateway subscribes at: its address, and what it is shown.

    Attributes:
        password_variable: The variable of the environment that has the password, where no file
            does.
        negotiate: Whether the password is proved by Negotiate (Kerberos, NTLM), and by nothing
            else.
        credential: Shown with each request, in place of a user and a password, which answer what
            the producer asks for.
        client_certificate, client_key: PEM: shown in TLS.
        ca: The only authorities trusted with it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(pattern=r"^https?://[^\s]+$", max_length=4096)
    profile: str = "standard"
    user: str | None = Field(None, min_length=1, max_length=1024)
    password_file: Path | None = None
    password_variable: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    allow_basic: bool = False
    negotiate: bool = False
    credential: Credential | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None
    ca: Path | None = None

    @model_validator(mode="after")
    def _has_one_password(self) -> Self:
        given = [one for one in (self.password_file, self.password_variable) if one is not None]
        if (self.user is None) is bool(given) or len(given) > 1:
            raise ValueError("user goes with a password_file or a password_variable")
        return self

    @model_validator(mode="after")
    def _has_one_credential(self) -> Self:
        credential = self.credential
        if credential is None:
            return self
        if self.user is not None:
            raise ValueError("credential: it goes with no user, for it has its own")
        profile = PRODUCERS.get(self.profile)
        if isinstance(credential, UsernameToken) and profile is not None and profile.username_token:
            raise ValueError(
                f"credential: with the profile {self.profile}, user and password_file make its "
                "UsernameToken, which has the time of the device's clock"
            )
        if credential.shows_secret and not _keeps_secrets(self.url):
            raise ValueError("credential: http:// shows it: write https, or set allow_http")
        return self

    @model_validator(mode="after")
    def _shows_a_certificate_with_its_key(self) -> Self:
        if self.client_key is not None and self.client_certificate is None:
            raise ValueError("client_key: a client_certificate belongs to it")
        if (self.client_certificate or self.ca) and not self.url.startswith("https:"):
            raise ValueError("client_certificate and ca: they are for TLS: write https")
        return self

    @property
    def shows_something(self) -> bool:
        """Whether the producer is shown anything, or is trusted by authorities of its own."""
        return any((self.user, self.credential, self.client_certificate, self.ca))

    def files(self) -> Iterator[Path]:
        """The files that the row names."""
        named = (self.password_file, self.client_certificate, self.client_key, self.ca)
        yield from (path for path in named if path is not None)
        if self.credential is not None:
            yield from self.credential.files()

    def password(self) -> str:
        """Read the password; empty where there is no user.

        Raises:
            SecretFileUnusable: The file cannot be read.
            KeyError: The variable is not set.
        """
        if self.password_variable is not None:
            return os.environ[self.password_variable]
        if self.password_file is None:
            return ""
        return read_first_line(self.password_file)


class LinkRow(ProducerRow):
    """A row of ``links``: a channel of ours subscribed at one of others, or at another producer."""

    channel: str = Field("", pattern=r"^([a-z0-9][a-z0-9._-]{0,63})?$")
    """Ours; the one without a name where there is none."""
    spec: str = Version.GRID_EVENTS.value
    example: dict[str, str] = {}
    topic: str | None = Field(None, min_length=1, max_length=8192)
    xpath: str | None = Field(None, min_length=1, max_length=8192)
    namespaces: dict[str, str] = {}
    lease: Length = timedelta(minutes=10)
    publish_on: str | None = Field(None, min_length=1, max_length=8192)
    binding: str = Field(CHANNEL, max_length=1024)

    @field_validator("spec")
    @classmethod
    def _is_spec(cls, value: str) -> str:
        offered = [version.value for version in (*LEASED, *SPECS)]
        if value not in offered:
            raise ValueError(f"must be one of {', '.join(offered)}")
        return value

    @property
    def version(self) -> Version:
        """The version that is spoken."""
        return Version(self.spec)

    @property
    def selection(self) -> Selection:
        """The filter of this row."""
        return Selection(_pairs(self.example), self.xpath, _pairs(self.namespaces))


class ConfiguredSource(ProducerRow):
    """A row of ``sources``: a producer that the gateway subscribes at."""

    spec: str = Version.WSN_1_3.value
    topic: str | None = Field(None, min_length=1, max_length=8192)
    xpath: str | None = Field(None, min_length=1, max_length=8192)
    namespaces: dict[str, str] = {}
    actions: tuple[str, ...] = Field((), max_length=100)
    lease: Length | None = None
    publish_on: str | None = Field(None, min_length=1, max_length=8192)
    silence: float = Field(300.0, ge=0, le=1e9)
    resource: str | None = Field(None, min_length=1, max_length=1024)
    mode: Mode = Mode.PUSH
    existing: bool = False

    @field_validator("spec")
    @classmethod
    def _is_spec(cls, value: str) -> str:
        if value not in [version.value for version in SPECS]:
            raise ValueError(f"must be one of {', '.join(version.value for version in SPECS)}")
        return value

    @property
    def version(self) -> Version:
        """The version that is spoken."""
        return Version(self.spec)


class Directory(BaseModel):
    """The table ``directory``: where the gateway's channel is found by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(pattern=r"^ldaps?://[^/?#@\s]+/?$")
    name: str = Field(min_length=3, max_length=1024)
    """The distinguished name of our entry."""
    location: Annotated[str, AfterValidator(is_base)] | None = None
    """What the entry says; by default the public address of the endpoint."""
    user: str | None = Field(None, min_length=1, max_length=1024)
    password: SecretStr = SecretStr("")
    password_file: Path | None = None
    """The file whose first line is the password, read for each exchange."""
    start_tls: bool = True
    subscribe: bool = False
    """Whether the gateway subscribes at its channel's relatives, as *direction* says."""
    direction: Literal["down", "up", "both"] = "down"
    """Which way events go: down from the parent, up from the children, or both."""
    ca: Path | None = None
    interval: Length = timedelta(minutes=5)

    @model_validator(mode="after")
    def _has_one_password(self) -> Self:
        if self.password_file is not None and (self.user is None or self.password):
            raise ValueError("password_file goes with a user, and with no password")
        return self


def _keeps_secrets(url: str) -> bool:
    try:
        return keeps_secrets(parse_target(url))
    except AddressRefused:  # It is told when the source is made.
        return url.startswith("https:")


def _pairs(values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(values.items()))


def _milliseconds(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)
