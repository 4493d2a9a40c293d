"""A gateway in this process, peers that speak SOAP to it, and consumers that it delivers to."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from lxml import etree
from structlog.processors import format_exc_info
from structlog.testing import capture_logs
from structlog.typing import EventDict

from gateway.server import listen, serve
from gateway.service import Gateway
from gateway.settings import Settings
from mediation import Soap, Wsa

DEADLINE = 10.0

S11, S12 = Soap.V1_1, Soap.V1_2
WSE = "http://schemas.xmlsoap.org/ws/2004/08/eventing"
WSNT = "http://docs.oasis-open.org/wsn/b-2"
BW = "http://docs.oasis-open.org/wsn/bw-2"
RP = "http://docs.oasis-open.org/wsrf/rp-2"
RL = "http://docs.oasis-open.org/wsrf/rl-2"
R = "http://docs.oasis-open.org/wsrf/r-2"
BF = "http://docs.oasis-open.org/wsrf/bf-2"
WSA10 = Wsa.V2005_08.value
SIMPLE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple"
CONCRETE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete"
FULL = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Full"
XPATH = "http://www.w3.org/TR/1999/REC-xpath-19991116"
IBM = "http://www.ibm.com/xmlns/stdwip/web-services/WS-BaseNotification"
IBM_SIMPLE = "http://www.ibm.com/xmlns/stdwip/web-services/WS-Topics/TopicExpression/simple"

_numbers = itertools.count(1)


def fresh_id() -> str:
    """A message id that no other test uses."""
    return f"urn:uuid:00000000-0000-4000-8000-{next(_numbers):012d}"


def children(element: etree._Element) -> list[etree._Element]:
    return list(element.iterchildren(etree.Element))


def canonical(element: etree._Element | bytes) -> bytes:
    """Exclusive canonical form: equal for equal elements, whatever is in scope around them."""
    if isinstance(element, bytes):
        element = etree.fromstring(element)
    return etree.tostring(element, method="c14n", exclusive=True, with_tail=False)


class Message:
    """A SOAP envelope that somebody sent."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.root = etree.fromstring(octets)
        namespace = etree.QName(self.root).namespace
        self.soap = Soap(namespace)
        parts = {etree.QName(part).localname: part for part in children(self.root)}
        self.headers = children(parts["Header"]) if "Header" in parts else []
        self.body = children(parts["Body"])

    def header(self, name: str, namespace: str) -> etree._Element | None:
        found = [block for block in self.headers if block.tag == f"{{{namespace}}}{name}"]
        assert len(found) <= 1, f"{name} stands {len(found)} times"
        return found[0] if found else None

    def wsa(self, name: str, wsa: Wsa = Wsa.V2005_08) -> str | None:
        """The text of an addressing header."""
        found = self.header(name, wsa.value)
        return None if found is None else found.text

    def find(self, path: str) -> etree._Element | None:
        """The first element on *path*, in lxml's notation, below the body."""
        return self.root.find(f"{{{self.soap.value}}}Body/{path}")

    def text(self, path: str) -> str:
        found = self.find(path)
        assert found is not None, f"no {path} in {self.octets!r}"
        return (found.text or "").strip()


