"""The port through which messages leave."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Protocol, Self, TypeAlias, runtime_checkable

from filters import Refused, in_utf_8
from gateway.egress.addresses import Target
from gateway.egress.causes import one_line
from gateway.model.subscriber_grants import SubscriberGrant
from mediation.model.messages import Attachment, Packaging
from mediation.model.versions import Soap
from mediation.packaging.mime import charset_in

LONGEST_DOCUMENT = 2**20
"""Bytes of an answer that is read, in UTF-8."""
MAX_RETRY_AFTER = 3600.0
"""Seconds; a consumer that asks for more is asked again after these."""


GIVEN_UP = "given up by this gateway before there was an answer"


class FailureKind(Enum):
    """Why there is no answer. The value says it in words, for where nothing more is known."""

    NAME = "its name has no address"
    CONNECT = "no connection"
    """Refused, unreachable, reset."""
    TLS = "the TLS handshake failed"
    """Or the certificate is not the host's."""
    TIMEOUT = "no answer in time"
    RESET = "the connection was closed before the answer"
    FORBIDDEN = "the policy of this gateway does not allow to send to this address"
    """Nothing was sent."""
    ANSWER = "the answer is malformed or too long"
    TRANSPORT = "the transport failed"
    """One that a package brought, inside."""
    CREDENTIAL = "the credential for it cannot be shown, or is not accepted"
    """That of its row of settings, which the operator can correct."""
    REPLY = "its answer is not signed as its row of consumers demands"
    """It may have the message."""
    UNSIGNABLE = "the message cannot be signed, as it has to be"
    TOO_LARGE = "the message is larger than the consumer takes"
    """Nothing was sent."""


class SendFailed(Exception):
    """Raised where there is no answer that could be judged. Its text is *detail*.

    Args:
        kind: What went wrong.
        detail: Why, in words that are shown to the operator and to the owner of the subscription:
            no credentials, no keys. What is said of *kind* where it is empty; its first 200
            characters are kept.
        connecting: Whether it did before there was a connection: then it counts for the
            destination, else for the subscription alone.
        status: The status, when that much of the answer was read.
        answer: The answer that did not accept the credential, or None.
    """

    def __init__(
        self,
        kind: FailureKind,
        detail: str = "",
        *,
        connecting: bool = False,
        status: int | None = None,
        answer: "Answer | None" = None,
    ) -> None:
        self.detail = one_line(detail) or kind.value
        super().__init__(self.detail)
        self.kind = kind
        self.connecting = connecting
        self.status = status
        self.answer = answer


class SendingAsOurselves(Protocol):
    """Shows who sends: see `gateway.egress.request_authentication.RequestAuthentication`."""

    async def send(
        self,
        request: "Request",
        goal: Target,
        send: "Callable[[Request], Awaitable[Answer]]",
        post: "Callable[[Request], Awaitable[Answer]]",
        write: Callable[[int, Callable[[], bytes]], Awaitable[bytes]],
    ) -> "Answer":
        """Send *request*, on a connection to *goal*, by *send*; *post* reaches authorization
        servers, *write* runs what takes its time."""


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What whoever is asked is shown, in place of what a row of ``consumers`` has.

    Attributes:
        authentication: Shows a credential; None: none is shown.
        tls: The context of TLS, with a certificate or with authorities of its own; None: that of
            the row of ``consumers``, or of everybody.
    """

    authentication: SendingAsOurselves | None = None
    tls: ssl.SSLContext | None = None


@dataclass(slots=True)  # Not frozen: that makes it three times as dear, for every delivery.
class Request:
    """A message to send.

    Attributes:
        headers: What the message needs (``Content-Type``, ``SOAPAction``); those of the
            transport itself (``Host``, ``Content-Length``, ...) are added.
        soap: The version of the envelope in *body*; None where that is no envelope.
        packaging: How the consumer reads attachments; SOAP.TCP always has DIME.
        message_id: That of the message, where the transport is to know it.
        admit: Asked with the address of the peer before anything is written; what it does not admit
            fails as if there were no connection.
        origin: Which event it is a copy of, for another gateway; empty where that is not said.
        own_headers: Headers that no other message has, beside *headers*.
        patient: Its answer may be long, and may take its time: who is asked waits for something.
        once: A connection that ends with it is a failure, also where the consumer may have closed
            it while it was idle: whoever sends it counts how often it was sent.
        owner: Of the subscription that it is sent for; None: for none, as answers are. Then it is
            sent without a credential: anybody can have an answer sent anywhere.
        expires: POSIX time from which on nobody is to get what is kept of it; None is never.
        wanted: Asked before anything is written, as `admit` is: a connection may take long; None:
            it is sent in any case. What is posted is written at once.
        grant: The right by which its subscriber gets it, for whoever keeps it; None: it takes none.
        shown: The credential and the certificate of the one producer that is asked; None: those of
            its row of ``consumers``.
    """

    target: Target
    body: bytes
    headers: tuple[tuple[str, str], ...]
    method: str = "POST"
    soap: Soap | None = Soap.V1_1
    attachments: tuple[Attachment, ...] = ()
    packaging: Packaging = Packaging.NONE
    message_id: str | None = None
    origin: str = ""
    admit: Callable[[str], bool] | None = None
    own_headers: tuple[tuple[str, str], ...] = ()
    patient: bool = False
    once: bool = False
    owner: str | None = None
    expires: float | None = None
    wanted: Callable[[], bool] | None = None
    grant: SubscriberGrant | None = None
    shown: Shown | None = None

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The context of TLS that it is to be sent with; None where it needs none of its own."""
        return None if self.shown is None else self.shown.tls


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a request.

    Attributes:
        body: At most 64 KiB, as it came: never inflated.
        headers: Names in lower case; only those that somebody here reads.
        dropped: How many attachments of the request were left out of what was sent.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    dropped: int = 0

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def document(self) -> bytes:
        """The body, an XML document, in UTF-8; as it came where it cannot be."""
        try:
            return in_utf_8(self.body, charset_in(self.content_type), most=LONGEST_DOCUMENT)
        except Refused:
            return self.body

    def retry_after(self, now: float) -> float | None:
        """Seconds to wait from *now* (a POSIX time), 0 to 3600; None when not said.

        RFC 9110, "Retry-After": seconds or a date.
        """
        value = self.headers.get("retry-after", "").strip()
        if value.isascii() and value.isdigit():
            return min(float(value[:9]), MAX_RETRY_AFTER)
        try:
            until = parsedate_to_datetime(value).timestamp()
        except (ValueError, OverflowError):
            return None
        return min(max(until - now, 0.0), MAX_RETRY_AFTER)


