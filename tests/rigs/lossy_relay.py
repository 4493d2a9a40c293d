"""A relay between two programs that speak HTTP. It loses requests and answers, forwards requests
twice, and lets others overtake them, as a seed draws it."""

import contextlib
import http.client
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from urllib.parse import urlsplit

LATE = 0.15
_HOPS = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive", "host"})
_TIMEOUT = 30.0


class Mishap(Enum):
    """What becomes of an exchange."""

    LOSE_REQUEST = "the request is lost"
    LOSE_ANSWER = "the answer is lost"
    DOUBLE = "the request comes twice"
    LATE = "the request is late"


ANY: Mapping[Mishap, float] = {
    Mishap.LOSE_REQUEST: 0.2,
    Mishap.LOSE_ANSWER: 0.15,
    Mishap.DOUBLE: 0.15,
    Mishap.LATE: 0.15,
}


@dataclass
class Relay:
    """A relay that listens at *port*.

    Attributes:
        target: Where requests go: the address of a server, whose path is kept.
        odds: The share of exchanges that each mishap befalls.
        counts: How often each happened.
        passed: Every message that came through, in its order: "request" or "answer", and octets.
    """

    odds: Mapping[Mishap, float]
    seed: int
    target: str = ""
    port: int = 0
    counts: Counter[Mishap] = field(default_factory=Counter)
    passed: list[tuple[str, bytes]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def draw(self) -> Mishap | None:
        with self._lock:
            left = self._random.random()
            for mishap, odds in self.odds.items():
                left -= odds
                if left < 0:
                    self.counts[mishap] += 1
                    return mishap
            return None

    def forward(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> "Passed":
        """Send a request on, and read the answer."""
        parts = urlsplit(self.target)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT)
        try:
            self.passed.append(("request", body))
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            octets = answer.read()
            self.passed.append(("answer", octets))
            return Passed(answer.status, answer.getheader("Content-Type"), octets)
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Passed:
    status: int
    content_type: str | None
    octets: bytes


@contextlib.contextmanager
def relay(
    odds: Mapping[Mishap, float] = ANY, *, seed: int = 1, target: str = ""
) -> Iterator[Relay]:
    """Run a relay; *target* may be set later."""
    made = Relay(odds, seed, target)

    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOPS}
            mishap = made.draw()
            self.close_connection = True
            if mishap is Mishap.LOSE_REQUEST:
                return
            if mishap is Mishap.LATE:
                time.sleep(LATE)
            try:
                if mishap is Mishap.DOUBLE:
                    made.forward("POST", self.path, headers, body)
                passed = made.forward("POST", self.path, headers, body)
            except (OSError, http.client.HTTPException):
                return  # Who sent it sees a connection that ends.
            if mishap is Mishap.LOSE_ANSWER:
                return
            self.send_response(passed.status)
            if passed.content_type is not None:
                self.send_header("Content-Type", passed.content_type)
            self.send_header("Content-Length", str(len(passed.octets)))
            self.send_header("Connection", "close")
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(passed.octets)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 100

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # A connection that ended.

    with Server(("127.0.0.1", 0), Handler) as server:
        made.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join(_TIMEOUT)
