"""What gateway/http leans on inside uvicorn and httptools, beyond what they promise.

An upgrade that changes one of these fails here, with its name. Then look at its use in gateway/http,
mend that, run tests/gateway/http and tests/gateway/soap/test_http.py, and raise the bounds in pyproject.toml.
"""

import ast
import asyncio
import inspect
from pathlib import Path
from typing import Any

import httptools
import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

import gateway.http.http_1_0
import gateway.http.protocol
from gateway.http import HardenedProtocol

CALLED = {
    "__init__": ["self", "config", "server_state", "app_state", "_loop"],
    "connection_made": ["self", "transport"],
    "connection_lost": ["self", "exc"],
    "data_received": ["self", "data"],
    "eof_received": ["self"],
    "on_message_begin": ["self"],
    "on_url": ["self", "url"],
    "on_header": ["self", "name", "value"],
    "on_headers_complete": ["self"],
    "on_body": ["self", "body"],
    "on_message_complete": ["self"],
    "on_response_complete": ["self"],
    "pause_writing": ["self"],
    "_start_asgi_task": ["self", "cycle", "app"],
    "_unset_keepalive_if_required": ["self"],
}
"""Methods of HttpToolsProtocol that we call or override, with their parameters."""
ATTRIBUTES = {
    "client", "cycle", "expect_100_continue", "flow", "headers", "loop", "parser", "pipeline",
    "timeout_keep_alive", "transport", "url",
}  # fmt: skip
"""Attributes of HttpToolsProtocol that we read or set."""
OF_THE_CYCLE = {
    "chunked_encoding", "disconnected", "expected_content_length", "keep_alive", "message_event",
    "response_complete", "response_started", "scope", "waiting_for_100_continue",
}  # fmt: skip
"""Attributes of RequestResponseCycle that we read or set."""
ADVICE = f"uvicorn {uvicorn.__version__}: gateway/http leans on %s, which is another or gone"


class Wire(asyncio.Transport):
    """A transport to nowhere."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 4711), "sockname": ("127.0.0.1", 8080)})

    def write(self, data: Any) -> None: ...

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@pytest.fixture
async def protocol() -> HttpToolsProtocol:
    """Uvicorn's own, which has read the head of a request."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(app, lifespan="off", ws="none", log_config=None)
    config.load()
    protocol = HttpToolsProtocol(config, ServerState(), {}, asyncio.get_running_loop())
    protocol.connection_made(Wire())
    protocol.data_received(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n")
    return protocol


@pytest.mark.parametrize("name", CALLED)
def test_methods(name: str) -> None:
    found = getattr(HttpToolsProtocol, name, None)
    assert found is not None, ADVICE % f"HttpToolsProtocol.{name}"
    assert list(inspect.signature(found).parameters) == CALLED[name], ADVICE % name


async def test_attributes(protocol: HttpToolsProtocol) -> None:
    for name in sorted(ATTRIBUTES):
        assert hasattr(protocol, name), ADVICE % f"HttpToolsProtocol.{name}"
    for name in sorted(OF_THE_CYCLE):
        assert hasattr(protocol.cycle, name), ADVICE % f"RequestResponseCycle.{name}"
    assert protocol.client == ("127.0.0.1", 4711), ADVICE % "client"
    assert protocol.url == b"/a", ADVICE % "url, which are octets"
    assert protocol.headers == [(b"host", b"h"), (b"content-length", b"1")], ADVICE % "headers"
    assert isinstance(protocol.cycle, RequestResponseCycle), ADVICE % "cycle"
    assert isinstance(protocol.cycle.message_event, asyncio.Event), ADVICE % "message_event"
    assert isinstance(protocol.parser, httptools.HttpRequestParser), ADVICE % "parser"
    assert isinstance(protocol.flow, FlowControl), ADVICE % "flow"
    assert protocol.flow.read_paused is False, ADVICE % "FlowControl.read_paused"
    protocol.data_received(b"x")
    for _ in range(5):
        await asyncio.sleep(0)
    assert protocol.cycle.response_complete, ADVICE % "response_complete"


async def test_what_waits_is_a_pair(protocol: HttpToolsProtocol) -> None:
    """The pipeline has requests whose turn has not come, with the application."""
    protocol.data_received(b"x" + b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n")
    [(cycle, app)] = protocol.pipeline
    assert cycle.scope["path"] == "/b", ADVICE % "pipeline"
    assert callable(app), ADVICE % "pipeline"
    await asyncio.sleep(0)


def test_an_upgrade_says_how_much_was_read() -> None:
    class Found:
        whole = 0

        def on_message_complete(self) -> None:
            self.whole += 1

    found = Found()
    head = b"POST / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n"
    wire = head + b"Content-Length: 1\r\n\r\na"
    parser = httptools.HttpRequestParser(found)
    with pytest.raises(httptools.HttpParserUpgrade) as caught:
        parser.feed_data(wire)
    assert wire[caught.value.args[0] :] == b"a", ADVICE % "httptools.HttpParserUpgrade.args[0]"
    assert (found.whole, parser.should_upgrade()) == (1, True)


def test_nothing_is_missing_here() -> None:
    """Every name of uvicorn's classes that gateway/http uses is in one of the lists."""
    ours = set(vars(HardenedProtocol)) | {"_cycle"}
    inherited = {name for name in dir(HttpToolsProtocol) if not name.startswith("__")}
    used, of_cycles = set(), set()
    for module in (gateway.http.protocol, gateway.http.http_1_0):
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
            if not isinstance(node, ast.Attribute):
                continue
            owner = ast.unparse(node.value)
            if owner in ("self", "super()"):
                used.add(node.attr)
            elif owner in ("self.cycle", "running", "cycle", "self._running"):
                of_cycles.add(node.attr)
    assert of_cycles <= OF_THE_CYCLE
    assert (used & inherited) - set(CALLED) - ours <= ATTRIBUTES
    assert {name for name in used - ours - inherited if not name.startswith("_")} <= ATTRIBUTES
    assert ours & inherited <= set(CALLED)