@dataclass(frozen=True)
class Answer:
    """What the gateway answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> Message:
        return Message(self.body)

    @property
    def type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def fault(self) -> "Fault":
        return Fault.of(self.message)


@dataclass(frozen=True)
class Fault:
    """A fault: expanded names of its code, subcodes and detail."""

    code: str
    subcodes: tuple[str, ...]
    text: str
    detail: etree._Element | None = None

    @classmethod
    def of(cls, message: Message) -> Self:
        [fault] = message.body
        assert fault.tag == f"{{{message.soap.value}}}Fault", message.octets
        if message.soap is S11:
            code = fault.find("faultcode")
            assert code is not None
            return cls(
                qname(code), (), fault.findtext("faultstring") or "", _only(fault.find("detail"))
            )
        s12 = f"{{{S12.value}}}"
        values = list(fault.iter(f"{s12}Value"))
        texts = list(fault.iter(f"{s12}Text"))
        detail = fault.find(f"{s12}Detail")
        names = [qname(value) for value in values]
        return cls(names[0], tuple(names[1:]), texts[0].text or "", _only(detail))

    @property
    def subcode(self) -> str:
        """Of SOAP 1.2 the first subcode, of SOAP 1.1 the code, which is the subcode there."""
        return self.subcodes[0] if self.subcodes else self.code

    @property
    def element(self) -> str:
        """The name of the element in the detail."""
        return "" if self.detail is None else str(self.detail.tag)


def _only(detail: etree._Element | None) -> etree._Element | None:
    if detail is None:
        return None
    found = children(detail)
    assert found, "an empty detail"
    return found[0]


def qname(element: etree._Element) -> str:
    """The QName in the text of *element*, expanded."""
    prefix, colon, local = (element.text or "").strip().rpartition(":")
    namespace = element.nsmap[prefix] if colon else None
    return f"{{{namespace}}}{local}" if namespace else local


@dataclass(frozen=True)
class Speaker:
    """What a peer speaks: it wraps bodies in envelopes of its versions."""

    soap: Soap = S12
    wsa: Wsa | None = Wsa.V2005_08

    @property
    def type(self) -> str:
        return f"{self.soap.media_type}; charset=utf-8"

    def envelope(
        self,
        body: str,
        *,
        action: str | None = None,
        to: str | None = None,
        message_id: str | None = None,
        headers: str = "",
    ) -> bytes:
        if self.wsa is not None:
            for name, value in (("Action", action), ("MessageID", message_id), ("To", to)):
                if value is not None:
                    headers += f"<wsa:{name}>{value}</wsa:{name}>"
        declared = f' xmlns:wsa="{self.wsa.value}"' if self.wsa else ""
        return (
            f'<s:Envelope xmlns:s="{self.soap.value}"{declared}><s:Header>{headers}</s:Header>'
            f"<s:Body>{body}</s:Body></s:Envelope>"
        ).encode()

    def epr(self, address: str, inner: str = "") -> str:
        """The children of an endpoint reference."""
        wsa = (self.wsa or Wsa.V2005_08).value
        return f'<a:Address xmlns:a="{wsa}">{address}</a:Address>{inner}'

    def parameters(self, *elements: str) -> str:
        """Reference parameters, or properties where the version has only those."""
        wsa = self.wsa or Wsa.V2005_08
        old = wsa in (Wsa.V2003_03, Wsa.V2004_03)
        name = "ReferenceProperties" if old else "ReferenceParameters"
        return f'<a:{name} xmlns:a="{wsa.value}">{"".join(elements)}</a:{name}>'

    def wse_subscribe(
        self,
        notify_to: str,
        *,
        filter: str = "",
        expires: str | None = None,
        end_to: str | None = None,
        inner: str = "",
    ) -> str:
        """The body of WS-Eventing's Subscribe. *inner*: further children of NotifyTo."""
        end = f"<e:EndTo>{self.epr(end_to)}</e:EndTo>" if end_to else ""
        time = "" if expires is None else f"<e:Expires>{expires}</e:Expires>"
        return (
            f'<e:Subscribe xmlns:e="{WSE}">{end}<e:Delivery><e:NotifyTo>'
            f"{self.epr(notify_to, inner)}</e:NotifyTo></e:Delivery>{time}{filter}</e:Subscribe>"
        )

    def wsn_subscribe(
        self,
        consumer: str,
        *,
        filter: str = "",
        expires: str | None = None,
        raw: bool = False,
        inner: str = "",
        policy: str = "",
    ) -> str:
        """The body of WS-BaseNotification's Subscribe. *expires* ``nil`` is nil."""
        if expires == "nil":
            time = (
                '<n:InitialTerminationTime xsi:nil="true" '
                'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"/>'
            )
        elif expires is None:
            time = ""
        else:
            time = f"<n:InitialTerminationTime>{expires}</n:InitialTerminationTime>"
        policy = ("<n:UseRaw/>" if raw else "") + policy
        policies = f"<n:SubscriptionPolicy>{policy}</n:SubscriptionPolicy>" if policy else ""
        filters = f"<n:Filter>{filter}</n:Filter>" if filter else ""
        return (
            f'<n:Subscribe xmlns:n="{WSNT}"><n:ConsumerReference>{self.epr(consumer, inner)}'
            f"</n:ConsumerReference>{filters}{time}{policies}</n:Subscribe>"
        )


