"""A Notify of which some topics cannot be read, through a running gateway: the others are
delivered, and these wait for an operator."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.publishing.set_aside import Prefix, TopicReading
from gateway.security.networks import networks
from tests.rigs.consumers import Consumer, Consumers
from tests.rigs.envelopes import (
    Answer,
    Speaker,
    fresh_id,
    notification_message,
    notify,
)
from tests.rigs.gateways import Running, running
from tests.rigs.reliable_publishers import ReliablePublisher, upto

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEAKER = Speaker()
VENDOR = [{"prefix": "v", "namespace": "urn:vendor"}]
BATCH = notify(
    notification_message("<e>1</e>", "t:motion"),
    notification_message("<e>2</e>", "t:video/v:motion"),
    notification_message("<e>3</e>", "a b"),
    notification_message("<e>4</e>", "t:tamper"),
    scope='xmlns:t="urn:t"',
)
REASON = "unknown-topic"


async def send(run: Running, body: str = BATCH, path: str = "/soap", **envelope: Any) -> Answer:
    return await run.ask(SPEAKER, body, path, **envelope)


async def letters(run: Running) -> list[dict[str, Any]]:
    answer = await run.api("GET", f"/deadletters?reason={REASON}")
    listed: list[dict[str, Any]] = json.loads(answer.body)["dead_letters"]
    return listed


async def redrive(run: Running, **chosen: Any) -> dict[str, Any]:
    answer = await run.api("POST", "/deadletters/redrive", json.dumps(chosen).encode())
    assert answer.status == 200, answer.body
    done: dict[str, Any] = json.loads(answer.body)
    return done


@pytest_asyncio.fixture(loop_scope="module")
async def sink(consumer: Consumers) -> AsyncIterator[Consumer]:
    yield consumer.add()


async def subscribe(run: Running, sink: Consumer) -> None:
    await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(sink.url))


def texts(sink: Consumer) -> list[str | None]:
    return [receipt.payload.text for receipt in sink.received]


async def test_the_others_are_delivered_and_it_is_redriven(tmp_path: Path, sink: Consumer) -> None:
    """After a restart with what was missing; what never can be read stays."""
    settings = {"adapter": "embedded:"}
    async with running(tmp_path, **settings) as run:
        await subscribe(run, sink)
        id_ = fresh_id()
        for _ in range(2):  # What comes again is one letter all the same.
            answer = await send(run, message_id=id_)
            assert (answer.status, answer.body) == (202, b"")
        await run.until(lambda: len(sink.received) >= 2)
        await run.quiet()
        assert texts(sink) == ["1", "4"]
        first, second = await letters(run)
        assert [first["published_id"], second["published_id"]] == [f"{id_}#2", f"{id_}#3"]
        assert first["failure"].startswith(
            'The prefix "v" of the topic expression is not declared.'
        )
        assert "[[prefixes]]" in first["failure"]
        assert (first["subscription"], first["owner"]) == ("", "anonymous:127.0.0.1")
        shown = json.loads((await run.api("GET", f"/deadletters/{first['number']}")).body)
        assert "<e>2</e>" in shown["payload"]["text"] and "v:motion" in shown["payload"]["text"]
        assert (await redrive(run, all=True, dry_run=True))["number"] == 2
        assert (await redrive(run, all=True))["number"] == 0
        assert [one["number"] for one in await letters(run)] == [first["number"], second["number"]]
    async with running(tmp_path, **settings, prefixes=VENDOR) as run:
        done = await redrive(run, reason=REASON)
        assert done == {"number": 1, "reasons": {REASON: 1}, "next": None}
        await run.until(lambda: len(sink.received) >= 3)
        await run.quiet()
        assert texts(sink) == ["1", "4", "2"]
        topic = sink.received[-1].topic
        assert topic is not None and "urn:vendor" in topic.nsmap.values()
        assert [one["number"] for one in await letters(run)] == [second["number"]]
        purge = json.dumps({"reason": REASON}).encode()
        assert (await run.api("POST", "/deadletters/purge", purge)).status == 200
        assert await letters(run) == []
        assert (await send(run)).status == 202
        await run.until(lambda: len(sink.received) >= 6)
        assert sorted(map(str, texts(sink)[3:])) == ["1", "2", "4"]


async def test_nothing_of_it_can_be_read(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        body = notify(*[notification_message("<e/>", f"v:{name}") for name in "ab"])
        assert (await send(run, body)).status == 202
        assert len(await letters(run)) == 2


@pytest.mark.parametrize("where", ["the setting", "a channel"])
async def test_all_of_it_is_refused(tmp_path: Path, sink: Consumer, where: str) -> None:
    settings = {"unknown_topics": "refuse"} if where == "the setting" else {}
    channels = [{"name": "lab"}]
    async with running(tmp_path, channels=channels, **settings) as run:
        await subscribe(run, sink)
        path = "/soap" if settings else "/soap/channel/lab"
        answer = await send(run, path=path)
        assert answer.status == 400
        assert 'prefix "v"' in answer.fault.text
        assert await letters(run) == []
        await run.quiet()
        assert sink.received == []


async def test_what_may_not_be_published_is_not_redriven(tmp_path: Path) -> None:
    """Else an unreadable topic would be a way around a fixed set of topics."""
    (tmp_path / "t.xml").write_text(
        '<t:TopicNamespace xmlns:t="http://docs.oasis-open.org/wsn/t-1" targetNamespace="urn:t">'
        '<t:Topic name="motion"/><t:Topic name="tamper"/></t:TopicNamespace>'
    )
    settings = {"adapter": "embedded:", "topic_namespaces": (tmp_path / "t.xml",)}
    async with running(tmp_path / "d", **settings, fixed_topic_set=True) as run:
        assert (await send(run)).status == 202
    async with running(tmp_path / "d", **settings, fixed_topic_set=True, prefixes=VENDOR) as run:
        assert (await redrive(run, all=True))["number"] == 0
        assert len(await letters(run)) == 2


async def test_a_topic_of_a_tenant_is_not_redriven(tmp_path: Path) -> None:
    """Else an unreadable topic would be a way into a tenant that its publisher is not in."""
    forged = notify(
        notification_message("<e>1</e>", "t:acme/v:motion"), scope='xmlns:t="urn:dragoman:tenant"'
    )
    async with running(tmp_path, adapter="embedded:") as run:
        assert (await send(run, forged)).status == 202
    async with running(tmp_path, adapter="embedded:", prefixes=VENDOR) as run:
        assert (await redrive(run, all=True))["number"] == 0
        assert len(await letters(run)) == 1


async def test_in_a_sequence(tmp_path: Path, sink: Consumer) -> None:
    """It is acknowledged, and set aside once however often it comes."""
    async with running(tmp_path, adapter="embedded:", wsrm="offered") as run:
        await subscribe(run, sink)
        publisher = ReliablePublisher(run)
        await publisher.create()
        for _ in range(2):
            await publisher.send(1, BATCH)
        assert publisher.acknowledged == upto(1)
        await run.until(lambda: len(sink.received) >= 2)
        await run.quiet()
        assert texts(sink) == ["1", "4"]
        assert len(await letters(run)) == 2


@pytest.mark.slow
async def test_what_a_stranger_has_set_aside_is_bounded(tmp_path: Path) -> None:
    """By the bytes of dead letters of one owner: the oldest go."""
    async with running(tmp_path, dead_letter_bytes_per_owner=20_000) as run:
        filler = "x" * 8_000
        for number in range(6):
            body = notify(notification_message(f"<e>{filler}{number}</e>", "v:a"))
            assert (await send(run, body)).status == 202

        left = await letters(run)
        while sum(one["bytes"] for one in left) > 20_000:
            left = await letters(run)
        assert 0 < len(left) < 6


async def test_prefixes_of_one_network_are_not_those_of_others() -> None:
    everybody, some = ("a", "urn:a"), ("b", "urn:b")
    rows = [Prefix(*everybody), Prefix(*some, networks(["10.1.0.0/16"]))]
    reading = TopicReading(rows)
    assert reading.rules_for("10.1.2.3").prefixes == (everybody, some)
    for address in ("10.2.2.3", "a name", ""):
        assert reading.rules_for(address).prefixes == (everybody,)
