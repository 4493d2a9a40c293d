"""Producers that grant, renew and end subscriptions as they are told, and send to who subscribed.

`Producers` listens; each `Producer` is one address at it, for WS-BaseNotification 1.3 or WS-Eventing
2004/08. What it answers to an operation is a line in its `answers`; without one it does as its
specification says.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self, TypeVar
from urllib.parse import urlsplit

from lxml import etree

from mediation.names import WSMAN
from tests.rigs.envelopes import S11, WSE, WSNT, Message, Speaker, children, fresh_id, next_number
from tests.rigs.gateways import read_http
from tests.rigs.ports import free_ports
from tests.rigs.waiting import DEADLINE

WSA10 = "http://www.w3.org/2005/08/addressing"
WSA04 = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?")


@dataclass
class Told:
    """A request that a producer was sent."""

    operation: str
    path: str
    message: Message
    headers: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """The text of the first element with that local name, anywhere."""
        for element in self.message.root.iter(etree.Element):
            if etree.QName(element).localname == name:
                return (element.text or "").strip()
        return None


@dataclass
class Held:
    """A subscription at a producer."""

    id: str
    consumer: str
    end_to: str | None
    parameters: str
    topic: str | None
    paused: bool = False


Script = Callable[["Producer", Told], "tuple[int, bytes] | None"]
"""Answers an operation: a status and a body; None never answers."""


def fault(
    text: str = "No.", status: int = 500, *, subcode: str = "", namespace: str = WSMAN
) -> Script:
    """A fault, in SOAP 1.1 or 1.2, which has a subcode of WS-Management, or another one's."""

    def answer(producer: "Producer", told: Told) -> tuple[int, bytes]:
        soap = told.message.soap
        sub = ""
        if subcode:
            value = f'<s:Value xmlns:w="{namespace}">w:{subcode}</s:Value>'
            sub = f"<s:Subcode>{value}</s:Subcode>"
        if soap is S11:
            inner = f"<faultcode>s:Client</faultcode><faultstring>{text}</faultstring>"
        else:
            inner = (
                f"<s:Code><s:Value>s:Sender</s:Value>{sub}</s:Code>"
                f'<s:Reason><s:Text xml:lang="en">{text}</s:Text></s:Reason>'
            )
        body = f"<s:Fault>{inner}</s:Fault>"
        return status, (
            f'<s:Envelope xmlns:s="{soap.value}"><s:Body>{body}</s:Body></s:Envelope>'.encode()
        )

    return answer


def status(code: int) -> Script:
    """A status without a body."""
    return lambda *_: (code, b"")


def silent(*_: object) -> None:
    """No answer."""


