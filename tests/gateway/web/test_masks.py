"""Fields that operators are not shown: in every view of what is in a message."""

import json
from pathlib import Path
from typing import Any

from tests.rigs.consumers import Consumers, status
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

SPEAKER = Speaker()
SECRET = "078-05-1120"
EVENT = f"<a><ssn>{SECRET}</ssn><name>Ada</name></a>"


async def asked(run: Running, path: str, *, json_body: object = None) -> tuple[Any, str]:
    """What the administration answers, and its text."""
    method, body = ("GET", b"") if json_body is None else ("POST", json.dumps(json_body).encode())
    answer = await run.api(method, path, body)
    assert answer.status == 200, (path, answer.body)
    text = answer.body.decode()
    return json.loads(text), text


async def test_dead_letters_attempts_and_their_answers(tmp_path: Path) -> None:
    async with running(tmp_path, console_mask=["ssn"]) as run, Consumers() as consumers:
        xml, plain = consumers.fresh(), consumers.fresh()
        consumers.at(xml).behaviour = status(400, EVENT.encode())
        consumers.at(plain).behaviour = status(400, f"{SECRET} is not known".encode())
        for url in (xml, plain):
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        await run.publish(EVENT, message_id="urn:m")

        async def died() -> bool:
            found, _ = await asked(run, "/deadletters")
            return len(found["dead_letters"]) == 2

        await until(died)
        listed, said = await asked(run, "/deadletters")
        for letter in listed["dead_letters"]:
            one, text = await asked(run, f"/deadletters/{letter['number']}")
            assert "<ssn>***</ssn><name>Ada</name>" in one["payload"]["text"]
            assert "<ssn>***</ssn>" in one["envelope"]["text"]
            _, attempts = await asked(run, f"/subscriptions/{letter['subscription']}/attempts")
            _, again = await asked(
                run,
                f"/subscriptions/{letter['subscription']}/send-again",
                json_body={"message": "urn:m"},
            )
            for each in (said, text, attempts, again):
                assert SECRET not in each and "***" in each
        # Errors, which would quote the answer, say the status alone.
        for entry in run.gateway.subscriptions.entries:
            _, shown = await asked(run, f"/subscriptions/{entry.id}")
            _, explained = await asked(run, f"/subscriptions/{entry.id}/explain", json_body={})
            for each in (shown, explained):
                assert "answered 400 Bad Request" in each and SECRET not in each
        for path in ("/overview", "/destinations"):
            _, each = await asked(run, path)
            assert "answered 400 Bad Request" in each and SECRET not in each


async def test_the_spool(tmp_path: Path, unused_tcp_port: int) -> None:
    adapter = f"amqp://127.0.0.1:{unused_tcp_port}/"
    async with running(tmp_path, adapter=adapter, spool=True, console_mask=["ssn"]) as run:
        await run.publish(EVENT)
        listed, _ = await asked(run, "/spool")
        one, text = await asked(run, f"/spool/{listed['messages'][0]['number']}")
        assert "<ssn>***</ssn><name>Ada</name>" in one["payload"]["text"]
        assert SECRET not in text


async def test_what_waits_is_listed_without_its_contents(tmp_path: Path) -> None:
    async with running(tmp_path, console_mask=["ssn"]) as run, Consumers() as consumers:
        url = consumers.fresh()
        consumers.at(url).behaviour = status(503)
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        [entry] = run.gateway.subscriptions.entries
        for number in range(3):
            await run.publish(EVENT, path="/soap/topic/storms", message_id=f"urn:m:{number}")

        async def stored() -> bool:
            found, _ = await asked(run, f"/subscriptions/{entry.id}/waiting")
            return len(found["messages"]) == 3 and all(one["stored"] for one in found["messages"])

        await until(stored)
        path = f"/subscriptions/{entry.id}/waiting"
        found, text = await asked(run, path)
        assert [one["id"] for one in found["messages"]] == ["urn:m:0", "urn:m:1", "urn:m:2"]
        assert {one["topic"] for one in found["messages"]} == {"storms"}
        first = found["messages"][0]
        assert first["attempts"] == 1 and first["next_attempt"] and first["bytes"] == len(EVENT)
        assert SECRET not in text and "Ada" not in text and found["next"] is None
        page, _ = await asked(run, f"{path}?limit=2")
        rest, _ = await asked(run, f"{path}?limit=2&after={page['next']}")
        assert [one["id"] for one in page["messages"] + rest["messages"]] == [
            "urn:m:0", "urn:m:1", "urn:m:2",
        ]  # fmt: skip
        seen, text = await asked(run, "/messages/urn:m:1?content=true")
        assert "<ssn>***</ssn>" in seen["messages"][0]["content"]["understood"]["payload"]["text"]
        assert SECRET not in text


async def test_nothing_is_masked_where_nothing_is_named(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumers() as consumers:
        url = consumers.fresh()
        consumers.at(url).behaviour = status(400, f"{SECRET} is not known".encode())
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        [entry] = run.gateway.subscriptions.entries
        await run.publish(EVENT)
        await run.quiet()
        _, text = await asked(run, f"/subscriptions/{entry.id}/attempts")
        assert f"{SECRET} is not known" in text
