"""Settings: from the command line, ``DRAGOMAN_*`` in the environment, and ``dragoman.toml``."""

import json
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic_settings
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from filters import DocumentLimits, Reason, Refused, check_engine
from filters.documents import DEFAULT_LIMITS
from gateway.atna.settings import AtnaSettings
from gateway.discovery.settings import DiscoverySettings
from gateway.egress import Consumer
from gateway.egress.addresses import DEFAULT_PORTS
from gateway.egress.mail import MailSettings
from gateway.egress.plugins import PluggedScheme
from gateway.mailboxes.quotas import MailboxQuotas
from gateway.model.hosts import is_loopback
from gateway.model.mailboxes import MailboxBounds
from gateway.security.networks import one_host, one_origin
from gateway.settings.amqp_copies import AmqpCopies
from gateway.settings.tables import (
    ChannelRow,
    ConfiguredSource,
    Directory,
    GridEvents,
    LinkRow,
    NamedCertificate,
    PrefixRow,
    Relay,
    WindowsEvents,
    WsSecurity,
)
from gateway.settings.validation_texts import wanted
from gateway.settings.values import (
    CENTURY,
    Delay,
    Delays,
    EndpointPath,
    Length,
    NetworkWords,
    Words,
    WsrmMode,
    are_ports,
    are_prefixes,
    are_schemes,
    is_base,
    is_proxy,
    may_be_allowed,
    may_be_listed,
    read_seconds,
    read_slots,
    read_words,
)
from gateway.signed_topics.settings import SignedTopicsRow
from mediation.model.requests import Sequences
from mediation.reliable_messaging import Bound

FILE = "dragoman.toml"
ADMIN_BEHIND = 10
"""Ports from ``port`` to that of the administration, where it is not set: the next ones are often
those of SOAP.TCP, or of another gateway."""
WITHIN = ("embedded", "memory")
"""The schemes of messaging systems that live and die with the gateway."""
FORMER_NAMES = {"spool_octets": "spool_bytes", "mailbox_octets": "mailbox_bytes"}
"""Names that settings had, which are read until the next release. The name of today counts."""
_CHOICE = re.compile(r"\^\(([a-z|-]+)\)\$")
"""The pattern of a setting that is one of some words."""
_IN_ENVIRONMENT = re.compile(r'field "(\w+)"')
"""The error of pydantic-settings for a setting whose JSON it cannot read."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with one setting."""

    name: str
    place: str
    """The place where it is set: ``--port``, ``DRAGOMAN_PORT``, ``dragoman.toml``; nothing where
    the text says it."""
    text: str
    """Begins with the setting's name and a colon, or with the file that cannot be read."""

    def __str__(self) -> str:
        # An option says by its own name which setting it is.
        text = self.text.removeprefix(f"{self.name}: ") if self.place[:2] == "--" else self.text
        return f"{self.place}: {text}" if self.place else text


def _known_engine(name: str | None) -> str | None:
    check_engine(name)
    return name