def topic_expression(text: str, dialect: str = CONCRETE, scope: str = "") -> str:
    return (
        f'<n:TopicExpression xmlns:n="{WSNT}" {scope} Dialect="{dialect}">{text}'
        "</n:TopicExpression>"
    )


def message_content(xpath: str, scope: str = "", dialect: str = XPATH) -> str:
    return (
        f'<n:MessageContent xmlns:n="{WSNT}" {scope} Dialect="{dialect}">{xpath}</n:MessageContent>'
    )


def wse_filter(text: str, dialect: str | None = None, scope: str = "") -> str:
    said = f' Dialect="{dialect}"' if dialect else ""
    return f'<e:Filter xmlns:e="{WSE}" {scope}{said}>{text}</e:Filter>'


def notify(*messages: str, scope: str = "") -> str:
    """The body of a Notify; each message is what `notification_message` makes."""
    return f'<n:Notify xmlns:n="{WSNT}" {scope}>{"".join(messages)}</n:Notify>'


def notification_message(
    payload: str, topic: str | None = None, *, dialect: str = CONCRETE, producer: str = ""
) -> str:
    topics = "" if topic is None else f'<n:Topic Dialect="{dialect}">{topic}</n:Topic>'
    producers = f"<n:ProducerReference>{producer}</n:ProducerReference>" if producer else ""
    return (
        f"<n:NotificationMessage>{topics}{producers}<n:Message>{payload}</n:Message>"
        "</n:NotificationMessage>"
    )


@dataclass(frozen=True)
class Received:
    """One request that reached a consumer."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> Message:
        return Message(self.body)

    @property
    def payload(self) -> etree._Element:
        """The event, wrapped or not."""
        [child] = self.message.body
        if child.tag != f"{{{WSNT}}}Notify":
            return child
        [inner] = child.findall(f"{{{WSNT}}}NotificationMessage/{{{WSNT}}}Message")
        [payload] = children(inner)
        return payload

    @property
    def topic(self) -> etree._Element | None:
        """The topic's element, of the message or its header."""
        message = self.message
        in_header = message.header("Topic", WSNT)
        if in_header is not None:
            return in_header
        return message.find(f"{{{WSNT}}}Notify/{{{WSNT}}}NotificationMessage/{{{WSNT}}}Topic")


