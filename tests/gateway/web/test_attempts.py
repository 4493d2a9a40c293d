"""The attempts of a subscription, in the API and on the command line."""

import json
from pathlib import Path

from tests.rigs.consumers import Consumers, status
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running
from tests.rigs.programs import command
from tests.rigs.waiting import until

SPEAKER = Speaker()


async def test_what_a_consumer_said_each_time(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as run, Consumers() as consumer:
        url = consumer.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        [id_] = [entry.id for entry in run.gateway.subscriptions.entries]
        path = f"/subscriptions/{id_}/attempts"
        assert json.loads((await run.api("GET", path)).body) == {"attempts": []}
        for behaviour in (status(202), status(200, b"<thanks/>"), status(400, b"x" * 3000)):
            consumer.at(url).behaviour = behaviour
            await run.publish("<a/>", message_id=f"urn:m:{len(consumer.at(url).received)}")
            await consumer.next(url)
            await run.quiet()
        seen = json.loads((await run.api("GET", path)).body)["attempts"]
        assert [one["message"] for one in seen] == ["urn:m:2", "urn:m:1", "urn:m:0"]
        assert [one["status"] for one in seen] == [400, 200, 202]
        assert [one["answer"] for one in seen] == ["x" * 1024, "<thanks/>", ""]
        assert [one["error"] for one in seen] == ["answered 400 Bad Request", None, None]
        assert all(one["deliveries"] == 1 and not one["again"] for one in seen)
        assert all(0 < one["seconds"] < 60 for one in seen)
        text = await command(run.url, "attempts", id_, cwd=tmp_path)
        assert "answered 400 Bad Request" in text and "<thanks/>" in text


async def test_a_consumer_that_is_not_there(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as run:
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe("http://127.0.0.1:9/"))
        [id_] = [entry.id for entry in run.gateway.subscriptions.entries]
        await run.publish("<a/>")
        log = run.gateway.dispatchers.scheduler.attempts
        await until(lambda: bool(log.of(id_)))
        answer = await run.api("GET", f"/subscriptions/{id_}/attempts")
        [seen] = json.loads(answer.body)["attempts"][-1:]
        assert (seen["verdict"], seen["status"], seen["answer"]) == ("retry", None, "")
        assert seen["error"] == "connection refused"
        assert (await run.api("GET", "/subscriptions/nobody/attempts")).status == 404