class SettingsError(Refused):
    """Settings cannot be read; the text names them all, in one line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(Reason.MESSAGE_INVALID, "; ".join(one.text for one in problems))
        self.problems = tuple(problems)


class _Variables(EnvSettingsSource):
    """Variables of the environment. Where there is none of ours, no field is looked for: that takes
    pydantic-settings 40 ms, half of the time of a short command."""

    def __call__(self) -> dict[str, Any]:
        prefix = self.env_prefix.lower()
        return super().__call__() if any(one.startswith(prefix) for one in self.env_vars) else {}


class _FormerVariables(EnvSettingsSource):
    """Variables of the environment by their former names."""

    def __call__(self) -> dict[str, Any]:
        return {
            name: os.environ[variable]
            for former, name in FORMER_NAMES.items()
            if (variable := _variable(former)) is not None
        }


class _File(TomlConfigSettingsSource):
    """``dragoman.toml``, with former names."""

    def __call__(self) -> dict[str, Any]:
        found = super().__call__()
        for former, name in FORMER_NAMES.items():
            if former in found:
                value = found.pop(former)
                found.setdefault(name, value)
        return found


class Settings(BaseSettings):
    """Everything that can be configured; times are seconds, sizes bytes."""

    model_config = SettingsConfigDict(
        env_prefix="DRAGOMAN_",
        env_nested_delimiter="__",
        toml_file=FILE,
        extra="forbid",
        nested_model_default_partial_update=True,
    )

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    admin_host: Annotated[str, AfterValidator(one_host)] | None = None
    """The address of the administration; see `admin`."""
    admin_port: int | None = Field(None, ge=0, le=65535)
    console: Literal["off", "read", "full"] = "full"
    console_frame_ancestors: Annotated[
        tuple[Annotated[str, AfterValidator(one_origin)], ...],
        NoDecode,
        BeforeValidator(read_words),
    ] = ()
    """Origins whose pages may show the console in a frame."""
    soap_tcp_port: int | None = Field(None, ge=0, le=65535)
    """The ports of SOAP.TCP, in the clear and over TLS; without one it is not offered."""
    soap_tcps_port: int | None = Field(None, ge=0, le=65535)
    soap_tcp_host: Annotated[str, AfterValidator(one_host)] | None = None
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
    spool_bytes: int = Field(256 * 2**20, ge=1)
    topic_namespaces: Annotated[tuple[Path, ...], NoDecode, BeforeValidator(read_words)] = ()
    """Documents of topics: TopicNamespace of WS-Topics."""
    fixed_topic_set: bool = False
    """Whether there are no other topics than theirs."""
    unknown_topics: str = Field("set-aside", pattern="^(set-aside|refuse)$")
    """The reaction to a Notify of which some topics cannot be read."""
    prefixes: tuple[PrefixRow, ...] = Field((), max_length=1000)
    """Prefixes that publishers do not declare, and what they stand for."""
    mailboxes_only: bool = False
    requires_registration: bool = False
    """Whether nothing is offered but mailboxes, for other brokers to deliver to."""
    mailbox_messages: int = Field(10_000, ge=1)
    mailbox_bytes: int = Field(64 * 2**20, ge=1)
    """Limits of what may wait in one mailbox."""
    mailbox_age: Length = timedelta(days=2)
    """The time that a message may wait there."""
    mailbox_idle: Length = timedelta(days=7)
    """After how long a mailbox that nobody opens is given up."""
    mailbox_overflow: str | None = Field(None, pattern="^(dead-letter-oldest|refuse)$")
    """The reaction to more than fits: by default the oldest go to the dead letters, and
    what comes to a mailbox of a stranger is refused."""
    max_mailboxes: int = Field(10_000, ge=1)
    max_mailboxes_per_owner: int = Field(100, ge=1)
    amqp_copies: AmqpCopies | None = None
    """The broker that gets copies of published events; without it there are none."""
    archive: Path | None = None
    """The folder in which every notification is archived."""
    public_url: Annotated[str, AfterValidator(is_base)] | None = None

    tls_certificate: Path | None = None
    """PEM, with its chain: what listens then speaks TLS alone."""
    tls_key: Path | None = None
    """The key; in the same file where it is not set."""
    tls_client_ca: Path | None = None
    """The authorities one of which must have signed a peer's certificate."""
    tls_names: tuple[NamedCertificate, ...] = ()
    """Other certificates for those who ask for their names."""

    hosts: Words = ()
    """Further names under which the gateway is asked for."""
    messenger_prefixes: Annotated[Words, AfterValidator(are_prefixes)] = ()
    """Further paths below which the services of WS-Messenger are."""
    messenger_lexical_names: bool = True
    """Whether XPath filters that come there also compare names as they are written."""
    trusted: NetworkWords | None = None
    """Networks whose peers are bound by the limits over all alone; by default loopback, while
    the gateway listens on loopback."""
    without_identities: bool = False
    """Whether the gateway may leave this machine without identities: strangers are meant to publish
    and subscribe, or something else keeps others out."""
    admin_without_identities: bool = False
    """Whether the administration may leave this machine without identities: something else keeps
    others out."""
    identities: Path | None = None
    """The file that says who there is, and who may do what; without it everybody may everything."""
    audit: Path | None = None
    """The file of the audit log; by default ``audit.jsonl`` in the data folder, where there are
    identities."""
    audit_days: int = Field(90, ge=1, le=36_500)
    """Days for which its records are kept."""
    atna: AtnaSettings | None = None
    """The audit repository of IHE to which it is sent; without it, to none."""
    trusted_proxies: NetworkWords = ()
    client_certificate_header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")] | None = None
    """The header in which they hand on the certificate that a client showed them in TLS."""
    egress_allow: Annotated[Words, AfterValidator(may_be_allowed)] = ()
    """Networks, addresses and names inside that consumers may have."""
    egress_schemes: Annotated[Words, AfterValidator(are_schemes)] = tuple(DEFAULT_PORTS)
    """The schemes of our own that consumers may have."""
    egress_ports: Annotated[Words, AfterValidator(are_ports)] = ()
    """Ports, and ranges of them, that strangers' addresses may have, beside those from 1024 on of
    services that an HTTP request does not confuse."""
    egress_agreed: Annotated[Words, AfterValidator(may_be_listed)] = ()
    egress_forbidden: Annotated[Words, AfterValidator(may_be_listed)] = ()
    """Hosts that are known to want what strangers have sent to them: they need not accept a message
    before they get many."""
    probation_per_minute: int = Field(6, ge=1)
    probation_attempts: int = Field(20, ge=1)
    """Attempts that a host gets for strangers until it accepts a message: a minute, and in all."""
    webhook_handshake: str = Field("strangers", pattern="^(always|strangers|never)$")
    """Whose consumers of CloudEvents must agree before a subscription is made."""
    consumer_challenge: str = Field("never", pattern="^(always|strangers|never)$")
    """Whose consumers that speak SOAP must agree before a subscription is made."""
    deliver_to_self: bool = False
    egress_ca: Path | None = None
    """The only authorities trusted when something is sent, instead of those of the system."""
    egress_certificate: Path | None = None
    egress_key: Path | None = None
    """The certificate for consumers that ask for one, and its key."""
    egress_proxy: Annotated[SecretStr, AfterValidator(is_proxy)] | None = None
    """``http://[user:password@]host:port``, through which everything is sent."""
    consumers: tuple[Consumer, ...] = ()
    """Options of consumers that their addresses do not say."""
    transports: tuple[PluggedScheme, ...] = ()
    """The transports of other packages that are enabled, by the schemes of their addresses."""
    windows_events: tuple[WindowsEvents, ...] = ()
    """Events that sources of Windows Event Forwarding are asked for."""
    sources: tuple[ConfiguredSource, ...] = ()
    """Producers that the gateway subscribes at."""
    source_key: Path | None = None
    """The key with which passwords of sources are encrypted in the store; by default
    ``source.key`` in the data folder. Gateways with one store share one."""
    mail: MailSettings | None = None
    """The smart host for consumers with addresses of mail; without it there is no mail."""

    ws_security: WsSecurity = WsSecurity()
    """Signed and encrypted messages."""
    grid_events: GridEvents = GridEvents()
    """Grid SOAP Events."""
    directory: Directory | None = None
    """The directory in which the gateway's channel is found; without it there is none."""
    channels: tuple[ChannelRow, ...] = Field((), max_length=1000)
    """Channels with names."""
    links: tuple[LinkRow, ...] = Field((), max_length=500)
    """Where channels are subscribed."""
    relays: tuple[Relay, ...] = Field((), max_length=1000)
    """Ways to listeners behind a firewall."""
    signed_topics: tuple[SignedTopicsRow, ...] = Field((), max_length=1000)
    """Topics on which events must be signed by their publishers."""
    discovery_node: bool = False
    """The gateway is a topic discovery node."""
    discovery: DiscoverySettings | None = None
    """Its key, whom it believes, and its policy."""

    wsrm: WsrmMode = Sequences.OFF.value
    """Whether publishers may, or must, send in sequences (WS-ReliableMessaging). Off is the
    default: a sequence is state that a stranger makes, and keeps."""
    wsrm_at: dict[EndpointPath, WsrmMode] = {}
    """The same for a path, and what is below it."""
    wsrm_binding: Literal["optional", "signature", "tls"] = "optional"
    """What publishers must have their sequences bound to: the certificate that signs, or that of
    the client in TLS."""
    wsrm_sequences: int = Field(10_000, ge=1)
    wsrm_sequences_per_owner: int = Field(64, ge=1)
    """Sequences that have not ended, of all and of one stranger."""
    wsrm_messages: int = Field(10_000, ge=1)
    """Messages of one sequence that wait for others before them."""
    wsrm_bytes_per_owner: int = Field(256 * 2**20, ge=1)
    """Bytes of messages that wait so in all sequences of one owner; trusted peers are one."""
    wsrm_nacks: bool = False
    """Publishers are asked for what is missing (Nack) when the first message behind it comes."""
    wsrm_expiry: Length = timedelta(hours=24)
    """The longest life of a sequence, whatever is asked for."""

    default_lease: Length = timedelta(hours=24)
    longest_lease: Length = timedelta(hours=24)
    grace: Annotated[
        timedelta, BeforeValidator(read_seconds), Field(ge=timedelta(), le=CENTURY)
    ] = timedelta(seconds=60)
    max_subscriptions: int = Field(100_000, ge=1)
    max_subscriptions_per_owner: int = Field(1000, ge=1)
    max_subscriptions_per_destination: int = Field(100, ge=1)
    """Subscriptions of one stranger to one host and port."""
    survive_power_loss: bool = True

    engine: Annotated[str | None, AfterValidator(_known_engine)] = None
    """The engine that matches filters: by default the best there is; or one that is installed."""
    hold_while_paused: bool = False
    """What is published while a subscription is paused waits for it."""
    backlog_policy: str = Field("dead-letter-oldest", pattern="^(dead-letter-oldest|end)$")
    """The reaction to more deliveries waiting for a subscription than are kept."""
    envelope_bytes: int = Field(2 * 2**20, ge=2**16, le=32 * 2**20)
    envelope_elements: int = Field(50_000, ge=1000, le=1_000_000)
    """The most bytes, and elements, of a SOAP envelope."""
    store_reserve: int | None = Field(None, ge=0)
    """Bytes of the disk of an SQLite store that publications leave free: by default an eighth of
    it, from 16 to 64 MiB."""
    dead_letter_bytes: int = Field(4 * 2**30, ge=1)
    dead_letter_bytes_per_owner: int = Field(2**30, ge=1)
    """Bytes of dead letters, of all owners and of one; beyond them the oldest are forgotten."""
    owner_bytes: int = Field(2**30, ge=1)
    strangers_bytes: int | None = Field(None, ge=1)
    """Bytes that one stranger, and all, may have kept: None is half of the disk."""
    retry_delays: Delays | None = None
    black_list_after: int = Field(0, ge=0, le=1000)
    black_list_for: Delay = 300.0
    """After so many time-outs in a row, 0 is never, a consumer is left alone for so many seconds;
    what comes for it meanwhile is a dead letter."""
    slots: Annotated[int, BeforeValidator(read_slots)] = Field(512, ge=1)
    """How many messages are under way; also ``serial``, ``parallel`` or ``pcrew``."""
    drain: float = Field(10.0, ge=0, le=60)
    """Seconds that deliveries under way get when the gateway stops."""
    log: str = Field("info", pattern="^(debug|info|warning|error)$")
    telemetry: bool = False
    """Traces of OpenTelemetry, where the variables of its SDK say."""
    console_messages: int = Field(0, ge=0, le=10_000)
    """Messages that are kept whole in memory, for operators who look at them; 0 is none."""
    console_mask: Words = ()
    """Names of elements, attributes, members of JSON and header fields whose contents operators do
    not see in messages."""
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
        return (
            init_settings,
            _Variables(settings_cls),
            _FormerVariables(settings_cls),
            _File(settings_cls),
        )

    @model_validator(mode="after")
    def _hand_destinations_to_the_adapter(self) -> Self:
        if self.destinations:
            rows = {"destinations": json.dumps(self.destinations)}
            self.adapter_settings = {**self.adapter_settings, **rows}
        return self

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if wrong := "\n".join(self._contradictions()):
            raise ValueError(wrong)
        if self.mailboxes_only:
            self.adapter = SecretStr("memory:")
        return self

    def _contradictions(self) -> Iterator[str]:
        """Problems of settings that are each right by themselves, a line for each."""
        if self.spool and self.scheme in WITHIN:
            yield (
                f"spool: {self.scheme}: is within the gateway, and never away; a spool is for a "
                "broker"
            )
        for name in ("tls_key", "tls_client_ca", "tls_names"):
            if getattr(self, name) and self.tls_certificate is None:
                yield f"{name}: needs tls_certificate, too"
        for name in ("signers", "key", "signing_key"):
            if getattr(self.ws_security, name) is not None and self.identities is None:
                yield f"ws_security.{name}: needs identities, too"
        if self.atna is not None and self.identities is None:
            yield "atna: needs identities, too: without them there is no audit log"
        if self.wsrm_binding == "signature" and self.ws_security.signers is None:
            yield "wsrm_binding: signature needs signers in ws_security, too"
        if self.wsrm_binding == "tls" and not (
            self.tls_client_ca or self.client_certificate_header
        ):
            yield "wsrm_binding: tls needs tls_client_ca or client_certificate_header, too"
        if self.client_certificate_header and not self.trusted_proxies:
            yield "client_certificate_header: needs trusted_proxies, too"
        tokens = [one.token for one in self.relays]
        if len(set(tokens)) < len(tokens):
            yield "relays: two have one token"
        names = [one.name for one in self.channels]
        if len(set(names)) < len(names):
            yield "channels: two have one name"
        if self.soap_tcps_port is not None and self.tls_certificate is None:
            yield "soap_tcps_port: it needs tls_certificate"
        if self.egress_key and self.egress_certificate is None:
            yield "egress_key: needs egress_certificate, too"
        given = "adapter" in self.model_fields_set and self.scheme != "memory"
        if self.mailboxes_only and given:
            yield "adapter: nothing is published where mailboxes_only is set; leave it out"

    @model_validator(mode="after")
    def _administration_is_not_for_strangers(self) -> Self:
        if self.admin_port is None and self.admin_host is None and self.on_loopback:
            return self
        if self.admin_port is None and self.port and self.port + ADMIN_BEHIND > 65535:
            raise ValueError(f"admin_port: must be set, for {self.port} is that high")
        if self.port and self._admin_address == (self.host, self.port) and not self.on_loopback:
            raise ValueError("admin_port: strangers reach it, for SOAP is there; choose another")
        return self

    @property
    def believed_authorities(self) -> list[Path]:
        """The files of the authorities that certify clients of TLS, and signers of messages."""
        return [one for one in (self.tls_client_ca, self.ws_security.signers) if one is not None]

    @property
    def takes_sequences(self) -> bool:
        """Whether some endpoint takes reliable messages."""
        return any(mode != Sequences.OFF.value for mode in (self.wsrm, *self.wsrm_at.values()))

    @property
    def bound_sequences(self) -> Bound:
        """What the sequences of publishers must be bound to."""
        return {"signature": Bound.TOKEN, "tls": Bound.TLS}.get(self.wsrm_binding, Bound.NOTHING)

    @property
    def _admin_address(self) -> tuple[str, int]:
        loopback = "::1" if ":" in self.host else "127.0.0.1"
        port = self.admin_port
        if port is None:
            port = self.port + ADMIN_BEHIND if self.port else 0
        return self.admin_host or loopback, port

    @property
    def documents(self) -> DocumentLimits:
        """The limits of an envelope."""
        wanted = replace(
            DEFAULT_LIMITS,
            octets=self.envelope_bytes,
            elements=self.envelope_elements,
            nodes=2 * self.envelope_elements,
        )
        return DEFAULT_LIMITS if wanted == DEFAULT_LIMITS else wanted

    @property
    def admin(self) -> tuple[str, int] | None:
        """The host and port of the administration's own listener; None where it shares that of
        SOAP, which is on loopback then.

        Without settings that is loopback, ten ports behind ``port``.
        """
        asked = self.admin_host is not None or self.admin_port is not None
        if not asked and self.on_loopback:
            return None
        address = self._admin_address
        return None if self.port and address == (self.host, self.port) else address

    @property
    def web_scheme(self) -> str:
        """The scheme of the HTTP port."""
        return "https" if self.tls_certificate else "http"

    @property
    def scheme(self) -> str:
        """The scheme of the adapter's URL."""
        return self.adapter.get_secret_value().partition(":")[0].lower()

    @property
    def mailbox_quotas(self) -> MailboxQuotas:
        """The limits of mailboxes."""
        bounds = MailboxBounds(
            self.mailbox_messages, self.mailbox_bytes, self.mailbox_overflow == "refuse"
        )
        return MailboxQuotas(
            self.max_mailboxes_per_owner,
            self.max_mailboxes,
            bounds,
            self.mailbox_age.total_seconds(),
            self.mailbox_idle.total_seconds(),
            refuse_strangers=self.mailbox_overflow is None,
        )

    @property
    def open_to_everybody(self) -> bool:
        """Whether everybody who reaches the gateway from elsewhere may publish and subscribe: who
        it is is not asked, nor a certificate."""
        asks = self.tls_client_ca is not None and self.soap_tcp_port is None
        return not (self.on_loopback or self.identities is not None or asks)

    @property
    def on_loopback(self) -> bool:
        """Whether the gateway listens on loopback alone."""
        return is_loopback(self.host)


