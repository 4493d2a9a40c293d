"""A message as it came, as it was understood, and as each subscriber gets it."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.rigs.cloudevents import event, publish
from tests.rigs.consumers import Consumers, status
from tests.rigs.envelopes import Speaker, message_content, topic_expression
from tests.rigs.gateways import Running, running
from tests.rigs.programs import command
from tests.rigs.waiting import until

SPEAKER = Speaker()
STORM = "<storm><level>3</level><ssn>123-45</ssn></storm>"


async def get(run: Running, path: str) -> Any:
    answer = await run.api("GET", path)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


async def content_of(run: Running, id_: str) -> Any:
    [one] = (await get(run, f"/messages/{quote(id_, safe='')}?content=true"))["messages"]
    return one["content"]


async def subscribe_three(run: Running, consumer: Consumers) -> None:
    """Who wants all, who wants greater levels, who wants another topic."""
    for filter_ in ("", message_content("/storm[level > 5]"), topic_expression("calm")):
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(consumer.fresh(), filter=filter_))


async def test_what_each_subscription_makes_of_it(tmp_path: Path) -> None:
    async with running(tmp_path, console_messages=10) as run, Consumers() as consumer:
        await subscribe_three(run, consumer)
        keys = [entry.subscription.key for entry in run.gateway.subscriptions.entries]
        await run.publish(STORM, path="/soap/topic/storms", message_id="urn:m/1")
        await run.quiet()
        page = await get(run, "/recipients?message=urn:m/1")
        assert page["next"] is None
        rows = page["recipients"]
        assert sorted(row["gets"] for row in rows) == [False, False, True]
        [got] = [row for row in rows if row["gets"]]
        assert STORM in got["sent"]["text"]
        refusals = [" ".join(row["details"]) for row in rows if not row["gets"]]
        assert any("level" in one for one in refusals) and any("calm" in one for one in refusals)
        assert not any(key in json.dumps(page) for key in keys)
        # In pages, and those alone that get it, or do not.
        first = await get(run, "/recipients?message=urn:m/1&limit=2")
        rest = await get(run, f"/recipients?message=urn:m/1&limit=2&after={first['next']}")
        assert first["recipients"] + rest["recipients"] == rows and rest["next"] is None
        for matched, number in (("true", 1), ("false", 2)):
            some = await get(run, f"/recipients?message=urn:m/1&matched={matched}")
            assert (len(some["recipients"]), some["next"]) == (number, None)
        assert (await run.api("GET", "/recipients?message=other")).status == 404


async def test_as_it_came_and_was_understood(tmp_path: Path) -> None:
    async with running(tmp_path, console_messages=10) as run:
        envelope = SPEAKER.envelope(STORM, message_id="urn:m")
        await run.post(envelope, "/soap/topic/storms", authorization="Basic secret")
        content = await content_of(run, "urn:m")
        came, understood = content["came"], content["understood"]
        assert came["body"]["text"].encode() == envelope
        headers = dict(came["headers"])
        assert headers["authorization"] == "***" and "xml" in headers["content-type"]
        assert came["path"] == "/soap/topic/storms"
        assert (understood["topic"], understood["payload"]["text"]) == ("storms", STORM)
        cut = await get(run, "/messages/urn:m?content=true&limit=5")
        assert cut["messages"][0]["content"]["understood"]["payload"]["text"] == STORM[:5]
        # Not asked for, it is not shown.
        assert (await get(run, "/messages/urn:m"))["messages"][0]["content"] is None
        await publish(run, event(id="ce-1"))
        assert (await content_of(run, "ce-1"))["came"]["path"] == "/events"


async def test_the_last_messages_in_pages(tmp_path: Path) -> None:
    async with running(tmp_path, console_messages=4) as run:
        for number in range(6):
            await run.publish(STORM, path="/soap/topic/storms", message_id=f"urn:{number}")
        page = await get(run, "/messages?limit=3")
        assert [one["id"] for one in page["messages"]] == ["urn:5", "urn:4", "urn:3"]
        assert page["messages"][0]["topic"] == "storms" and "level" not in json.dumps(page)
        rest = await get(run, f"/messages?limit=3&after={page['next']}")
        assert ([one["id"] for one in rest["messages"]], rest["next"]) == (["urn:2"], None)
        assert (await get(run, "/messages?after=urn:0"))["messages"] == []
    async with running(tmp_path / "without") as run:
        assert await get(run, "/messages") == {"messages": [], "next": None}


async def test_fields_are_masked_everywhere(tmp_path: Path) -> None:
    settings = {"console_messages": 10, "console_mask": ["ssn", "x-patient"]}
    async with running(tmp_path, **settings) as run, Consumers() as consumer:
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(consumer.fresh()))
        await run.subscribe(
            SPEAKER,
            SPEAKER.wsn_subscribe(consumer.fresh(), filter=message_content("/storm[ssn = '1']")),
        )
        envelope = SPEAKER.envelope(STORM, message_id="urn:m")
        await run.post(envelope, x_patient="secret-name")
        await run.quiet()
        page = await get(run, "/recipients?message=urn:m")
        [sent] = [row["sent"]["text"] for row in page["recipients"] if row["sent"]]
        assert "<ssn>***</ssn>" in sent and "<level>3</level>" in sent
        said = json.dumps([page, await content_of(run, "urn:m")])
        assert "123-45" not in said and "secret-name" not in said


async def test_without_the_setting_what_waits_or_died_is_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumers() as consumer:
        good, bad = consumer.fresh(), consumer.fresh()
        consumer.at(bad).behaviour = status(400)
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(good))
        await run.publish(STORM, message_id="urn:gone")
        await consumer.next(good)
        await run.quiet()
        assert await content_of(run, "urn:gone") is None
        assert (await run.api("GET", "/recipients?message=urn:gone")).status == 404
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(bad))
        await run.publish(STORM, message_id="urn:dead")

        async def died() -> bool:
            return (await run.gateway.dispatchers.conservation()).dead_letters == 1

        await until(died)
        content = await content_of(run, "urn:dead")
        assert (content["came"], content["understood"]["payload"]["text"]) == (None, STORM)
        page = await get(run, "/recipients?message=urn:dead")
        assert [row["gets"] for row in page["recipients"]] == [True, True]


@pytest.mark.slow
async def test_the_command(tmp_path: Path) -> None:
    async with running(tmp_path / "data", console_messages=10) as run, Consumers() as consumer:
        await subscribe_three(run, consumer)
        await run.publish(STORM, path="/soap/topic/storms", message_id="urn:m")
        await run.quiet()
        words = ("trace", "urn:m", "--content", "--recipients")
        said = await command(run.url, *words, cwd=tmp_path)
        assert said.count("does not get it") == 2 and said.count(" gets it") == 1
        assert "as it came" in said and "content-type: " in said
