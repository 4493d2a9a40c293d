"""A small camera of ONVIF: a device service, an event service, pull points, users. What is wrong
with one is a field of it."""

import asyncio
import contextlib
import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from tests.rigs.envelopes import WSNT
from tests.rigs.producers import WSA10, Producer, Told, fault
from tests.rigs.waiting import DEADLINE

TDS = "http://www.onvif.org/ver10/device/wsdl"
TEV = "http://www.onvif.org/ver10/events/wsdl"
TT = "http://www.onvif.org/ver10/schema"
TER = "http://www.onvif.org/ver10/error"
WSSE = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"
MOTION = "tns1:VideoSource/MotionAlarm"
USER, PASSWORD = "events", "s3cret <&> ü"
TOLERANCE = 5.0
"""Seconds that the time of a token may differ from the camera's."""
_PAIR = re.compile(r'(\w+)=(?:"([^"]*)"|([^\s,]+))')
_MESSAGE = (
    f'<wsnt:NotificationMessage xmlns:wsnt="{WSNT}" xmlns:tns1="http://www.onvif.org/ver10/topics">'
    '<wsnt:Topic Dialect="http://www.onvif.org/ver10/tev/topicExpression/ConcreteSet">'
    f"{MOTION}</wsnt:Topic><wsnt:Message>"
    f'<tt:Message xmlns:tt="{TT}" UtcTime="2026-01-01T00:00:00Z" PropertyOperation="Changed">'
    '<tt:Source><tt:SimpleItem Name="Source" Value="1"/></tt:Source>'
    '<tt:Data><tt:SimpleItem Name="State" Value="{}"/></tt:Data></tt:Message>'
    "</wsnt:Message></wsnt:NotificationMessage>"
)


