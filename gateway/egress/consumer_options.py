"""Options of consumers: what an operator knows that their addresses do not say.

A row is for all consumers whose address fits its pattern; the most specific row that fits
counts, as a whole. Where there are no rows this costs nothing.
"""

import asyncio
import re
import ssl
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

import structlog
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from filters import Refused
from gateway.egress.addresses import AddressRefused, Target, parse_target
from gateway.egress.credential_kinds import X509, Credential, SecretPlace, keeps_secrets
from gateway.egress.request_authentication import RequestAuthentication
from gateway.egress.signed_replies import ReplyRule, SignedReplies
from gateway.model.hosts import comparable_host
from gateway.security.file_watch import EVERY, FileWatch
from gateway.security.tls import Names, client_context
from mediation.model.messages import Packaging
from mediation.profiles import SENDING, Sending

_PATTERN = re.compile(
    r"""(?:(?P<scheme>https?|soap\.tcps?)://)?
        (?P<host>\*|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])
        (?::(?P<port>[0-9]{1,5}))?
        (?P<path>/[!-~]*)?""",
    re.VERBOSE | re.IGNORECASE,
)
_DOTS = re.compile(r"(?:[/\\]|%2f|%5c)(?:\.|%2e){1,2}(?:[/\\;]|%2f|%5c|%3b|$)", re.IGNORECASE)
"""Segments of dots: also where servers find them that read ``%2F`` and ``\\`` as ``/``, and leave
out what is behind ``;``."""
_REMEMBERED = 4096
"""Addresses whose row is known without looking."""
_log = structlog.get_logger("dragoman.credentials")


def _is_pattern(value: str) -> str:
    if not _PATTERN.fullmatch(value):
        raise ValueError(f"{value!r} must be [scheme://]host[:port][/path], the host also * or *.x")
    return value


def _is_via(value: str) -> str:
    try:
        target = parse_target(value)
    except AddressRefused as exc:
        raise ValueError(f"{value!r} is not an address that can be sent to") from exc
    if target.path != "/":
        raise ValueError(f"{value!r} must be scheme://host:port alone")
    return value


def _is_profile(value: str) -> str:
    if value not in SENDING:
        raise ValueError(f"{value!r} is not a profile of consumers; there are {', '.join(SENDING)}")
    return value


