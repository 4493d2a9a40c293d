"""Destinations that answer, and take nothing: people are told, once, and the reason has the words."""

import http.server
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from gateway.client.reliable import GivenUp, Policy, ReliableClient
from gateway.client.reliable.endpoint_base import PATIENT, in_words, patient, say
from gateway.reliability.party import Refusals
from gateway.reliability.values import Notice, NoticeKind
from mediation.model.versions import Soap
from tests.gateway.client.reliable.test_queued import ORDER, SOON
from tests.rigs.waiting import wait_until

FAULT = (
    f'<s:Envelope xmlns:s="{Soap.V1_2.value}"><s:Body><s:Fault><s:Code><s:Value>s:MustUnderstand'
    '</s:Value></s:Code><s:Reason><s:Text xml:lang="en">What is a Sequence?</s:Text></s:Reason>'
    "</s:Fault></s:Body></s:Envelope>"
).encode()

RELATED = FAULT.replace(
    b"<s:Body>",
    b'<s:Header><a:RelatesTo xmlns:a="http://www.w3.org/2005/08/addressing">{asked}</a:RelatesTo>'
    b"</s:Header><s:Body>",
)


@contextmanager
def answering(status: int, body: bytes, content_type: str) -> Iterator[str]:
    """A server that answers everything so; ``{asked}`` is the id of what it answers."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            message_id = re.search(rb"MessageID>([^<]*)<", asked)
            answer = body.replace(b"{asked}", message_id[1] if message_id else b"")
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/orders"
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("status", "body", "type", "words", "told"),
    [
        pytest.param(404, b"no", "text/plain", "404 Not Found", 1, id="no such page"),
        pytest.param(500, FAULT, "application/soap+xml", "What is a Sequence?", 1, id="no WS-RM"),
        pytest.param(500, RELATED, "application/soap+xml", "What is a", 1, id="no WS-RM, related"),
        pytest.param(503, b"later", "text/plain", "503 Service Unavailable", 0, id="later"),
    ],
)
def test_what_it_answers_is_told(
    status: int, body: bytes, type: str, words: str, told: int
) -> None:
    notices: list[Notice] = []
    reasons: list[str] = []
    policy = replace(SOON, interval=0.05, ceiling=0.05, tries=4)
    client = ReliableClient("memory:", policy=policy, on_notice=notices.append)

    def given_up(sequence: GivenUp) -> None:
        reasons.append(sequence.reason)

    client.callbacks(on_error=given_up)
    with answering(status, body, type) as url, client:
        client.send(url, b"<tea/>", action=ORDER)
        wait_until(lambda: reasons)
    assert words in reasons[0]
    refused = [notice for notice in notices if notice.kind is NoticeKind.REFUSED]
    assert len(refused) == told
    assert all(words in notice.text for notice in refused)


def test_the_last_answers_are_bounded_and_forgotten() -> None:
    refusals = Refusals()
    assert refusals.note("a", "404 Not Found")
    assert not refusals.note("a", "404 Not Found")
    refusals.forget("a")
    assert refusals.reason("a", "it expired") == "it expired"
    refusals.note("a", "x" * 10_000)
    assert len(refusals.reason("a", "it expired")) < 400


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("to http://a.example/orders as ", "messages to http://a.example/orders"),
        ("to http://a.example/orders as  (02)", "messages to http://a.example/orders"),
        ("to http://a.example/o as k%201", "messages to http://a.example/o with the key 'k 1'"),
        ("to http://a.example/o as k (12)", "messages to http://a.example/o with the key 'k'"),
        ("to http://a.example/o as >r", "requests to http://a.example/o and callbacks 'r'"),
        ("urn:uuid:1", "urn:uuid:1"),
    ],
)
def test_sequences_in_words(key: str, words: str) -> None:
    assert in_words(key) == words


def test_the_log_has_them(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        say(Notice(NoticeKind.REFUSED, "to http://a.example/orders as >r", "404 Not Found"))
    [line] = caplog.messages
    assert line.startswith("requests to http://a.example/orders and callbacks 'r': ")


def test_a_policy_that_says_nothing_of_tries_is_patient() -> None:
    assert patient(None) == PATIENT
    assert not patient(Policy(window=8)).gives_up(1000)
    assert patient(Policy(window=8)).window == 8
    assert patient(Policy(tries=10)).gives_up(10)
    assert Policy().gives_up(10)