async def read_http(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    """The first line, the headers and the body of one HTTP message with a known length."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return first, headers, body


class Consumer:
    """An HTTP server that keeps what it gets; a path may have an answer of its own."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._queues: dict[str, asyncio.Queue[Received]] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self.answers: dict[str, int] = {}
        """The status that a path answers; 202 where it has none."""
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**22)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def fresh(self) -> str:
        """The URL of a path that nothing has been sent to."""
        return self.url(f"c{next(_numbers)}")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while True:
                first, headers, body = await read_http(reader)
                path = first.split(" ")[1]
                self._queue(path).put_nowait(Received(path, headers, body))
                status = self.answers.get(path, 202)
                writer.write(f"HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    def _queue(self, path: str) -> asyncio.Queue[Received]:
        return self._queues.setdefault(path, asyncio.Queue())

    async def next(self, url: str) -> Received:
        """The next request to *url*."""
        path = url[url.index("/", 8) :]
        return await asyncio.wait_for(self._queue(path).get(), DEADLINE)

    def waiting(self, url: str) -> int:
        """How many have come to *url* and were not taken."""
        return self._queue(url[url.index("/", 8) :]).qsize()


@dataclass
class Running:
    """A gateway that runs in this process."""

    gateway: Gateway
    port: int
    logs: list[EventDict]
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def raw(self, octets: bytes) -> Answer:
        """Send exactly *octets* on a connection of their own."""
        return await exchange(self.port, octets)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        source: str = "127.0.0.1",
        **headers: str,
    ) -> Answer:
        """Send one request; an underscore in the name of a header is a hyphen. *source*: the
        peer's address."""
        octets = http_request(self.port, method, path, body, headers)
        return await exchange(self.port, octets, source)

    async def post(
        self, octets: bytes, path: str = "/soap", *, type: str | None = None, **headers: str
    ) -> Answer:
        """Post an envelope, of the type that it is unless told otherwise."""
        if type is None:
            type = S12.media_type if S12.value.encode() in octets[:400] else S11.media_type
        return await self.request("POST", path, octets, content_type=type, **headers)

    async def ask(
        self, speaker: Speaker, body: str, path: str = "/soap", **envelope: Any
    ) -> Answer:
        """Send *body* as *speaker* does, with a message id."""
        envelope.setdefault("message_id", fresh_id())
        source = envelope.pop("source", "127.0.0.1")
        octets = speaker.envelope(body, **envelope)
        return await self.post(octets, path, type=speaker.type, source=source)

    async def subscribe(self, speaker: Speaker, body: str, **envelope: Any) -> str:
        """Subscribe; the path and query of the manager's address."""
        answer = await self.ask(speaker, body, **envelope)
        assert answer.status == 200, answer.body
        return manager_path(answer.message)

    async def publish(
        self, payload: str, *, headers: str = "", path: str = "/soap", speaker: Speaker | None = None,
        **envelope: Any,
    ) -> None:  # fmt: skip
        """Publish *payload* as the body."""
        answer = await self.ask(speaker or Speaker(), payload, path, headers=headers, **envelope)
        assert (answer.status, answer.body) == (202, b""), answer.body

    async def api(self, method: str, path: str, body: bytes = b"") -> Answer:
        return await self.request(method, f"/api/v1{path}", body, content_type="application/json")

    async def quiet(self) -> None:
        """Return once nothing is under way, and the conservation law holds."""
        async with asyncio.timeout(DEADLINE):
            while True:
                law = (await self.gateway.snapshot()).law
                if law.in_flight == 0 and law.error == 0:
                    return
                await asyncio.sleep(0.01)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once *holds* is true."""
        async with asyncio.timeout(DEADLINE):
            while not holds():  # noqa: ASYNC110 - it is not ours to make it tell
                await asyncio.sleep(0.01)


def manager_path(message: Message) -> str:
    """The path of the manager that a SubscribeResponse names."""
    for element in message.body[0].iter(etree.Element):
        if etree.QName(element).localname == "Address":
            address = (element.text or "").strip()
            return address[address.index("/", 8) :]
    raise AssertionError(message.octets)


def http_request(
    port: int, method: str, path: str, body: bytes, headers: Mapping[str, str]
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def exchange(port: int, octets: bytes, source: str = "127.0.0.1") -> Answer:
    """Send *octets* to *port* on a connection of their own, and read the answer."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, limit=2**22, local_addr=(source, 0)
    )
    try:
        writer.write(octets)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        first, headers, body = await asyncio.wait_for(_read_answer(reader, octets), DEADLINE)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return Answer(int(first.split(" ")[1]), headers, body)


async def _read_answer(
    reader: asyncio.StreamReader, octets: bytes
) -> tuple[str, dict[str, str], bytes]:
    if octets.startswith(b"HEAD "):
        head = await reader.readuntil(b"\r\n\r\n")
        rest = await reader.read()
        assert rest == b"", "an answer to HEAD has no body"
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return first, {name.lower(): value.strip() for name, _, value in pairs}, b""
    return await read_http(reader)


@contextlib.asynccontextmanager
async def running(
    data: Path, *, internal_errors: int = 0, **settings: Any
) -> AsyncIterator[Running]:
    """A gateway with its data in *data*; on the way out the conservation law must hold and
    nothing may have gone wrong inside but *internal_errors*."""
    chosen = Settings(**{"adapter": "memory:", "data": data, "port": 0, **settings})
    listener = listen(chosen.host, 0)
    stop = asyncio.Event()
    known: asyncio.Future[tuple[Gateway, int]] = asyncio.get_running_loop().create_future()
    with contextlib.closing(listener), capture_logs(processors=[format_exc_info]) as logs:
        serving = asyncio.create_task(
            serve(
                chosen,
                listener,
                started=lambda gateway, port: known.set_result((gateway, port)),
                stop=stop,
            )
        )
        try:
            await asyncio.wait((serving, known), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                await serving
            gateway, port = known.result()
            run = Running(gateway, port, logs, stop)
            yield run
            if not stop.is_set():
                await run.quiet()
        finally:
            stop.set()
            code = await serving
    assert code == 0
    assert any(log["event"] == "dragoman.started" for log in logs), "logs are not captured"
    wrong = [log for log in logs if log["event"] == "soap.internal-error"]
    assert len(wrong) == internal_errors, wrong


def pairs(*sequences: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    return itertools.product(*sequences)
