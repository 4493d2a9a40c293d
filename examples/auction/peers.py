"""What the auctioneer and the bidder have in common: SOAP 1.1 over HTTP with WS-Addressing 2004/03,
as Globus Toolkit 4 speaks it. The standard library is enough; nothing here is Dragoman's."""

import threading
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.request import ProxyHandler, Request, build_opener
from xml.etree import ElementTree
from xml.sax.saxutils import escape

SOAP = "http://schemas.xmlsoap.org/soap/envelope/"
WSA = "http://schemas.xmlsoap.org/ws/2004/03/addressing"
ANONYMOUS = f"{WSA}/role/anonymous"
WSNT = "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BaseNotification-1.2-draft-01.xsd"
WSNT_ACTIONS = "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BaseNotification/"
WSRP = "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceProperties-1.2-draft-01.xsd"
WSRP_ACTIONS = "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceProperties/"
WSRL = "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceLifetime-1.2-draft-01.xsd"
WSRL_ACTIONS = "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceLifetime/"
WSBF = "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-BaseFaults-1.2-draft-01.xsd"
SIMPLE = "http://docs.oasis-open.org/wsn/2004/06/TopicExpression/Simple"
CORE = "http://www.globus.org/namespaces/2004/06/core"
AUCTION = "http://tutorial.globus.org/auction"
LONGEST = 1 << 20
"""Bytes of a message at most."""
TIMEOUT = 30.0
"""Seconds for one exchange."""

_direct = build_opener(ProxyHandler({}))


def parse(octets: bytes) -> ElementTree.Element:
    """Read a document. Python's expat bounds what entities in it can grow to."""
    return ElementTree.fromstring(octets)  # noqa: S314


def local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


@dataclass(frozen=True)
class Reference:
    """An endpoint reference: an address, and the properties that go back to it as headers."""

    address: str
    properties: tuple[str, ...] = ()

    @classmethod
    def read(cls, element: ElementTree.Element) -> Self:
        address = element.findtext(f"{{{WSA}}}Address", "").strip()
        group = element.find(f"{{{WSA}}}ReferenceProperties")
        inner = () if group is None else tuple(group)
        return cls(address, tuple(ElementTree.tostring(one, "unicode").strip() for one in inner))

    def written(self) -> str:
        inner = f"<wsa:Address>{escape(self.address)}</wsa:Address>"
        if self.properties:
            group = "".join(self.properties)
            inner += f"<wsa:ReferenceProperties>{group}</wsa:ReferenceProperties>"
        return inner


@dataclass(frozen=True)
class Message:
    """What came: the header blocks, and the child of the body."""

    headers: tuple[ElementTree.Element, ...]
    body: ElementTree.Element | None

    @classmethod
    def read(cls, octets: bytes) -> Self:
        root = parse(octets)
        header, body = root.find(f"{{{SOAP}}}Header"), root.find(f"{{{SOAP}}}Body")
        children = () if body is None else tuple(body)
        return cls(() if header is None else tuple(header), children[0] if children else None)

    def header(self, name: str) -> str | None:
        """The text of a header block, by its expanded name."""
        for block in self.headers:
            if block.tag == name:
                return (block.text or "").strip()
        return None


def envelope(
    action: str, to: str, body: str, *, headers: Iterable[str] = (), relates_to: str | None = None
) -> bytes:
    related = f"<wsa:RelatesTo>{escape(relates_to)}</wsa:RelatesTo>" if relates_to else ""
    return (
        f'<soapenv:Envelope xmlns:soapenv="{SOAP}" xmlns:wsa="{WSA}"><soapenv:Header>'
        f'<wsa:MessageID soapenv:mustUnderstand="0">uuid:{uuid.uuid1()}</wsa:MessageID>'
        f'<wsa:To soapenv:mustUnderstand="0">{escape(to)}</wsa:To>'
        f'<wsa:Action soapenv:mustUnderstand="0">{action}</wsa:Action>'
        f'<wsa:From soapenv:mustUnderstand="0"><wsa:Address>{ANONYMOUS}</wsa:Address></wsa:From>'
        f"{related}{''.join(headers)}</soapenv:Header><soapenv:Body>{body}</soapenv:Body>"
        "</soapenv:Envelope>"
    ).encode()


def send(to: Reference, action: str, body: str) -> Message | None:
    """Send a message to an endpoint, its reference properties as headers; the answer, if any.

    Raises:
        OSError: The peer cannot be reached, or refuses.
    """
    octets = envelope(action, to.address, body, headers=to.properties)
    headers = {"Content-Type": "text/xml; charset=utf-8", "SOAPAction": f'"{action}"'}
    with _direct.open(Request(to.address, octets, headers), timeout=TIMEOUT) as answer:
        content = answer.read(LONGEST)
    return Message.read(content) if content else None


class Service:
    """A server in a thread of its own, on a free port of 127.0.0.1."""

    def __init__(self) -> None:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = min(int(self.headers.get("Content-Length", "0")), LONGEST)
                status, content = service.answer(Message.read(self.rfile.read(length)))
                self.send_response(status)
                self.send_header("Content-Type", "text/xml; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, message: Message) -> tuple[int, bytes]:
        """Answer a message: the HTTP status, and an envelope or nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