class Consumer(BaseModel):
    """A row of ``consumers`` in the settings.

    Attributes:
        profile: The name of one of `mediation.SENDING`: a known peculiarity, with what is done for
            it, unless the row itself says otherwise.
        address: ``[scheme://]host[:port][/path]``: what is left out fits any; the host is a name,
            an address, ``*.`` and a name, or ``*``; the path is a prefix by whole segments.
        http: The version spoken.
        attachments: How they go to it, whatever the subscriber spoke.
        via: Where to connect instead; the envelope keeps the consumer's address.
        max_message: Octets of envelope and attachments; what is larger is undeliverable.
        acknowledgements: Whether it acknowledges what comes in a sequence on the connections, or at
            an address of the gateway.
        ca: The only authorities trusted with it.
        server_name: The name asked for and verified in TLS, instead of the host.
        owner: The user (``user:NAME``) or the certificate (``cert:SUBJECT``) whose hosts these are:
            what it subscribes needs no probation, and gets the credential and the client's
            certificate, alone.
        credential: Shown to it with all that is sent for subscriptions.
        signature: The place of the keys by which that is signed (Standard Webhooks).
        signed_replies: Who must sign its answers; None: they need not be signed.
        secure_sequences: Its sequences are bound to the certificate of its credential.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: Annotated[str, AfterValidator(_is_pattern)]
    profile: Annotated[str, AfterValidator(_is_profile)] | None = None
    http: Literal["1.0", "1.1"] | None = None
    attachments: Packaging | None = None
    via: Annotated[str, AfterValidator(_is_via)] | None = None
    max_message: int | None = Field(None, ge=1)
    acknowledgements: Literal["connection", "address"] = "connection"
    client_certificate: Path | None = None
    client_key: Path | None = None
    ca: Path | None = None
    server_name: str | None = Field(None, pattern=r"^[A-Za-z0-9.:_-]{1,253}$")

    owner: str | None = Field(None, pattern=r"^(tenant:[^:]+:)?(user|cert):.{1,1024}$")
    credential: Credential | None = None
    signature: SecretPlace | None = None
    signed_replies: SignedReplies | None = None
    secure_sequences: bool = False

    @model_validator(mode="after")
    def _bind_to_a_certificate(self) -> Self:
        if self.secure_sequences and not isinstance(self.credential, X509):
            raise ValueError("secure_sequences: needs a credential of the kind x509")
        return self

    @model_validator(mode="after")
    def _hear_signed_replies(self) -> Self:
        if self.signed_replies is not None and (
            self.acknowledgements == "address" or self.address.startswith("soap.tcp")
        ):
            raise ValueError("signed_replies: they come on the connections of HTTP alone")
        return self

    @model_validator(mode="after")
    def _show_a_certificate_with_its_key(self) -> Self:
        if self.client_key is not None and self.client_certificate is None:
            raise ValueError("client_key: a client_certificate belongs to it")
        return self

    @model_validator(mode="after")
    def _keep_secrets_for_one_host(self) -> Self:
        secret = self.credential or self.signature
        host = self.address.partition("://")[2] or self.address
        if secret is not None and host.startswith("*"):
            raise ValueError("a credential or signature is for one host: write it without *")
        shows = self.credential is not None and self.credential.shows_secret
        if shows and self.address.startswith(("http://", "soap.tcp://")) and not self._is_here:
            raise ValueError("credential: http:// shows it: write https, or set allow_http")
        return self

    @property
    def _is_here(self) -> bool:
        return keeps_secrets(parse_target(self.address))

    def files(self) -> Iterator[Path]:
        """The files that the row names."""
        places = (self.credential, self.signature)
        named = (self.client_certificate, self.client_key, self.ca)
        yield from (path for path in named if path is not None)
        if self.signed_replies is not None:
            yield self.signed_replies.signers
        for place in places:
            if place is not None:
                yield from place.files()


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """The options of one consumer. Each row makes one, the same for all its consumers.

    Attributes:
        tls: The context for it; None for that of everybody.
        tls_of_others: The same for those whose hosts these are not: without the certificate.
        calls_back: It acknowledges at an address of the gateway.
        authentication: What it is shown with each request; None for nothing.
        owner: The only one for whose subscriptions it is; empty for all.
        replies: Who must sign its answers; None for nobody.
        sequence_token: What its sequences are bound to, as CreateSequence refers to it; empty for
            nothing.
    """

    http: str = "1.1"
    attachments: Packaging | None = None
    via: Target | None = None
    max_message: int | None = None
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    calls_back: bool = False
    authentication: RequestAuthentication | None = None
    owner: str = ""
    replies: ReplyRule | None = None
    sequence_token: bytes = b""
    tls_of_others: ssl.SSLContext | None = None

    def shows_certificate(self, owner: str | None) -> bool:
        """Whether what is sent for *owner*, None for nobody's subscription, is sent with the
        certificate of the row. One without an owner is the operator's word for all that is sent;
        another's is as good as its credential: who has it sends in the name of its owner."""
        return not self.owner or owner == self.owner

    def tls_for(self, owner: str | None) -> ssl.SSLContext | None:
        """The context for what is sent for *owner*; None for that of everybody."""
        return self.tls if self.shows_certificate(owner) else self.tls_of_others

    def authentication_for(self, owner: str | None) -> RequestAuthentication | None:
        """What is shown with a request that is sent for a subscription of *owner*; None for one
        that is sent for none."""
        return self.authentication if self._are_for(owner) else None

    def sequence_token_for(self, owner: str | None) -> bytes:
        """What a sequence for a subscription of *owner* is bound to; empty for nothing."""
        return self.sequence_token if self._are_for(owner) else b""

    def _are_for(self, owner: str | None) -> bool:
        return owner is not None and owner == (self.owner or owner)


PLAIN = Options()
"""The options of consumers that no row is for."""


class ConsumerOptions:
    """The rows, asked by address.

    Args:
        ca: Trusted where a row with a client certificate names no authority; the system's when
            None.

    Raises:
        TlsError: A certificate that a row names cannot be used.
        SecretUnusable: A secret that a row names cannot be used.
    """

    def __init__(self, rows: Iterable[Consumer] = (), *, ca: Path | None = None) -> None:
        rows = tuple(rows)
        self._ca = ca
        self._watch = FileWatch({path for row in rows for path in row.files()})
        patterns = [_Pattern(row, _options(row, ca)) for row in rows]
        self._patterns = sorted(patterns, key=lambda one: one.rank, reverse=True)
        self._known: dict[str, Options] = {}

    def of(self, target: Target) -> Options:
        """The options of *target*; `PLAIN` where no row fits."""
        if not self._patterns:
            return PLAIN
        known = self._known.get(target.url)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            fitting = (one.options for one in self._patterns if one.fits(target))
            known = self._known[target.url] = next(fitting, PLAIN)
        return known

    def credentials_at(self, host: str) -> list[str]:
        """The names of the credentials that consumers at *host* are shown, the most specific row
        first."""
        at_host = (one.options.authentication for one in self._patterns if one.is_at(host))
        return [one.name for one in at_host if one is not None and one.name]

    def has_owner(self, host: str) -> bool:
        """Whether a row says whose *host* is."""
        return any(one.options.owner and one.fits_host(host) for one in self._patterns)

    def owns(self, owner: str, host: str) -> bool:
        """Whether a row says that *host* is one of *owner*."""
        return any(one.options.owner == owner and one.fits_host(host) for one in self._patterns)

    async def watch(self, every: float = EVERY) -> None:
        """Read secrets and certificates again whenever their files change. What cannot be used is
        logged, and what was read before stays; connections that there are end with what they show.
        """
        while True:
            changed = await self._watch.changes(every)
            for pattern in self._patterns:
                if not changed.isdisjoint(pattern.row.files()):
                    await self._read_again(pattern)
            self._known.clear()

    async def _read_again(self, pattern: "_Pattern") -> None:
        try:
            pattern.options = await asyncio.to_thread(_options, pattern.row, self._ca)
        except Refused as unusable:
            _log.error("credential.file-unusable", why=unusable.text)
        else:
            _log.info("credential.read", consumers=pattern.row.address)


