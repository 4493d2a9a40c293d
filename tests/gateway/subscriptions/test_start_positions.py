"""Subscriptions that begin with what an archive has, then get what is published: without a gap."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.delivery.backlog import MOST
from gateway.subscriptions.replaying import FEW, is_near
from mediation.model.messages import CatchingUp
from mediation.names import DRAGOMAN_POLICY
from tests.gateway.subscriptions.test_replaying import archived, ended, numbers, row
from tests.rigs.cloudevents import agreeing
from tests.rigs.consumers import Consumers, accept, slow, status
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.programs import command
from tests.rigs.stores import on_each_store
from tests.rigs.waiting import until

SPEAKER = Speaker()
LONG_AGO = "2026-03-01T00:00:00Z"


def since(position: str = LONG_AGO) -> str:
    return f'<p:Since xmlns:p="{DRAGOMAN_POLICY}">{position}</p:Since>'


def wse_since(url: str, position: str = LONG_AGO) -> str:
    body = SPEAKER.wse_subscribe(url)
    return body.replace("</e:Delivery>", f"{since(position)}</e:Delivery>")


def wsn_since(url: str, position: str = LONG_AGO) -> str:
    return SPEAKER.wsn_subscribe(url, raw=True, policy=since(position))


async def publish_for_ever(run: Running, made: list[int], stop: asyncio.Event) -> None:
    """As fast as it is answered."""
    while not stop.is_set():
        made.append(len(made))
        await run.publish(f"<n>{made[-1]}</n>", path="/soap/topic/storms")


@pytest.mark.parametrize(
    ("lag", "fresh"),
    [
        pytest.param(15.0, 5.0, id="all at the seam", marks=pytest.mark.nightly),
        pytest.param(4.5, 1.5, id="archive first"),
    ],
)
@on_each_store
async def test_nothing_is_missed_and_nothing_comes_twice(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch, lag: float, fresh: float
) -> None:
    """While it is published all the time, to another consumer, too."""
    monkeypatch.setattr("gateway.subscriptions.replaying.LAG", lag)
    monkeypatch.setattr("gateway.delivery.dispatcher.FRESH", fresh)
    settings = {"adapter": "embedded:", "archive": tmp_path / "archive", "store": store_url}
    async with running(tmp_path / "data", **settings) as run, Consumers() as consumer:
        url, other = consumer.fresh(), consumer.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(other, raw=True))
        made: list[int] = []
        stop = asyncio.Event()
        publishing = asyncio.create_task(publish_for_ever(run, made, stop))
        await until(lambda: len(made) > 100)
        if lag < 15:
            await asyncio.sleep(lag + 0.5)
        await run.subscribe(SPEAKER, wse_since(url))
        [entry] = [one for one in run.gateway.subscriptions.entries if url in one.target.url]
        assert entry.subscription.policy.catching_up is not CatchingUp.DONE
        said = await ended(run, entry.id)
        assert (said["to"], said["known"] + said["replayed"]) == (None, said["read"])
        seam = len(made)
        await until(lambda: len(made) > seam + 50)
        stop.set()
        await publishing
        await run.quiet()
        assert await numbers(consumer, url, len(made)) == list(map(str, made))
        assert consumer.waiting(url) == 0
        [after] = [one for one in run.gateway.subscriptions.entries if one.id == entry.id]
        assert after.subscription.policy.catching_up is CatchingUp.DONE


@pytest.mark.parametrize(
    "left, former, added, near",
    [
        (16.0, None, 10**6, True),
        (90.0, None, 10, False),
        (30.0, 100.0, 10, False),
        (90.0, 100.0, 100, True),
        (90.0, 100.0, MOST, False),
        (290.0, 300.0, FEW // 2, True),
        (290.0, 300.0, FEW, False),
        (400.0, 410.0, 1, False),
    ],
)
def test_what_is_published_waits_for_few(
    left: float, former: float | None, added: int, near: bool
) -> None:
    """What is left comes at once then: more than may wait for one would be dead letters, or the end
    of the subscription."""
    before = timedelta.max if former is None else timedelta(seconds=former)
    found = is_near(timedelta(seconds=left), before, timedelta(seconds=15), added=added)
    assert found is near


async def test_what_others_take_their_time_for_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message comes to the archive when the last of its consumers has it: later, maybe, than a
    reader keeps behind what is published."""
    monkeypatch.setattr("gateway.subscriptions.replaying.LAG", 0.5)
    monkeypatch.setattr("gateway.delivery.dispatcher.FRESH", 0.4)
    monkeypatch.setattr("gateway.delivery.dispatcher.PATIENCE", 30.0)
    settings: dict[str, Any] = {"adapter": "embedded:", "archive": tmp_path / "archive"}
    async with running(tmp_path / "data", **settings) as run, Consumers() as consumer:
        url, other = consumer.fresh(), consumer.fresh()
        consumer.at(other).behaviour = slow(2.0)
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(other, raw=True))
        await run.publish("<n>0</n>", path="/soap/topic/storms")
        await until(lambda: consumer.at(other).count == 1)
        await asyncio.sleep(0.6)
        await run.subscribe(SPEAKER, wse_since(url))
        [entry] = [one for one in run.gateway.subscriptions.entries if url in one.target.url]
        await ended(run, entry.id)
        await run.quiet()
        assert await numbers(consumer, url, consumer.waiting(url)) == ["0"]