def http_answer(code: int, type: str, body: bytes) -> bytes:
    """An answer as HTTP wants it."""
    return (
        f"HTTP/1.1 {code} Said\r\nContent-Type: {type}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


@dataclass(eq=False)
class Producer:
    """One producer.

    Attributes:
        grants: What it says of the lease: what was asked for, a text, or nothing (None).
        clock: Seconds that its clock is ahead of ours.
        tells_time: Whether it says what its clock shows.
        meanwhile: What it does, by operation, before it sends the answer.
        manager: What it says that the address of a subscription's manager is; None: the true one.
        wire: Writes an answer of a status, of a media type and with a body, as octets.
    """

    url: str
    wse: bool = False
    grants: str | None = "asked"
    clock: float = 0.0
    tells_time: bool = True
    answers: dict[str, Script] = field(default_factory=dict)
    meanwhile: dict[str, "Callable[[Producer], Awaitable[None]]"] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    manager: str | None = None
    wire: "Callable[[int, str, bytes], bytes]" = http_answer

    def count(self, operation: str) -> int:
        """How many requests of that operation came."""
        return sum(one.operation == operation for one in self.told)

    def last(self, operation: str) -> Told:
        return [one for one in self.told if one.operation == operation][-1]

    async def asked(self, operation: str, number: int = 1) -> Told:
        """Wait for the *number*-th request of that operation."""
        await self.until(lambda: self.count(operation) >= number)
        return [one for one in self.told if one.operation == operation][number - 1]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once *holds*, which is asked after each request."""
        async with asyncio.timeout(DEADLINE), self.changed:
            await self.changed.wait_for(holds)

    @property
    def one(self) -> Held:
        """The only subscription."""
        [held] = self.held.values()
        return held

    def forget(self) -> None:
        """Lose every subscription, as who restarts with an empty memory."""
        self.held.clear()

    # What it sends.

    async def send(
        self, payload: str, *, topic: str | None = None, message_id: str | None = None,
        held: Held | None = None, headers: str = "",
    ) -> int:  # fmt: skip
        """Send an event to the subscription *held*, or to the only one; the answer's status."""
        to = held or self.one
        if self.wse:
            body = payload
            topics = f'<n:Topic xmlns:n="{WSNT}">{topic}</n:Topic>' if topic else ""
            return await self._post(to.consumer, body, f"urn:{topic}", message_id, topics + headers)
        topics = "" if topic is None else f"<n:Topic>{topic}</n:Topic>"
        body = (
            f'<n:Notify xmlns:n="{WSNT}"><n:NotificationMessage>{topics}'
            f"<n:Message>{payload}</n:Message></n:NotificationMessage></n:Notify>"
        )
        action = "http://docs.oasis-open.org/wsn/bw-2/NotificationConsumer/Notify"
        return await self._post(to.consumer, body, action, message_id)

    async def end(self, status: str = f"<e:Status>{WSE}/SourceShuttingDown</e:Status>") -> int:
        """End the only subscription, and say so; the answer's status."""
        held = self.one
        self.held.clear()
        if self.wse:
            body = (
                f'<e:SubscriptionEnd xmlns:e="{WSE}">{status}'
                '<e:Reason xml:lang="en">Good night.</e:Reason></e:SubscriptionEnd>'
            )
            return await self._post(held.end_to or held.consumer, body, f"{WSE}/SubscriptionEnd")
        rl = "http://docs.oasis-open.org/wsrf/rl-2"
        payload = (
            f'<r:TerminationNotification xmlns:r="{rl}"><r:TerminationTime>'
            "2026-01-01T00:00:00Z</r:TerminationTime></r:TerminationNotification>"
        )
        return await self.send(payload, topic=None, held=held)

    async def _post(
        self, url: str, body: str, action: str, message_id: str | None = None, headers: str = ""
    ) -> int:
        octets = Speaker().envelope(
            body, action=action, to=url, message_id=message_id or fresh_id(), headers=headers
        )
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            writer.write(
                f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n"
                f"Content-Type: {Speaker().soap.media_type}\r\n"
                f"Content-Length: {len(octets)}\r\n\r\n".encode()
                + octets
            )
            async with asyncio.timeout(DEADLINE):
                first, _, _ = await read_http(reader)
        finally:
            writer.close()
        return int(first.split(" ")[1])

    # What it answers.

    async def answer(self, told: Told) -> tuple[int, bytes] | None:
        """Do what it is asked, or what it is told to do instead."""
        async with self.changed:
            self.told.append(told)
            script = self.answers.get(told.operation)
            answered = script(self, told) if script is not None else self._do(told)
            self.changed.notify_all()
        meanwhile = self.meanwhile.get(told.operation)
        if meanwhile is not None:
            await meanwhile(self)
        return answered

    def _do(self, told: Told) -> tuple[int, bytes]:
        if told.operation == "Subscribe":
            return 200, self._envelope(told, self._subscribe(told))
        held = self.held.get(told.path.rpartition("/")[2]) or self._named_in(told)
        if held is None or (held.parameters and held.parameters not in str(told.message.octets)):
            return fault("Unknown subscription.")(self, told) or (500, b"")
        name = f"{told.operation}Response"
        match told.operation:
            case "Renew" | "GetStatus":
                inner = self._times(told)
            case "GetResourceProperty":
                rl = "http://docs.oasis-open.org/wsrf/rl-2"
                time = f'<l:TerminationTime xmlns:l="{rl}">2030-01-01T00:00:00Z</l:TerminationTime>'
                rp = "http://docs.oasis-open.org/wsrf/rp-2"
                body = f'<r:{name} xmlns:r="{rp}">{time}</r:{name}>'
                return 200, self._envelope(told, body)
            case "Unsubscribe":
                del self.held[held.id]
                inner = ""
            case "PauseSubscription" if not self.wse:
                held.paused, inner = True, ""
            case "ResumeSubscription" if not self.wse:
                held.paused, inner = False, ""
            case _:
                return fault("Not offered.")(self, told) or (500, b"")
        return 200, self._envelope(
            told, f'<p:{name} xmlns:p="{self._namespace}">{inner}</p:{name}>'
        )

    def _named_in(self, told: Told) -> Held | None:
        """The subscription whose parameter the request has, wherever it was sent."""
        if self.manager is None:
            return None
        octets = str(told.message.octets)
        return next((one for one in self.held.values() if one.parameters in octets), None)

    def _subscribe(self, told: Told) -> str:
        id_ = f"s{next_number()}"
        addresses = [
            (element.text or "").strip()
            for element in told.message.root.iter(etree.Element)
            if etree.QName(element).localname == "Address"
            and "anonymous" not in (element.text or "")
        ]
        consumer = addresses[-1] if addresses else ""  # Of who pulls there is none.
        end_to = addresses[0] if self.wse and addresses else None
        topic = told.text("TopicExpression") or told.text("Filter")
        parameter = f"parameter-{id_}"
        self.held[id_] = Held(id_, consumer, end_to, parameter, topic)
        wsa = WSA04 if self.wse else WSA10
        manager = f"{self.url}/{id_}" if self.manager is None else self.manager
        reference = (
            f'<a:Address xmlns:a="{wsa}">{manager}</a:Address>'
            f'<a:ReferenceParameters xmlns:a="{wsa}"><x:Id xmlns:x="urn:rig">{parameter}</x:Id>'
            "</a:ReferenceParameters>"
        )
        times = self._times(told)
        if self.wse:
            manager = f"<p:SubscriptionManager>{reference}</p:SubscriptionManager>"
        else:
            manager = f"<p:SubscriptionReference>{reference}</p:SubscriptionReference>"
        ns = self._namespace
        return f'<p:SubscribeResponse xmlns:p="{ns}">{manager}{times}</p:SubscribeResponse>'

    def _times(self, told: Told) -> str:
        if self.grants is None:
            return ""
        asked = told.text("Expires") or told.text("InitialTerminationTime") or ""
        asked = asked or told.text("TerminationTime") or "PT1H"
        text = asked if self.grants == "asked" else self.grants
        if self.wse:
            return f"<p:Expires>{text}</p:Expires>"
        found = _DURATION.fullmatch(text)
        now = datetime.now(UTC) + timedelta(seconds=self.clock)
        if found:
            hours, minutes, seconds = (int(part or 0) for part in found.groups())
            length = timedelta(hours=hours, minutes=minutes, seconds=seconds)
            text = (now + length).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        current = f"<p:CurrentTime>{now.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}</p:CurrentTime>"
        return (
            current if self.tells_time else ""
        ) + f"<p:TerminationTime>{text}</p:TerminationTime>"

    @property
    def _namespace(self) -> str:
        return WSE if self.wse else WSNT

    def _envelope(self, told: Told, body: str) -> bytes:
        soap = told.message.soap.value
        return f'<s:Envelope xmlns:s="{soap}"><s:Body>{body}</s:Body></s:Envelope>'.encode()


P = TypeVar("P", bound=Producer)


class Producers:
    """Any number of producers on one port, each at a path of its own; over https, where there is a
    context for that."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.by_path: dict[str, Producer] = {}
        (self.port,) = free_ports(1)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def listen(self) -> None:
        """Be there; always at the same port."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self._tls
        )

    async def leave(self) -> None:
        """Be away: connections are refused."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()

    def add(self, *, wse: bool = False) -> Producer:
        """A producer that grants whatever is asked for."""
        return self.put(lambda url: Producer(url, wse))

    def put(self, make: Callable[[str], P]) -> P:
        """What *make* makes for an address of its own."""
        path = f"/p{next_number()}"
        scheme = "http" if self._tls is None else "https"
        producer = make(f"{scheme}://127.0.0.1:{self.port}{path}")
        self.by_path[path] = producer
        return producer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while True:
                first, headers, body = await read_http(reader)
                path = first.split(" ")[1]
                producer = self.by_path["/" + path.split("/")[1]]
                message = Message(body)
                operation = etree.QName(children_of(message)).localname
                answered = await producer.answer(Told(operation, path, message, headers))
                if answered is None:
                    await asyncio.Event().wait()  # Until the connection is given up.
                    return
                code, octets = answered
                wire = producer.wire(code, message.soap.media_type, octets)
                writer.write(wire)
                if not any(word in wire.lower() for word in (b"content-length", b"chunked")):
                    return  # The answer ends with its connection.
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()


def children_of(message: Message) -> etree._Element:
    """The first child of the body."""
    return children(message.root.find(f"{{{message.soap.value}}}Body"))[0]  # type: ignore[arg-type]


@asynccontextmanager
async def producers(tls: ssl.SSLContext | None = None) -> AsyncIterator[Producers]:
    async with Producers(tls) as all_of_them:
        yield all_of_them
