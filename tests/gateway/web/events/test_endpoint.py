"""CloudEvents on their way in, through a running gateway."""

import json
from pathlib import Path

import pytest

from gateway.http import HttpLimits
from mediation.cloudevents import MOST_IN_BATCH
from mediation.names import DRAGOMAN_DATA
from tests.rigs.cloudevents import BATCH, STRUCTURED, event, post, publish
from tests.rigs.consumers import Consumers, consumers
from tests.rigs.envelopes import Answer, Speaker, topic_expression
from tests.rigs.gateways import Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")
GATEWAY = {"adapter": "embedded:", "trusted": "127.0.0.1"}
SPEAKER = Speaker()
STRANGER = "127.0.0.9"


def problem_of(answer: Answer) -> dict[str, object]:
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, object] = json.loads(answer.body)
    assert found["status"] == answer.status
    return found


async def subscribed(gateway: Running, consumer: Consumers, topic: str) -> str:
    """The URL of a consumer of WS-BaseNotification."""
    url = consumer.fresh()
    body = SPEAKER.wsn_subscribe(url, filter=topic_expression(topic), raw=True)
    await gateway.subscribe(SPEAKER, body)
    return url


async def test_structured(gateway: Running, consumer: Consumers) -> None:
    url = await subscribed(gateway, consumer, "structured")
    sent = event(topic="structured", data={"level": 1.5})
    answer = await publish(gateway, sent)
    assert (answer.status, answer.body) == (202, b"")
    payload = (await consumer.next(url)).payload
    assert payload.tag == f"{{{DRAGOMAN_DATA}}}data"
    assert (payload.get("content-type"), payload.text) == ("application/json", '{"level": 1.5}')


async def test_binary(gateway: Running, consumer: Consumers) -> None:
    """XML is the payload; a consumer of WS-Eventing gets it by a topic of the URL, too."""
    url = consumer.fresh()
    await gateway.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
    answer = await post(
        gateway,
        b'<tide xmlns="urn:t">1.5</tide>',
        "application/xml",
        "/events/topic/binary",
        ce_specversion="1.0",
        ce_id="b-1",
        ce_source="/sensors/4",
        ce_type="http://example.org/tide",
        ce_subject="gauge%207",
    )
    assert answer.status == 202, answer.body
    receipt = await consumer.next(url)
    assert receipt.payload.tag == "{urn:t}tide"
    assert receipt.message.wsa("Action") == "http://example.org/tide"


async def test_batched(gateway: Running, consumer: Consumers) -> None:
    url = await subscribed(gateway, consumer, "batched")
    events = [event(topic="batched", data=number) for number in range(3)]
    assert (await publish(gateway, *events)).status == 202
    assert (await post(gateway, b"[]", BATCH)).status == 202
    found = [(await consumer.next(url)).payload.text for _ in events]
    assert found == ["0", "1", "2"]


async def test_an_event_is_taken_once(gateway: Running, consumer: Consumers) -> None:
    """By its source and id, for each publisher."""
    url = await subscribed(gateway, consumer, "once")
    first, second = event(topic="once", data=1), event(topic="once", data=2)
    for one in (first, first, {**first, "source": "/sensors/5", "data": 3}, second):
        assert (await publish(gateway, one)).status == 202
    assert (await publish(gateway, {**first, "data": 4}, source=STRANGER)).status == 202
    found = [(await consumer.next(url)).payload.text for _ in range(4)]
    assert found == ["1", "3", "2", "4"]


@pytest.mark.parametrize(
    ("body", "type", "status", "reason"),
    [
        (b"{", STRUCTURED, 400, "message-invalid"),
        (b"{}", STRUCTURED, 400, "message-invalid"),
        (json.dumps(event(id="")).encode(), STRUCTURED, 400, "message-invalid"),
        (json.dumps(event(topic="a//b")).encode(), STRUCTURED, 400, "topic-invalid"),
        (
            json.dumps(event(datacontenttype="application/xml", data="<a>")).encode(),
            STRUCTURED,
            400,
            "not-xml",
        ),
        (
            json.dumps([event(), event(specversion="0.3")]).encode(),
            BATCH,
            400,
            "message-invalid",
        ),
        (json.dumps([event()] * (MOST_IN_BATCH + 1)).encode(), BATCH, 413, "too-large"),
        (json.dumps(event(ext="x" * 9000)).encode(), STRUCTURED, 413, "too-large"),
        (b"{}", "application/json", 400, "message-invalid"),
        (b"x", "application/cloudevents+avro", 415, "media-type"),
    ],
)
async def test_what_is_refused(
    gateway: Running, body: bytes, type: str, status: int, reason: str
) -> None:
    answer = await post(gateway, body, type)
    assert answer.status == status, answer.body
    problem = problem_of(answer)
    assert problem["reason"] == reason
    assert ("accept-post" in answer.headers) is (status == 415)