async def test_it_goes_on_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a consumer that was away; what was published meanwhile comes behind the archive."""
    monkeypatch.setattr("gateway.subscriptions.archive_reading.WAITING", 8)
    monkeypatch.setattr("gateway.subscriptions.archive_reading.PART", 4)
    archived(tmp_path / "archive", [row(number) for number in range(40)])
    settings: dict[str, Any] = {"adapter": "embedded:", "archive": tmp_path / "archive"}
    settings |= {"drain": 0.2, "retry_delays": [0.05] * 200}
    async with Consumers() as consumer:
        url = consumer.fresh()
        consumer.at(url).behaviour = status(503)
        async with running(tmp_path / "data", **settings) as run:
            await run.subscribe(SPEAKER, wsn_since(url))
            [entry] = run.gateway.subscriptions.entries
            await until(lambda: entry.state.trouble is not None)
            await run.publish("<n>40</n>")
            run.stop.set()
        consumer.at(url).behaviour = accept
        async with running(tmp_path / "data", **settings) as run:
            await run.publish("<n>41</n>")
            await ended(run, entry.id)
            await run.publish("<n>42</n>")
            await run.quiet()
            got: list[str] = []
            while consumer.waiting(url):
                got += await numbers(consumer, url, 1)
            assert list(dict.fromkeys(got)) == [str(number) for number in range(43)]


async def test_one_that_is_cancelled_gets_what_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.subscriptions.archive_reading.WAITING", 2)
    archived(tmp_path / "archive", [row(number) for number in range(200)])
    settings: dict[str, Any] = {"adapter": "embedded:", "archive": tmp_path / "archive"}
    settings["retry_delays"] = [0.05] * 200
    async with running(tmp_path / "data", **settings) as run, Consumers() as consumer:
        url = consumer.fresh()
        consumer.at(url).behaviour = status(503)
        await run.subscribe(SPEAKER, wse_since(url))
        [entry] = run.gateway.subscriptions.entries
        await until(lambda: entry.state.trouble is not None)
        assert (await run.api("DELETE", f"/subscriptions/{entry.id}/replay")).status == 200
        said = await ended(run, entry.id, "cancelled")
        assert said["replayed"] < 200
        assert entry.subscription.policy.catching_up is CatchingUp.DONE
        consumer.at(url).behaviour = accept
        await run.publish("<n>new</n>")
        got = ""
        while got != "new":
            [got] = await numbers(consumer, url, 1)


async def test_cloud_events(tmp_path: Path) -> None:
    archived(tmp_path / "archive", [row(number) for number in range(3)])
    settings = {"adapter": "embedded:", "archive": tmp_path / "archive"}
    async with running(tmp_path / "data", **settings) as run, Consumers() as consumer:
        url = consumer.fresh()
        consumer.at(url).behaviour = agreeing()
        config = {"since": f"{(row(1).time).isoformat()}/urn:1"}
        body = json.dumps({"sink": url, "protocol": "HTTP", "config": config}).encode()
        answer = await run.request(
            "POST", "/events/subscriptions", body, content_type="application/json"
        )
        assert answer.status == 201, answer.body
        assert (await consumer.next(url)).method == "OPTIONS"
        assert b"<n>2</n>" in (await consumer.next(url)).body


@pytest.mark.nightly
async def test_the_command(tmp_path: Path) -> None:
    """What is fetched comes out of the archive first, too."""
    archived(tmp_path / "archive", [row(number) for number in range(3)])
    async with running(tmp_path / "data", archive=tmp_path / "archive") as run:
        words = ("listen", "--pull", "--since", "2026-03-01", "--xpath", "/n > 0", "--count", "2")
        said = await command(run.url, *words, cwd=tmp_path)
        assert "<n>1</n>" in said and "<n>2</n>" in said and "<n>0</n>" not in said


async def test_what_is_refused(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:1/"
    future = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    async with running(tmp_path / "data", archive=tmp_path / "archive") as run:
        for position in ("yesterday", "2026-03-01T00:00:00", "", "x" * 5000):
            for body in (wse_since(nowhere, position), wsn_since(nowhere, position)):
                answer = await run.ask(SPEAKER, body)
                assert answer.status == 400 and b"position of the archive" in answer.body
        twice = wse_since(nowhere).replace(since(), since() * 2)
        assert b"several times" in (await run.ask(SPEAKER, twice)).body
        once = f'<p:Assurance xmlns:p="{DRAGOMAN_POLICY}">at-most-once</p:Assurance>'
        answer = await run.ask(SPEAKER, wse_since(nowhere).replace(since(), once + since()))
        assert b"at most once" in answer.body
        assert not list(run.gateway.subscriptions.entries)
        await run.subscribe(SPEAKER, wse_since(nowhere, future))
        [entry] = run.gateway.subscriptions.entries
        assert entry.subscription.policy.catching_up is CatchingUp.DONE
        assert (await run.api("GET", f"/subscriptions/{entry.id}/replay")).status == 404
    strangers = {"trusted": (), "archive": tmp_path / "archive"}
    async with running(tmp_path / "strangers", **strangers) as run:
        answer = await run.ask(SPEAKER, wse_since("http://consumer.example.org/"))
        assert answer.status >= 400 and b"known here" in answer.body
        assert not list(run.gateway.subscriptions.entries)
    async with running(tmp_path / "other") as run:
        assert b"--archive" in (await run.ask(SPEAKER, wse_since(nowhere))).body
