"""Spans reach a collector over OTLP; without the extra the start says what is missing."""

import asyncio
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from filters import Refused
from gateway.server import telemetry
from gateway.server.telemetry import TelemetryRoom, _provider
from tests.rigs.gateways import running


class Collector(HTTPServer):
    """Keeps the paths and bodies of what is posted."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes]] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"OTEL_SERVICE_NAME": "north-gate"}, b"north-gate"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=south-gate"}, b"south-gate"),
        ({}, b"dragoman"),
    ],
)
def test_spans_are_exported_by_otlp(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], name: bytes
) -> None:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        try:
            provider = _provider()
            provider.get_tracer("test").start_span("receive").end()
            provider.shutdown()
        finally:
            collector.shutdown()
            thread.join()
    [(path, body)] = collector.got
    assert path == "/v1/traces"
    assert b"receive" in body and name in body and b"service.version" in body


class Stuck(SpanProcessor):  # type: ignore[misc]  # The SDK is Any to mypy.
    """Exports to a collector that does not answer before it is told to."""

    def __init__(self) -> None:
        self.answered = threading.Event()

    def shutdown(self) -> None:
        self.answered.wait(30)


def test_a_stop_does_not_wait_for_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "CLOSING", 0.01)
    stuck, ended = Stuck(), threading.Event()

    async def stop() -> None:
        room = TelemetryRoom()
        room._own = TracerProvider(shutdown_on_exit=False)
        room._own.add_span_processor(stuck)
        await room.close()

    def run() -> None:
        asyncio.run(stop())  # Its end waits for the threads of the loop.
        ended.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        assert ended.wait(10)
    finally:
        stuck.answered.set()
        thread.join()


@pytest.mark.parametrize("missing", ["opentelemetry.sdk.trace", "gateway.observing.spans"])
async def test_without_the_extra_a_start_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(Refused, match="telemetry needs the extra telemetry"):
        async with running(tmp_path, telemetry=True):
            raise AssertionError("it started")
