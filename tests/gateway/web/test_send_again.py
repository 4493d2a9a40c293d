"""One delivery made once more, because an operator asks for that."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.consumers import Consumers, status
from tests.rigs.envelopes import Speaker, topic_expression
from tests.rigs.gateways import Running, running
from tests.rigs.programs import command
from tests.rigs.waiting import until

SPEAKER = Speaker()


async def send_again(run: Running, id_: str, message: str, expected: int = 200) -> Any:
    body = json.dumps({"message": message}).encode()
    answer = await run.api("POST", f"/subscriptions/{id_}/send-again", body)
    assert answer.status == expected, answer.body
    return json.loads(answer.body)


async def died(run: Running, number: int) -> None:
    async def so_many() -> bool:
        return (await run.gateway.dispatchers.conservation()).dead_letters == number

    await until(so_many)


async def test_a_dead_letter_stays_one(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumers() as consumer:
        url = consumer.fresh()
        consumer.at(url).behaviour = status(400)
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        [entry] = run.gateway.subscriptions.entries
        await run.publish("<a/>", message_id="urn:m")
        first = await consumer.next(url)
        await died(run, 1)
        trouble, attempted = entry.state.trouble, entry.state.attempted
        assert trouble is not None and trouble.failures == 1
        verdicts = dict(run.gateway.dispatchers.scheduler.verdicts)
        failed = await send_again(run, entry.id, "urn:m")
        assert (failed["verdict"], failed["status"], failed["again"]) == ("rejected", 400, True)
        consumer.at(url).behaviour = status(202)
        made = await send_again(run, entry.id, "urn:m")
        assert (made["verdict"], made["status"], made["error"]) == ("delivered", 202, None)
        for _ in range(2):  # It is the same message, with the same id.
            again = await consumer.next(url)
            assert again.body == first.body
        # And all else is as it was.
        assert (entry.state.trouble, trouble.failures) == (trouble, 1)
        assert entry.state.attempted == attempted
        assert dict(run.gateway.dispatchers.scheduler.verdicts) == verdicts
        await died(run, 1)
        log = run.gateway.dispatchers.scheduler.attempts.of(entry.id)
        assert [one.again for one in log] == [True, True, False]


async def test_what_waits_still_waits(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumers() as consumer:
        url = consumer.fresh()
        consumer.at(url).behaviour = status(503)
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        [entry] = run.gateway.subscriptions.entries
        await run.publish("<a/>", message_id="urn:m")
        await consumer.next(url)

        async def waits() -> bool:
            return (await run.gateway.dispatchers.conservation()).waiting == 1

        await until(waits)
        await run.quiet()
        consumer.at(url).behaviour = status(202)
        assert (await send_again(run, entry.id, "urn:m"))["verdict"] == "delivered"
        await until(waits)
        assert "not kept" in (await send_again(run, entry.id, "urn:other", 404))["detail"]
        assert (await run.api("POST", "/subscriptions/x/send-again", b"{}")).status == 404


async def test_one_of_the_last_messages(tmp_path: Path) -> None:
    async with running(tmp_path / "data", console_messages=1) as run, Consumers() as consumer:
        url = consumer.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        [entry] = run.gateway.subscriptions.entries
        for name in ("urn:1", "urn:2"):
            await run.publish("<a/>", message_id=name)
            await consumer.next(url)
        await run.quiet()
        await send_again(run, entry.id, "urn:1", 404)
        assert (await send_again(run, entry.id, "urn:2"))["verdict"] == "delivered"


async def test_what_the_filter_does_not_take(tmp_path: Path) -> None:
    """It is refused, unless it is forced."""
    async with running(tmp_path, console_messages=2) as run, Consumers() as consumer:
        url = consumer.fresh()
        only = topic_expression("storms")
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url, filter=only))
        [entry] = run.gateway.subscriptions.entries
        await run.publish("<a/>", path="/soap/topic/tides", message_id="urn:m")
        await run.quiet()
        refused = await send_again(run, entry.id, "urn:m", 409)
        assert "does not take" in refused["detail"] and "force" in refused["detail"]
        assert run.gateway.dispatchers.scheduler.attempts.of(entry.id) == []
        body = json.dumps({"message": "urn:m", "force": True}).encode()
        answer = await run.api("POST", f"/subscriptions/{entry.id}/send-again", body)
        assert json.loads(answer.body)["verdict"] == "delivered"
        assert b"<a" in (await consumer.next(url)).body


async def test_what_has_a_place_in_a_row(tmp_path: Path) -> None:
    async with running(tmp_path, console_messages=1) as run:
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe("http://127.0.0.1:9/"))
        [entry] = run.gateway.subscriptions.entries
        await run.publish("<a/>", message_id="urn:m")
        entry.delivery = replace(entry.delivery, bookmarks=True)
        assert "places in a row" in (await send_again(run, entry.id, "urn:m", 400))["detail"]


@pytest.mark.slow
async def test_the_command(tmp_path: Path) -> None:
    async with running(tmp_path / "data", console_messages=10) as run, Consumers() as consumer:
        url = consumer.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        [entry] = run.gateway.subscriptions.entries
        await run.publish("<a/>", message_id="urn:m")
        await consumer.next(url)
        consumer.at(url).behaviour = status(500, b"no room")
        words = ("subscriptions", "send-again", entry.id, "urn:m")
        said = await command(run.url, *words, cwd=tmp_path)
        assert "retry (500)" in said and "no room" in said
