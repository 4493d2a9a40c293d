"""Requests that HTTP itself refuses stand in the log, unless there are many."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.soap import refusal_log
from gateway.soap.refusal_log import RefusalLog
from tests.rigs.gateways import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOO_LARGE = f"Content-Length: {10**9}\r\nContent-Type: text/xml"
ENCODED = "Content-Length: 1\r\nContent-Encoding: br\r\nContent-Type: text/xml"
AVRO = "Content-Length: 1\r\nContent-Type: application/cloudevents+avro"
TOKEN = "0c7d1f6e-2b3a-4c5d-8e9f-001122334455"


@pytest.mark.parametrize(
    ("path", "headers", "status", "reason"),
    [
        ("/soap", TOO_LARGE, 413, "http-413"),
        (f"/sources/{TOKEN}", ENCODED, 415, "http-415"),
        ("/events", ENCODED, 415, "http-415"),
        ("/events", AVRO, 415, "media-type"),
    ],
)
async def test_what_is_refused_is_logged(
    gateway: Running, path: str, headers: str, status: int, reason: str
) -> None:
    before = len(gateway.logs)
    said = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n\r\nx"
    answer = await gateway.raw(said.encode())
    assert answer.status == status, answer.body
    [line] = [one for one in gateway.logs[before:] if one["event"] == "http.refused"]
    assert (line["peer"], line["reason"]) == ("127.0.0.1", reason)
    assert line["path"].startswith(path[:8]) and TOKEN not in line["path"]
    assert line["text"]


async def test_many_are_left_out_and_counted() -> None:
    now = 0.0
    log = RefusalLog(clock=lambda: now)

    def said(peer: str, times: int) -> list[dict[str, Any]]:
        with capture_logs() as lines:
            for _ in range(times):
                log.say("http-415", "no", peer=peer, path="/soap")
        return [dict(one) for one in lines]

    assert len(said("a", 100)) == refusal_log.OF_PEER_AT_ONCE
    [line, *_] = others = said("b", 100)
    assert (len(others), line["left_out"]) == (10, 90), "one that sends many leaves lines to others"
    for peer in "cde":
        said(peer, 100)
    assert not said("f", 5), "of all together"
    now = 1.0
    assert len(said("f", 100)) == refusal_log.LINES