def check_peer(request: Request, peer: str) -> None:
    """Ask whether *request* may be written to *peer*, an address.

    Raises:
        SendFailed: It may not.
    """
    if request.wanted is not None and not request.wanted():
        raise SendFailed(FailureKind.CONNECT, "it is not to be sent any more", connecting=True)
    if request.admit is not None and not request.admit(peer):
        raise SendFailed(
            FailureKind.CONNECT,
            "its host was asked often enough for now, and never accepted a message",
            connecting=True,
        )


class Posted(Protocol):
    """A request that was posted, and is under way."""

    def cancel(self) -> object:
        """Give the request up: it is told as failed, in a later turn of the loop, or not at all."""


Told: TypeAlias = Callable[[Answer | SendFailed], None]
"""Hears the answer, or why there is none."""


class Lane(Protocol):
    """A way on which a message can begin to be sent at once, so that nobody has to wait in a task:
    an open connection."""

    in_order: bool
    """Whether requests arrive in the order in which they are posted, also behind those still under
    way: then none of them is answered."""

    def post(self, request: Request, told: Told) -> Posted | None:
        """Begin to send *request*; *told* hears how it ended, in a later turn of the loop. None: it
        cannot begin now, and was not."""


@runtime_checkable
class Posting(Protocol):
    """A transport that has lanes."""

    def lane(self, target: Target) -> Lane | None:
        """A lane to *target*; None where there is none now, and `Transport.send` has to find a
        way."""


class Transport(Protocol):
    """Sends to addresses that strangers named; what their answers can cost is bounded."""

    async def send(self, request: Request) -> Answer:
        """Send *request* once and return what was answered, whatever its status.

        Raises:
            SendFailed: There was no answer.
        """

    async def close(self) -> None:
        """Give up what is under way and close every connection."""


# For packages that bring a transport (entry-point group ``dragoman.transports``).

TRANSPORT_API_VERSION = 1
"""The version of `PluggedTransport`."""


@dataclass(frozen=True, slots=True)
class TransportSetup:
    """What a transport is made of.

    Attributes:
        scheme: The scheme of the addresses that it sends to.
        settings: Its own settings, by name, as the operator wrote them.
        may_reach: Whether a connection for a target may be made to this IP address: the policy of
            the gateway. A transport asks it on each connection to a host that an address names.
    """

    scheme: str
    settings: Mapping[str, str]
    may_reach: Callable[[Target, str], bool]


class SchemeTransport(Transport, Protocol):
    """A transport that reads the addresses of its scheme itself."""

    def target(self, address: str) -> Target:
        """Read *address*, without a look at anything outside. Its host and port are the key by
        which failures are counted and connections dealt.

        Raises:
            AddressRefused: It is no address of the scheme.
        """


class PluggedTransport(SchemeTransport, Protocol):
    """A transport that a package brings.

    The gateway gives each `send` a deadline, and bounds how many are under way; what it raises
    beside `SendFailed` counts as a failure that is tried again. It runs in the gateway's event
    loop: what blocks belongs into a thread.
    """

    api_version: int
    """`TRANSPORT_API_VERSION` of what it was written for."""

    @classmethod
    def from_setup(cls, setup: TransportSetup) -> Self:
        """Make the transport, while the event loop runs. It connects when it has to send.

        Raises:
            Exception: A setting is wrong; its text is shown to the operator.
        """