async def test_bodies_are_bounded(gateway: Running) -> None:
    answer = await gateway.raw(
        b"POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: a/b\r\n"
        b"Content-Length: %d\r\n\r\n" % (HttpLimits().envelope + 1)
    )
    assert answer.status == 413
    problem_of(answer)


async def test_topics_in_the_path(gateway: Running) -> None:
    answer = await publish(gateway, event(), path="/events/topic/a//b")
    assert answer.status == 400
    assert problem_of(answer)["reason"] == "topic-invalid"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_other_methods(gateway: Running, method: str) -> None:
    answer = await gateway.request(method, "/events")
    assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")
    problem_of(answer)


async def test_the_handshake_of_web_hooks(gateway: Running) -> None:
    asked = "sender.example.com"
    trusted = await gateway.request("OPTIONS", "/events", WebHook_Request_Origin=asked)
    assert trusted.status == 200
    assert trusted.headers["webhook-allowed-origin"] == "*"
    assert trusted.headers["webhook-allowed-rate"] == "*"
    stranger = await gateway.request(
        "OPTIONS", "/events", source=STRANGER, WebHook_Request_Origin=asked
    )
    assert stranger.headers["webhook-allowed-rate"] == "30000"
    unasked = await gateway.request("OPTIONS", "/events")
    assert unasked.headers["allow"] == "POST, OPTIONS"
    assert not any(name.startswith("webhook") for name in unasked.headers)


async def test_hops_are_counted(gateway: Running) -> None:
    body = json.dumps(event()).encode()
    answer = await post(gateway, body, STRUCTURED, Dragoman_Hops="8")
    assert problem_of(answer)["reason"] == "loop"


async def test_a_stranger_has_a_rate(tmp_path: Path) -> None:
    """That of events in SOAP."""
    async with running(tmp_path, trusted="127.0.0.1") as run:
        batch = [event(data=number) for number in range(MOST_IN_BATCH)]
        statuses = [(await publish(run, *batch, source=STRANGER)).status for _ in range(4)]
        assert statuses[:2] == [202, 202]
        assert 429 in statuses
        answer = await publish(run, *batch, source=STRANGER)
        if answer.status == 429:
            assert int(answer.headers["retry-after"]) >= 1
            assert problem_of(answer)["reason"] == "rate"
        assert (await publish(run, *batch)).status == 202


@pytest.mark.parametrize(
    ("settings", "elements", "text", "status"),
    [
        ({}, 2000, 0, 202),
        ({"envelope_elements": 1000}, 2000, 0, 400),
        ({}, 100_000, 0, 400),
        ({"envelope_elements": 200_000}, 100_000, 0, 202),
        ({}, 1, 2**17, 202),
        ({"envelope_bytes": 2**16}, 1, 2**17, 413),
        ({}, 1, 3 * 2**20, 413),
        ({"envelope_bytes": 2**23}, 1, 3 * 2**20, 202),
    ],
)
async def test_the_limits_of_xml_are_settings(
    tmp_path: Path, settings: dict[str, int], elements: int, text: int, status: int
) -> None:
    """Of an event in binary mode, and, where JSON does not make it longer, in structured mode."""
    xml = f'<r xmlns="urn:large">{"<a/>" * (elements - 1)}{"x" * text}</r>'
    async with running(tmp_path, **settings) as run, consumers() as sinks:
        sink = sinks.add()
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(sink.url))
        said = {f"ce_{name}": value for name, value in event().items()}
        binary = await post(run, xml.encode(), "application/xml", **said)
        structured = await publish(run, event(datacontenttype="application/xml", data=xml))
        assert [binary.status, structured.status] == [status] * 2, binary.body + structured.body
        for _ in range(2 if status == 202 else 0):
            body = (await sink.next()).body
            assert body.count(b"<a/>") == elements - 1
            assert body.count(b"x" * 100) >= text // 200