def read_settings(**given: Any) -> Settings:
    """The settings; *given* ones that are None count as not given.

    Raises:
        SettingsError: Some cannot be read; the text is one line for a person.
    """
    given = {name: value for name, value in given.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        problems = [one for each in error.errors() for one in _problems(each, given)]
        raise SettingsError(problems) from error
    except pydantic_settings.SettingsError as error:
        found = _IN_ENVIRONMENT.search(str(error))
        name = found[1] if found else "a setting"
        text = f'{name}: must be written as JSON, such as {{"name": "value"}}'
        place = _variable(name) or "the environment"
        raise SettingsError([Problem(name, place, text)]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        text = f"{FILE}: is not TOML: {error}"
        raise SettingsError([Problem("", "", text)]) from error


def place_of(name: str, given: Collection[str]) -> str:
    """The source of the setting *name*: the option, the variable, the file, or ``default``."""
    if name in given:
        return f"--{name.replace('_', '-')}"
    names = (name, *(former for former, now in FORMER_NAMES.items() if now == name))
    variables = [one for one in map(_variable, names) if one is not None]
    if variables:
        return variables[0]
    return FILE if any(one in in_file() for one in names) else "default"


def in_file() -> Mapping[str, Any]:
    """The content of ``dragoman.toml`` in the working folder; empty where it cannot be read."""
    try:
        return tomllib.loads(Path(FILE).read_text())
    except (OSError, ValueError):
        return {}


def did_you_mean(name: str) -> str:
    """The advice about *name*, which is not a setting."""
    near = get_close_matches(name.lower(), Settings.model_fields, 1)
    return f"did you mean {near[0]}?" if near else "remove it"


def _variable(name: str) -> str | None:
    """The variable of the environment that sets *name*, or a part of it."""
    wanted = f"DRAGOMAN_{name.upper()}"
    for variable in sorted(os.environ):
        if variable.upper() == wanted or variable.upper().startswith(f"{wanted}__"):
            return variable
    return None


def _problems(error: ErrorDetails, given: Collection[str]) -> Iterator[Problem]:
    """The problems of one error of a validation; several, where settings do not go together."""
    if not error["loc"]:
        for text in str(error["msg"]).removeprefix("Value error, ").splitlines():
            name = text.partition(":")[0]  # The text names one itself.
            yield Problem(name, place_of(name, given), text)
        return
    name = str(error["loc"][0])
    choice = _CHOICE.fullmatch(str(error.get("ctx", {}).get("pattern", "")))
    if error["type"] == "extra_forbidden":
        text = "there is no such setting"
        text += f"; {did_you_mean(name)}" if len(error["loc"]) == 1 else ""
    elif error["type"] == "value_error":
        text = str(error["msg"]).removeprefix("Value error, ")
    elif choice:
        text = f"must be {' or '.join(choice[1].split('|'))}"
    else:
        text = wanted(error)
    place = place_of(name, given)
    yield Problem(
        name, FILE if place == "default" else place, f"{'.'.join(map(str, error['loc']))}: {text}"
    )