@dataclass(eq=False)
class Camera(Producer):
    """One camera. `clock` and `grants` are those of every producer.

    Attributes:
        takes: The ways in which it takes a password: ``token``, ``digest``, ``basic``; none wants
            one.
        digest: The algorithm of HTTP Digest.
        once: Whether each of its nonces of Digest is for one request.
        host: What it says that its host and port are; None: the true ones.
        services: Whether it knows GetServices, and not GetCapabilities alone.
        events: Whether it has an event service.
        most: Seconds of a lease, at most.
        renews: Whether a pull point can be renewed.
        state: What SetSynchronizationPoint says the state is; None: it cannot.
    """

    takes: tuple[str, ...] = ("token",)
    user: str = USER
    password: str = PASSWORD
    digest: str = "MD5"
    once: bool = False
    host: str | None = None
    services: bool = True
    events: bool = True
    most: int = 600
    renews: bool = True
    state: str | None = "initial"
    messages: list[str] = field(default_factory=list)
    nonces: set[str] = field(default_factory=set)
    nonce: int = 0
    refused: list[str] = field(default_factory=list)
    """The operations that were refused for want of a password."""
    scripted: ClassVar[frozenset[str]] = frozenset({"GetSystemDateAndTime"})
    """What everybody may ask."""

    def __post_init__(self) -> None:
        self.wire = self._written
        self.manager = None

    @property
    def device(self) -> str:
        """The address of the device service."""
        return f"{self.url}/onvif/device_service"

    async def move(self, *states: str) -> None:
        """Have motion alarms with these states for who pulls."""
        async with self.changed:
            self.messages += [_MESSAGE.format(state) for state in states]
            self.changed.notify_all()

    async def restart(self, clock: float | None = None) -> None:
        """Restart, with an empty memory and perhaps another time."""
        async with self.changed:
            self.forget()
            self.nonces.clear()
            self.nonce += 1
            self.clock = self.clock if clock is None else clock
            self.changed.notify_all()

    # What it answers.

    async def answer(self, told: Told) -> tuple[int, bytes] | None:
        if self.takes and told.operation not in self.scripted and not self._knows(told):
            async with self.changed:
                self.refused.append(told.operation)
                self.told.append(told)
                self.changed.notify_all()
            return self._refuse(told)
        if told.operation != "PullMessages" or "PullMessages" in self.answers:
            return await super().answer(told)
        return await self._pull(told)

    async def _pull(self, told: Told) -> tuple[int, bytes] | None:
        id_ = told.path.rpartition("/")[2]
        async with self.changed:
            self.told.append(told)
            self.changed.notify_all()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DEADLINE):
                    await self.changed.wait_for(lambda: self.messages or id_ not in self.held)
            if id_ not in self.held:
                return fault("No such subscription.", subcode="ResourceUnknownFault")(self, told)
            limit = int(told.text("MessageLimit") or "1")
            given, self.messages = self.messages[:limit], self.messages[limit:]
        times = self._times(told).replace("p:", "t:")
        body = f'<t:PullMessagesResponse xmlns:t="{TEV}">{times}{"".join(given)}'
        return 200, self._envelope(told, f"{body}</t:PullMessagesResponse>")

    def _do(self, told: Told) -> tuple[int, bytes]:
        match told.operation:
            case "GetSystemDateAndTime":
                return 200, self._envelope(told, self._time())
            case "GetServices" if self.services:
                return 200, self._envelope(told, self._services())
            case "GetCapabilities":
                return 200, self._envelope(told, self._capabilities())
            case "GetEventProperties" if self.events:
                return 200, self._envelope(told, f'<t:GetEventPropertiesResponse xmlns:t="{TEV}"/>')
            case "CreatePullPointSubscription":
                return 200, self._envelope(told, self._subscribe(told))
            case "SetSynchronizationPoint" if self.state is not None:
                self.messages.append(_MESSAGE.format(self.state))
                return 200, self._envelope(
                    told, f'<t:SetSynchronizationPointResponse xmlns:t="{TEV}"/>'
                )
            case "Renew" if not self.renews:
                return fault("Not offered.")(self, told) or (500, b"")
        return super()._do(told)

    def _time(self) -> str:
        now = datetime.now(UTC) + timedelta(seconds=self.clock)
        parts = "".join(
            f"<tt:{name}>{number}</tt:{name}>"
            for name, number in (
                ("Hour", now.hour), ("Minute", now.minute), ("Second", now.second),
                ("Year", now.year), ("Month", now.month), ("Day", now.day),
            )
        )  # fmt: skip
        return (
            f'<d:GetSystemDateAndTimeResponse xmlns:d="{TDS}" xmlns:tt="{TT}">'
            "<d:SystemDateAndTime><tt:DateTimeType>Manual</tt:DateTimeType>"
            f"<tt:UTCDateTime>{parts}</tt:UTCDateTime></d:SystemDateAndTime>"
            "</d:GetSystemDateAndTimeResponse>"
        )

    @property
    def _said(self) -> str:
        """Its URL, as it says that it is."""
        scheme, _, rest = self.url.partition("://")
        authority, _, path = rest.partition("/")
        return f"{scheme}://{self.host or authority}/{path}/onvif"

    def _services(self) -> str:
        events = (
            f"<d:Service><d:Namespace>{TEV}</d:Namespace><d:XAddr>{self._said}/events</d:XAddr>"
            f'<d:Capabilities><t:Capabilities xmlns:t="{TEV}" MaxPullPoints="2"/></d:Capabilities>'
            "</d:Service>"
        )
        return (
            f'<d:GetServicesResponse xmlns:d="{TDS}"><d:Service><d:Namespace>{TDS}</d:Namespace>'
            f"<d:XAddr>{self._said}/device_service</d:XAddr></d:Service>"
            f"{events if self.events else ''}</d:GetServicesResponse>"
        )

    def _capabilities(self) -> str:
        events = (
            f"<tt:Events><tt:XAddr>{self._said}/events</tt:XAddr>"
            "<tt:WSPullPointSupport>true</tt:WSPullPointSupport></tt:Events>"
        )
        return (
            f'<d:GetCapabilitiesResponse xmlns:d="{TDS}" xmlns:tt="{TT}"><d:Capabilities>'
            f"{events if self.events else ''}</d:Capabilities></d:GetCapabilitiesResponse>"
        )

    def _subscribe(self, told: Told) -> str:
        super()._subscribe(told)
        held = next(reversed(self.held.values()))
        held.parameters = ""
        name = f"{told.operation}Response"
        uri = TEV if name.startswith("Create") else WSNT
        reference = f'<a:Address xmlns:a="{WSA10}">{self._said}/pull/{held.id}</a:Address>'
        return (
            f'<q:{name} xmlns:q="{uri}" xmlns:p="{WSNT}"><q:SubscriptionReference>{reference}'
            f"</q:SubscriptionReference>{self._times(told)}</q:{name}>"
        )

    def _times(self, told: Told) -> str:
        now = datetime.now(UTC) + timedelta(seconds=self.clock)
        until = now + timedelta(seconds=self.most)
        return (
            f"<p:CurrentTime>{now:%Y-%m-%dT%H:%M:%SZ}</p:CurrentTime>"
            f"<p:TerminationTime>{until:%Y-%m-%dT%H:%M:%SZ}</p:TerminationTime>"
        )

    # Users.

    def _knows(self, told: Told) -> bool:
        ways = {"token": self._is_token, "digest": self._is_digest, "basic": self._is_basic}
        return any(ways[way](told) for way in self.takes)

    def _is_token(self, told: Told) -> bool:
        said = {
            name: told.text(name) or "" for name in ("Username", "Password", "Nonce", "Created")
        }
        if not said["Created"] or said["Nonce"] in self.nonces:
            return False
        self.nonces.add(said["Nonce"])
        ours = datetime.now(UTC) + timedelta(seconds=self.clock)
        theirs = datetime.fromisoformat(said["Created"])
        octets = b64decode(said["Nonce"]) + said["Created"].encode() + self.password.encode()
        digest = b64encode(hashlib.sha1(octets, usedforsecurity=False).digest()).decode()
        timely = abs((ours - theirs).total_seconds()) <= TOLERANCE
        return timely and (said["Username"], said["Password"]) == (self.user, digest)

    def _is_basic(self, told: Told) -> bool:
        right = b64encode(f"{self.user}:{self.password}".encode()).decode()
        return told.headers.get("authorization") == f"Basic {right}"

    def _is_digest(self, told: Told) -> bool:
        scheme, _, rest = told.headers.get("authorization", "").partition(" ")
        said = {name: quoted or bare for name, quoted, bare in _PAIR.findall(rest)}
        if scheme != "Digest" or said.get("nonce") != f"n{self.nonce}":
            return False
        name = {"MD5": "md5", "SHA-256": "sha256"}[self.digest]

        def hashed(*parts: str) -> str:
            return hashlib.new(name, ":".join(parts).encode()).hexdigest()

        secret = hashed(self.user, "camera", self.password)
        request = hashed("POST", said["uri"])
        right = hashed(secret, said["nonce"], said["nc"], said["cnonce"], "auth", request)
        seen = said["nonce"] + said["nc"]
        if said["uri"] != told.path or seen in self.nonces:
            return False
        self.nonces.add(seen)
        self.nonce += self.once
        return bool(said["response"] == right)

    def _refuse(self, told: Told) -> tuple[int, bytes]:
        if "token" in self.takes:
            return fault("Sender not authorized.", 400, subcode="NotAuthorized", namespace=TER)(
                self, told
            ) or (400, b"")
        return 401, b""

    def _challenges(self) -> Iterator[str]:
        if "digest" in self.takes:
            yield (
                f'WWW-Authenticate: Digest realm="camera", nonce="n{self.nonce}", '
                f'qop="auth", algorithm={self.digest}\r\n'
            )
        if "basic" in self.takes:
            yield 'WWW-Authenticate: Basic realm="camera"\r\n'

    def _written(self, code: int, type_: str, body: bytes) -> bytes:
        challenges = "".join(self._challenges()) if code == 401 else ""
        return (
            f"HTTP/1.1 {code} Said\r\nContent-Type: {type_}\r\n{challenges}"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode() + body
