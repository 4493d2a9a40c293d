"""Consumers that speak SOAP agree before strangers subscribe them."""

import json
import re
from pathlib import Path

import pytest

from gateway.client import Consumer
from mediation.agreement import Challenge, agrees, answer_challenge, write_challenge
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from tests.rigs.consumers import Connection, Consumers, Receipt, accept
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running

SPEAKER = Speaker()
CALLBACK = re.compile(rb"Callback>http://[^/]+(/[^<]+)<")
ASKED = Challenge("urn:uuid:1", "s3cret", "http://gateway.example/events/consents/k")


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("wsa", Wsa)
def test_the_answer_repeats_the_challenge(soap: Soap, wsa: Wsa) -> None:
    consumer = EndpointReference("http://consumer.example/in", wsa)
    _, request = write_challenge(soap, wsa, consumer, ASKED)
    answer = answer_challenge(request)
    assert answer is not None
    assert agrees(answer[1], ASKED)
    for other in (
        Challenge("urn:uuid:2", ASKED.secret, ""),
        Challenge(ASKED.message_id, "another", ""),
    ):
        assert not agrees(answer[1], other)
    assert not agrees(request, ASKED), "an echo is no answer"
    assert answer_challenge(answer[1]) is None


@pytest.mark.parametrize("octets", [b"", b"<a/>", b"urn:dragoman:agreement:1", b"<a><![CDATA["])
def test_what_is_no_question_is_not_answered(octets: bytes) -> None:
    assert answer_challenge(octets) is None
    assert not agrees(octets, ASKED)


async def test_a_stranger_subscribes_who_agrees_alone(tmp_path: Path) -> None:
    """Our own consumer answers; another is refused, until a person opens the URL that it got."""

    def echo(connection: Connection, receipt: Receipt) -> None:
        connection.answer(200, receipt.body, content_type="text/xml")

    async with (
        running(tmp_path, trusted=(), consumer_challenge="strangers") as run,
        Consumers() as others,
        Consumer("127.0.0.9") as agreeable,
    ):
        echoing = others.add(echo)
        refused = await run.ask(SPEAKER, SPEAKER.wse_subscribe(echoing.url))
        assert refused.status == 400 and b"does not agree" in refused.body
        listed = json.loads((await run.api("GET", "/destinations")).body)["destinations"]
        assert [one["agreement"] for one in listed] == ["refused"]
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(agreeable.address))
        await run.publish("<a><n>1</n></a>", source="127.0.0.2")
        received = await agreeable.receive()
        assert b"<n>1</n>" in received.octets, "the question is no event"
        assert echoing.count == 1
        found = CALLBACK.search(echoing.received[0].body)
        assert found is not None
        assert (await run.request("GET", found[1].decode())).status == 200
        echoing.behaviour = accept
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(echoing.url))
        await run.publish("<a><n>2</n></a>", source="127.0.0.2")
        await echoing.have(2)
        await run.quiet()


async def test_nobody_is_asked_unless_the_settings_say_so(tmp_path: Path) -> None:
    async with running(tmp_path, trusted=()) as run, Consumers() as consumer:
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url := consumer.fresh()))
        assert consumer.at(url).count == 0
