"""Subscriptions that are paused, and renewed, by operators and by their subscribers."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.consumers import Consumers
from tests.rigs.dispatching import engine
from tests.rigs.envelopes import WSNT, Answer, Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.programs import command
from tests.rigs.waiting import until

SPEAKER = Speaker()


def read(answer: Answer) -> Any:
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


async def ask(run: Running, id_: str, verb: str, **said: object) -> Any:
    return read(await run.api("POST", f"/subscriptions/{id_}/{verb}", json.dumps(said).encode()))


def only_id(run: Running) -> str:
    [entry] = run.gateway.subscriptions.entries
    return entry.id


async def publish(run: Running, *numbers: int) -> None:
    for number in numbers:
        await run.publish(f"<n>{number}</n>")


async def next_numbers(consumer: Consumers, url: str, count: int) -> list[int]:
    found = []
    for _ in range(count):
        body = (await consumer.next(url)).message.body[0]
        found.append(int(body.text or ""))
    return found


@pytest.mark.parametrize("hold", [False, True])
async def test_what_is_published_meanwhile_passes_by_or_waits(tmp_path: Path, hold: bool) -> None:
    async with running(tmp_path) as run, Consumers() as consumer:
        url = consumer.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        id_ = only_id(run)
        await publish(run, 1)
        assert await next_numbers(consumer, url, 1) == [1]
        paused = await ask(run, id_, "pause", hold=hold)
        assert (paused["state"], paused["paused"], paused["hold_while_paused"]) == (
            "paused", True, hold,
        )  # fmt: skip
        await publish(run, 2, 3)

        async def counted() -> bool:
            counts = read(await run.api("GET", f"/subscriptions/{id_}"))["counts"]
            return (counts["waiting"], counts["skipped"]) == ((2, 0) if hold else (0, 2))

        await until(counted)
        [step] = [one for one in await ask(run, id_, "explain") if one["name"] == "paused"]
        assert step["holds"] is False and ("waits for it" in step["text"]) is hold
        resumed = await ask(run, id_, "resume")
        assert (resumed["paused"], resumed["hold_while_paused"]) == (False, False)
        await publish(run, 4)
        expected = [2, 3, 4] if hold else [4]
        assert await next_numbers(consumer, url, len(expected)) == expected


async def test_what_is_held_outlives_a_restart(tmp_path: Path) -> None:
    async with Consumers() as consumer:
        url = consumer.fresh()
        async with running(tmp_path, adapter="embedded:", hold_while_paused=True) as run:
            path = await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url, raw=True))
            pause = f'<n:PauseSubscription xmlns:n="{WSNT}"/>'  # In SOAP the setting says it.
            assert (await run.ask(SPEAKER, pause, path)).status == 200
            await publish(run, 1, 2)
            await run.quiet()
        async with running(tmp_path, adapter="embedded:") as run:
            id_ = only_id(run)
            shown = read(await run.api("GET", f"/subscriptions/{id_}"))
            assert (shown["hold_while_paused"], shown["counts"]["waiting"]) == (True, 2)
            await publish(run, 3)
            await ask(run, id_, "resume")
            assert await next_numbers(consumer, url, 3) == [1, 2, 3]


async def test_what_is_held_is_bounded(store_url: str) -> None:
    async with engine(store_url, most=3) as run, Consumers() as consumer:
        entry = await run.subscribe(consumer.fresh())
        run.pause(entry, True, hold=True)
        run.publish(*range(5))
        await run.conservation_when(waiting=3, dead=2)
        run.pause(entry, False)
        await run.conservation_when(delivered=3, dead=2)


async def test_an_operator_renews(tmp_path: Path) -> None:
    async with running(tmp_path, trusted=[]) as run:
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe("http://c.example.org/", expires="PT1H"))
        id_ = only_id(run)
        before = read(await run.api("GET", f"/subscriptions/{id_}"))
        for said, hours in (("P3D", 72), (7200, 2)):
            renewed = await ask(run, id_, "renew", expires=said)
            end = datetime.fromisoformat(renewed["expires"])
            made = datetime.fromisoformat(before["created"])
            assert timedelta(0) <= end - made - timedelta(hours=hours) < timedelta(minutes=30)
        for wrong in ("yesterday", "-PT1H", "2001-01-01T00:00:00Z"):
            body = json.dumps({"expires": wrong}).encode()
            answer = await run.api("POST", f"/subscriptions/{id_}/renew", body)
            assert 400 <= answer.status < 500, answer.body
        unchanged = read(await run.api("GET", f"/subscriptions/{id_}"))
        assert unchanged["expires"] == renewed["expires"]
        for verb in ("pause", "resume", "renew"):
            assert (await run.api("POST", f"/subscriptions/gone/{verb}", b"{}")).status == 404


@pytest.mark.slow
async def test_the_commands(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as run:
        for _ in range(2):
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe("http://c.example.org/"))
        ids = sorted(entry.id for entry in run.gateway.subscriptions.entries)
        said = await command(run.url, "subscriptions", "pause", *ids, "--hold", cwd=tmp_path)
        assert said == "".join(f"paused {id_}\n" for id_ in ids)
        policies = [entry.subscription.policy for entry in run.gateway.subscriptions.entries]
        assert all(one.paused and one.hold_while_paused for one in policies)
        said = await command(run.url, "subscriptions", "resume", *ids, "gone", cwd=tmp_path, code=1)
        assert f"resumed {ids[1]}" in said and "gone: There is no such subscription" in said
        words = ("renew", ids[0], "--expires", "PT2H", "--output", "json")
        said = await command(run.url, "subscriptions", *words, cwd=tmp_path)
        assert json.loads(said) == {"renewed": [ids[0]]}
