"""Settings: from the command line, ``DRAGOMAN_*`` in the environment, and ``dragoman.toml``."""

import json
import re
import tomllib
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

import pydantic_settings
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from filters import Reason, Refused
from gateway.egress import AddressPolicy, Consumer, Proxy
from gateway.http import networks
from gateway.mailboxes import MailboxQuotas
from gateway.store.mailboxes import Bounds

FILE = "dragoman.toml"
WITHIN = ("embedded", "memory")
"""The schemes of messaging systems that live and die with the gateway."""
_CENTURY = timedelta(days=36525)
_CHOICE = re.compile(r"\^\(([a-z|-]+)\)\$")
"""The pattern of a setting that is one of some words."""
_PLAIN = {"extra_forbidden": "there is no such setting", "missing": "is missing"}
"""What pydantic says in its own terms, by its type."""
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|[0-9A-Fa-f:.]+")
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def _split(value: object) -> object:
    """In the environment a list is words separated by commas, or JSON."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return tuple(word.strip() for word in value.split(",") if word.strip())


def _seconds(value: object) -> object:
    """A bare number is seconds, also in the environment, where all is text."""
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"\s*\d{1,12}(\.\d*)?\s*", value):
        return float(value)
    if not re.fullmatch(r"\s*P[0-9.A-Z]{2,40}\s*", value):
        raise ValueError("must be seconds, or a duration such as PT24H")
    return value


def _are_networks(value: tuple[str, ...]) -> tuple[str, ...]:
    networks(value)
    return value


def _may_be_allowed(value: tuple[str, ...]) -> tuple[str, ...]:
    AddressPolicy(allow=value)
    for word in value:
        if "/" not in word and not _HOST.fullmatch(word):
            raise ValueError(f"{word!r} is neither a network nor an address nor a name")
    return value


def _is_proxy(value: SecretStr) -> SecretStr:
    Proxy.parse(value.get_secret_value())
    return value


def _is_base(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError("must be http:// or https:// and a host")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("must have no query, fragment or user")
    if not value.isascii() or not value.isprintable() or set(value) & set(" <>&\"'"):
        raise ValueError("must be a URI: a host outside ASCII is written as xn--...")
    return value


def _is_host(value: str) -> str:
    if not _NAME.fullmatch(value):
        try:
            ip_address(value)
        except ValueError:
            raise ValueError(f"{value!r} must be a name or an address, and no more") from None
    return value


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
NetworkWords = Annotated[Words, AfterValidator(_are_networks)]
Length = Annotated[timedelta, BeforeValidator(_seconds), Field(gt=timedelta(), le=_CENTURY)]
Delay = Annotated[float, Field(ge=0, le=30 * 86400, allow_inf_nan=False)]
Delays = Annotated[
    tuple[Delay, ...], NoDecode, BeforeValidator(_split), Field(min_length=1, max_length=1000)
]


def is_loopback(host: str) -> bool:
    """Whether *host*, an address or a name, is this machine alone: ``127.example.org`` is not."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class NamedCertificate(BaseModel):
    """A row of ``tls_names``: what is shown to those who ask for *name*."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$")
    certificate: Path
    key: Path | None = None


class SettingsError(Refused):
    """A setting cannot be read; the text names it."""


class Settings(BaseSettings):
    """Everything that can be configured; times are seconds, sizes octets."""

    model_config = SettingsConfigDict(
        env_prefix="DRAGOMAN_",
        env_nested_delimiter="__",
        toml_file=FILE,
        extra="forbid",
        nested_model_default_partial_update=True,
    )

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    soap_tcp_port: int | None = Field(None, ge=0, le=65535)
    """Where SOAP.TCP is listened for, in the clear and over TLS; nowhere without."""
    soap_tcps_port: int | None = Field(None, ge=0, le=65535)
    soap_tcp_host: Annotated[str, AfterValidator(_is_host)] | None = None
    """The name under which peers reach SOAP.TCP, where it is not that of ``public_url``."""
    adapter: SecretStr = SecretStr("embedded:")
    adapter_settings: dict[str, str] = {}
    destinations: list[dict[str, str]] = []
    """Destinations of the broker that exist already; the adapter reads the rows."""
    store: SecretStr | None = None
    data: Path = Path("dragoman-data")
    spool: bool = False
    """Whether what the broker cannot take is accepted into the store, up to these bounds."""
    spool_messages: int = Field(100_000, ge=1)
    spool_octets: int = Field(256 * 2**20, ge=1)
    mailboxes_only: bool = False
    """Whether nothing is offered but mailboxes, for other brokers to deliver to."""
    mailbox_messages: int = Field(10_000, ge=1)
    mailbox_octets: int = Field(64 * 2**20, ge=1)
    """What may wait in one mailbox."""
    mailbox_age: Length = timedelta(days=2)
    """How long a message may wait there."""
    mailbox_idle: Length = timedelta(days=7)
    """After how long a mailbox that nobody opens is given up."""
    mailbox_overflow: str = Field("dead-letter-oldest", pattern="^(dead-letter-oldest|refuse)$")
    """What happens when more comes than fits."""
    max_mailboxes: int = Field(10_000, ge=1)
    max_mailboxes_per_owner: int = Field(100, ge=1)
    archive: Path | None = None
    """The folder in which every notification is archived."""
    public_url: Annotated[str, AfterValidator(_is_base)] | None = None

    tls_certificate: Path | None = None
    """PEM, with its chain: what listens then speaks TLS alone."""
    tls_key: Path | None = None
    """In the same file where it is not set."""
    tls_client_ca: Path | None = None
    """The authorities one of which must have signed a peer's certificate."""
    tls_names: tuple[NamedCertificate, ...] = ()
    """Other certificates for those who ask for their names."""

    hosts: Words = ()
    """Further names under which the gateway is asked for."""
    trusted: NetworkWords | None = None
    """Networks whose peers are bound by the limits over all alone; by default loopback, while
    the gateway listens on loopback."""
    trusted_proxies: NetworkWords = ()
    egress_allow: Annotated[Words, AfterValidator(_may_be_allowed)] = ()
    """Networks, addresses and names inside that consumers may have."""
    deliver_to_self: bool = False
    egress_ca: Path | None = None
    """The only authorities trusted when something is sent, instead of those of the system."""
    egress_certificate: Path | None = None
    egress_key: Path | None = None
    """What is shown to consumers that ask for a certificate."""
    egress_proxy: Annotated[SecretStr, AfterValidator(_is_proxy)] | None = None
    """``http://[user:password@]host:port``, through which everything is sent."""
    consumers: tuple[Consumer, ...] = ()
    """What consumers need that their addresses do not say."""

    default_lease: Length = timedelta(hours=24)
    longest_lease: Length = timedelta(hours=24)
    grace: Annotated[timedelta, BeforeValidator(_seconds), Field(ge=timedelta(), le=_CENTURY)] = (
        timedelta(seconds=60)
    )
    max_subscriptions: int = Field(100_000, ge=1)
    max_subscriptions_per_owner: int = Field(1000, ge=1)
    max_subscriptions_per_destination: int = Field(100, ge=1)
    """Of one stranger to one host and port."""
    survive_power_loss: bool = True

    backlog_policy: str = Field("dead-letter-oldest", pattern="^(dead-letter-oldest|end)$")
    """What happens when more waits for a subscription than is kept."""
    retry_delays: Delays | None = None
    slots: int = Field(512, ge=1)
    drain: float = Field(10.0, ge=0, le=60)
    """Seconds that deliveries under way get when the gateway stops."""
    log: str = Field("info", pattern="^(debug|info|warning|error)$")
    log_format: str = Field("auto", pattern="^(auto|console|json)$")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @model_validator(mode="after")
    def _hand_destinations_to_the_adapter(self) -> Self:
        if self.destinations:
            rows = {"destinations": json.dumps(self.destinations)}
            self.adapter_settings = {**self.adapter_settings, **rows}
        return self

    @model_validator(mode="after")
    def _spool_in_front_of_a_broker(self) -> Self:
        if self.spool and self.scheme in WITHIN:
            raise ValueError(
                f"spool: {self.scheme}: is within the gateway, and never away; a spool is for a "
                "broker"
            )
        return self

    @model_validator(mode="after")
    def _certificates_before_what_needs_them(self) -> Self:
        for name in ("tls_key", "tls_client_ca", "tls_names"):
            if getattr(self, name) and self.tls_certificate is None:
                raise ValueError(f"{name}: needs tls_certificate, too")
        if self.soap_tcps_port is not None and self.tls_certificate is None:
            raise ValueError("soap_tcps_port: it needs tls_certificate")
        if self.egress_key and self.egress_certificate is None:
            raise ValueError("egress_key: needs egress_certificate, too")
        return self

    @model_validator(mode="after")
    def _nothing_is_published_to_mailboxes_only(self) -> Self:
        if self.mailboxes_only:
            if "adapter" in self.model_fields_set and self.scheme != "memory":
                raise ValueError("mailboxes_only: nothing is published then; leave the adapter out")
            self.adapter = SecretStr("memory:")
        return self

    @property
    def web_scheme(self) -> str:
        """What the HTTP port speaks."""
        return "https" if self.tls_certificate else "http"

    @property
    def scheme(self) -> str:
        """That of the adapter's URL."""
        return self.adapter.get_secret_value().partition(":")[0].lower()

    @property
    def mailbox_quotas(self) -> MailboxQuotas:
        """What mailboxes may hold."""
        refuse = self.mailbox_overflow == "refuse"
        return MailboxQuotas(
            self.max_mailboxes_per_owner,
            self.max_mailboxes,
            Bounds(self.mailbox_messages, self.mailbox_octets, refuse),
            self.mailbox_age.total_seconds(),
            self.mailbox_idle.total_seconds(),
        )

    @property
    def on_loopback(self) -> bool:
        """Whether the gateway listens on loopback alone."""
        return is_loopback(self.host)


def read_settings(**given: Any) -> Settings:
    """The settings; *given* ones that are None count as not given.

    Raises:
        SettingsError: One cannot be read; the text is one line for a person.
    """
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        _, text = explain(error.errors()[0])
        raise SettingsError(Reason.MESSAGE_INVALID, text) from error
    except pydantic_settings.SettingsError as error:
        text = f'{error}: write it as {{"name": "value"}}'
        raise SettingsError(Reason.MESSAGE_INVALID, text) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(Reason.MESSAGE_INVALID, f"{FILE}: {error}") from error


def explain(error: ErrorDetails) -> tuple[str, str]:
    """The setting that one error of a validation is about, and a line about it that begins with
    its name."""
    text = str(error["msg"]).removeprefix("Value error, ")
    if not error["loc"]:  # Of settings that do not go together: the text names one itself.
        return text.partition(":")[0], text
    choice = _CHOICE.fullmatch(str(error.get("ctx", {}).get("pattern", "")))
    if error["type"] in _PLAIN:
        text = _PLAIN[error["type"]]
    elif choice:
        text = f"must be {' or '.join(choice[1].split('|'))}"
    return str(error["loc"][0]), f"{'.'.join(map(str, error['loc']))}: {text}"
