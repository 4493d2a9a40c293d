"""Conditions over the producer's properties: ``ProducerProperties`` of WS-Notification 1.3,
``Precondition`` of its drafts."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from filters import parse_clark
from gateway.parsing import Parsing
from gateway.publishing.producer_documents import ProducerDocuments
from gateway.publishing.resources import Producer
from gateway.publishing.topics import TopicsSeen
from mediation import names
from mediation.filtering import PRODUCER_VIEWS
from mediation.model.messages import Notification
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    FULL,
    IBM,
    S11,
    WSNT,
    XPATH,
    Speaker,
    message_content,
    notification_message,
    notify,
    topic_expression,
)
from tests.rigs.gateways import Running, running

SPEAKER, OLD = Speaker(), Speaker(S11)
M = "urn:dragoman:management:1"
W13 = f'xmlns:p="{WSNT}" xmlns:t="{names.WSTOP_1_3}"'


@pytest.fixture
async def consumers() -> AsyncIterator[Consumers]:
    async with Consumers() as listening:
        yield listening


def properties(text: str, scope: str = W13) -> str:
    return (
        f'<n:ProducerProperties xmlns:n="{WSNT}" {scope} Dialect="{XPATH}">{text}'
        "</n:ProducerProperties>"
    )


def subscribe_1_3(url: str, condition: str, topic: str, xpath: str) -> str:
    topics = topic_expression(topic, FULL)
    return SPEAKER.wsn_subscribe(
        url, filter=topics + properties(condition) + message_content(xpath)
    )


def draft(namespace: str, name: str, dialect: str) -> Any:
    def subscribe(url: str, condition: str, topic: str, xpath: str) -> str:
        return (
            f'<n:{name} xmlns:n="{namespace}" xmlns:p="{namespace}">'
            f"<n:ConsumerReference>{OLD.epr(url)}</n:ConsumerReference>"
            f'<n:TopicExpression Dialect="{dialect}">{topic}</n:TopicExpression>'
            f'<n:Precondition Dialect="{XPATH}">{condition}</n:Precondition>'
            f"<n:Selector>{xpath}</n:Selector></n:{name}>"
        )

    return subscribe


DRAFTS = "http://docs.oasis-open.org/wsn/2004/06/TopicExpression/Simple"
IBM_SIMPLE = "http://www.ibm.com/xmlns/stdwip/web-services/WS-Topics/TopicExpression/simple"
VERSIONS = [
    pytest.param(SPEAKER, subscribe_1_3, "//t:TopicSet/{topic}", id="1.3"),
    pytest.param(
        OLD, draft(names.WSN_2004_06, "Subscribe", DRAFTS), "//p:Topic[. = '{topic}']", id="1.2"
    ),
    pytest.param(
        OLD,
        draft(IBM, "SubscribeRequest", IBM_SIMPLE),
        "//p:Topic[substring-after(., ':') = '{topic}']",
        id="1.0",
    ),
]


async def publish(run: Running, topic: str, payload: str) -> None:
    await run.publish(notify(notification_message(payload, topic)))


@pytest.mark.parametrize(("speaker", "subscribe", "condition"), VERSIONS)
async def test_notifications_begin_and_end_with_a_topic(
    tmp_path: Path, consumers: Consumers, speaker: Speaker, subscribe: Any, condition: str
) -> None:
    async with running(tmp_path) as run:
        appears, is_not_there = consumers.fresh(), consumers.fresh()
        alarm = condition.format(topic="alarm")
        await run.subscribe(speaker, subscribe(appears, alarm, "storms", "/n[. &lt; 10]"))
        await run.subscribe(
            speaker, subscribe(is_not_there, f"not({alarm})", "storms", "/n[. &lt; 10]")
        )
        for number in (1, 11):
            await publish(run, "storms", f"<n>{number}</n>")
        await publish(run, "alarm", "<n>2</n>")
        for number in (12, 3):
            await publish(run, "storms", f"<n>{number}</n>")
        assert (await consumers.next(appears)).events == ["3"]
        assert (await consumers.next(is_not_there)).events == ["1"]
        await run.quiet()
        assert consumers.waiting(appears) == consumers.waiting(is_not_there) == 0


@pytest.mark.parametrize(("speaker", "subscribe", "_condition"), VERSIONS)
async def test_a_condition_survives_a_restart(
    tmp_path: Path, consumers: Consumers, speaker: Speaker, subscribe: Any, _condition: str
) -> None:
    url, never = consumers.fresh(), consumers.fresh()
    async with running(tmp_path, adapter="embedded:") as run:
        fixed = "/*/p:FixedTopicSet = '{}'"
        await run.subscribe(speaker, subscribe(url, fixed.format("false"), "storms", "true()"))
        await run.subscribe(speaker, subscribe(never, fixed.format("true"), "storms", "true()"))
    async with running(tmp_path, adapter="embedded:") as run:
        await publish(run, "storms", "<n>1</n>")
        assert (await consumers.next(url)).events == ["1"]
        await run.quiet()
        assert consumers.waiting(never) == 0


async def test_it_is_shown(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        url = "http://consumer.example.org/"
        body = SPEAKER.wsn_subscribe(url, filter=properties("//t:TopicSet/alarm"))
        manager = await run.subscribe(SPEAKER, body)
        listed = await run.ask(SPEAKER, f'<m:ListSubscriptions xmlns:m="{M}"/>')
        [shown] = listed.message.root.iter(f"{{{WSNT}}}Filter")
        assert [child.tag for child in shown] == [f"{{{WSNT}}}ProducerProperties"]
        assert (shown[0].text, shown[0].get("Dialect")) == ("//t:TopicSet/alarm", XPATH)
        assert shown[0].nsmap["t"] == names.WSTOP_1_3
        asked = (
            f'<r:GetResourceProperty xmlns:r="{names.WSRF_RP}" xmlns:n="{WSNT}">n:Filter'
            "</r:GetResourceProperty>"
        )
        answer = await run.ask(SPEAKER, asked, manager)
        assert len(list(answer.message.root.iter(f"{{{WSNT}}}ProducerProperties"))) == 1
        [one] = json.loads((await run.api("GET", "/subscriptions")).body)["subscriptions"]
        assert (one["producer_properties"], one["contents"]) == (["//t:TopicSet/alarm"], [])

        async def explained(**asked: str) -> dict[str, Any]:
            body = json.dumps(asked).encode()
            answer = await run.api("POST", f"/subscriptions/{one['id']}/explain", body)
            [step] = [each for each in json.loads(answer.body) if each["name"] == "filter"]
            return dict(step)

        assert "//t:TopicSet/alarm (over the producer's" in (await explained())["text"]
        assert (await explained(payload="<a/>"))["holds"] is False
        await publish(run, "alarm", "<n>2</n>")
        assert (await explained(payload="<a/>"))["holds"] is True


async def test_drafts_show_their_own(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        body = draft(names.WSN_2004_06, "Subscribe", DRAFTS)(
            "http://consumer.example.org/", "//p:Topic", "a", "/b"
        )
        manager = await run.subscribe(OLD, body)
        asked = (
            f'<r:GetResourceProperty xmlns:r="{names.WSRF_RP_2004_06}" '
            f'xmlns:n="{names.WSN_2004_06}">n:{{}}</r:GetResourceProperty>'
        )
        for name, text in (("Precondition", "//p:Topic"), ("Selector", "/b")):
            answer = await run.ask(OLD, asked.format(name), manager)
            found = answer.message.root.iter(f"{{{names.WSN_2004_06}}}{name}")
            assert [one.text for one in found] == [text]


async def test_current_messages_too(tmp_path: Path, consumers: Consumers) -> None:
    async with running(tmp_path) as run:
        url = consumers.fresh()
        body = SPEAKER.wsn_subscribe(
            url, filter=topic_expression("storms") + properties("//t:TopicSet/alarm")
        )
        manager = await run.subscribe(SPEAKER, body)
        synchronize = f'<t:SetSynchronizationPoint xmlns:t="{names.ONVIF_EVENTS}"/>'
        await publish(run, "storms", "<n>1</n>")
        assert (await run.ask(SPEAKER, synchronize, manager)).status == 200
        await publish(run, "alarm", "<n>2</n>")
        assert (await run.ask(SPEAKER, synchronize, manager)).status == 200
        assert (await consumers.next(url)).events == ["1"]
        await run.quiet()
        assert consumers.waiting(url) == 0


@pytest.fixture
def topics() -> TopicsSeen:
    return TopicsSeen(topics=3)


def said_on(topic: str) -> Notification:
    return Notification(
        id=f"urn:{topic}",
        source="urn:test",
        payload=b"<a/>",
        time=datetime.now(UTC),
        topic=parse_clark(topic),
    )


async def test_documents_are_made_when_topics_change(topics: TopicsSeen) -> None:
    documents = ProducerDocuments(Producer(topics, Parsing()), topics)
    view, other, *_ = PRODUCER_VIEWS

    def names_in(document: bytes) -> set[str]:
        root = etree.fromstring(document)
        return {str(one.tag) for one in root.iter() if one.get(f"{{{names.WSTOP_1_3}}}topic")}

    async def now() -> bytes:
        return (await documents.of([view]))[view]

    first = await now()
    assert (first, names_in(first)) == (await now(), set())
    for name in "abcd":
        before = await now()
        topics.see([said_on(name)])
        after = await now()
        assert after is not before
        topics.see([said_on(name)])
        assert await now() is after
    assert names_in(await now()) == {"b", "c", "d"}
    both = await documents.of([view, other])
    assert both.keys() == {view, other} and both[view] is await now()