class _Pattern:
    def __init__(self, row: Consumer, options: Options) -> None:
        match = _PATTERN.fullmatch(row.address)
        if match is None:
            raise ValueError(row.address)
        self.row = row
        self.options = options
        self._scheme = (match["scheme"] or "").lower()
        self._host = comparable_host(match["host"])
        self._port = int(match["port"] or 0)
        self._path = (match["path"] or "/").rstrip("/")
        labels = 0 if self._host == "*" else self._host.count(".") + 1
        self.rank = (
            not self._host.startswith("*"),
            labels,
            bool(self._port),
            len(self._path),
            bool(self._scheme),
        )

    def fits(self, target: Target) -> bool:
        path = target.path.partition("?")[0]
        if self._path and _DOTS.search(path):
            return False  # Who reads it may take it for a path elsewhere.
        return (
            self._scheme in ("", target.scheme)
            and self.fits_host(target.host)
            and self._port in (0, target.port)
            and (path == self._path or path.startswith(f"{self._path}/"))
        )

    def is_at(self, host: str) -> bool:
        """Whether the row is for consumers at *host* and at no other."""
        return self._host == host

    def fits_host(self, host: str) -> bool:
        """Whether the row is for consumers at *host*."""
        return host == self._host or (
            self._host.startswith("*") and host.endswith(self._host.removeprefix("*"))
        )


def _options(row: Consumer, ca: Path | None) -> Options:
    begin = f"consumers: {row.address}:"
    tls = of_others = _context(row, ca, begin)
    if row.owner and row.client_certificate:
        of_others = _context(row.model_copy(update={"client_certificate": None}), ca, begin)
    via = parse_target(row.via) if row.via else None
    known = SENDING.get(row.profile or "", Sending())
    http = row.http or known.http or "1.1"
    attachments = row.attachments if row.attachments is not None else known.attachments
    calls_back = row.acknowledgements == "address"
    return Options(
        http,
        attachments,
        via,
        row.max_message,
        tls,
        row.server_name,
        calls_back,
        _authentication(row, begin.removesuffix(":")),
        row.owner or "",
        row.signed_replies.read(begin.removesuffix(":")) if row.signed_replies else None,
        _token(row, begin.removesuffix(":")),
        of_others,
    )


def _context(row: Consumer, ca: Path | None, begin: str) -> ssl.SSLContext | None:
    """The context of TLS for consumers of *row*; None for that of everybody.

    Raises:
        TlsError: A file cannot be used.
    """
    if not (row.ca or row.client_certificate):
        return None
    return client_context(
        ca=row.ca or ca,
        certificate=row.client_certificate,
        key=row.client_key if row.client_certificate else None,
        names=Names(f"{begin} client_certificate", f"{begin} client_key", f"{begin} ca"),
    )


def _token(row: Consumer, name: str) -> bytes:
    """The reference to the certificate of *row*, where sequences are bound to it.

    Raises:
        SecretUnusable: It cannot be used.
    """
    if not row.secure_sequences or not isinstance(row.credential, X509):
        return b""
    from mediation.ws_security import write_token_reference

    key = row.credential.read(f"{name}: credential")
    return write_token_reference(row.credential.signing_key(key).certificate)


def _authentication(row: Consumer, name: str) -> RequestAuthentication | None:
    """What consumers of *row*, called *name* in errors, are shown.

    Raises:
        SecretUnusable: A secret cannot be used.
    """
    credential, keys = row.credential, row.signature
    if credential is None and keys is None:
        return None
    return RequestAuthentication(
        credential,
        credential.read(f"{name}: credential") if credential is not None else None,
        keys.read_keys(f"{name}: signature") if keys is not None else (),
    )
