"""The tap: what passes, in the API and on the command line."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.client import Administration, GatewayError
from gateway.http import protocol
from gateway.observing import taps
from gateway.web.views.tap import TapMessage, write_tap_message
from tests.rigs.consumers import Consumers, status
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.programs import command
from tests.rigs.waiting import DEADLINE, until

SPEAKER = Speaker()


@asynccontextmanager
async def watching(run: Running, **wanted: Any) -> AsyncIterator[AsyncIterator[Any]]:
    """What a watcher is told, who watches from now on."""
    before = len(run.gateway.dispatchers.scheduler.taps.watchers)
    async with (
        Administration(run.url) as administration,
        aclosing(administration.tap(**wanted)) as events,
    ):
        first = asyncio.ensure_future(anext(events))
        taps_ = run.gateway.dispatchers.scheduler.taps
        await run.until(lambda: len(taps_.watchers) > before)

        async def told() -> AsyncIterator[Any]:
            async with asyncio.timeout(DEADLINE):
                yield await first
                async for one in events:
                    yield one

        yield told()
        first.cancel()


async def test_what_became_of_a_message(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumers() as consumer:
        good, bad = consumer.fresh(), consumer.fresh()
        consumer.at(bad).behaviour = status(400)
        for url in (good, bad):
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        async with watching(run) as told:
            await run.publish("<secret>1</secret>", path="/soap/topic/storms", message_id="urn:m")
            name, seen = await anext(told)
            assert name == "message"
            described = TapMessage.model_validate(seen).model_dump(mode="json")
            assert described | {"at": seen["at"]} == seen
            assert (seen["id"], seen["topic"], seen["matched"]) == ("urn:m", "storms", 2)
            assert (seen["delivered"], seen["payload"]) == (1, None)
            assert "secret" not in json.dumps(seen)
            verdicts = sorted((one["verdict"], one["status"]) for one in seen["attempts"])
            assert verdicts == [("delivered", 202), ("rejected", 400)]
        await until(lambda: not run.gateway.dispatchers.scheduler.taps.watchers)


async def test_topics_xpath_and_payloads(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        wanted = {"topic": "w:storms//.", "xpath": "/w:s[@level > 3]", "ns": ["w=urn:w"]}
        async with watching(run, **wanted, payload="true") as told:
            for topic, level in (("storms", 1), ("calm", 5), ("storms/coast", 5), ("storms", 9)):
                await run.publish(
                    f'<s xmlns="urn:w" level="{level}"/>', path=f"/soap/topic/%7Burn:w%7D{topic}"
                )
            seen = [(await anext(told))[1] for _ in range(2)]
            assert [one["topic"] for one in seen] == ["{urn:w}storms/coast", "{urn:w}storms"]
            assert 'level="9"' in seen[1]["payload"]["text"]
            assert (seen[1]["matched"], seen[1]["by"] is not None) == (0, True)


async def test_masked_fields_are_not_shown(tmp_path: Path) -> None:
    async with (
        running(tmp_path, console_mask=["ssn"]) as run,
        watching(run, payload="true") as told,
    ):
        await run.publish("<a><ssn>123-45</ssn><b>1</b></a>")
        _, seen = await anext(told)
        assert seen["payload"]["text"] == "<a><ssn>***</ssn><b>1</b></a>"


async def test_who_reads_slowly_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here there is room for nothing."""
    bounds = {"sample": 1.0, "messages": 0, "octets": 100}
    monkeypatch.setattr(taps.Watcher.__init__, "__kwdefaults__", bounds)
    async with running(tmp_path) as run, watching(run) as told:
        for _ in range(5):
            await run.publish("<a/>")
        async for name, seen in told:
            assert name == "lost"
            if seen == {"passed_over": 0, "dropped": 5, "not_evaluated": 0}:
                break


async def test_what_cannot_be_watched(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        for query in ("topic=%2F%2F%2F", "xpath=%2Fa%5B", "ns=x", "sample=0", "sample=2"):
            answer = await run.api("GET", f"/tap?{query}")
            assert 400 <= answer.status < 500, query
        async with Administration(run.url) as administration:
            with pytest.raises(GatewayError, match="not"):
                async for _ in administration.tap(xpath="/w:a"):
                    pass
            run.gateway.dispatchers.scheduler.taps.most = 0
            with pytest.raises(GatewayError, match="watch already") as caught:
                async for _ in administration.tap():
                    pass
            assert caught.value.status == 503


def test_what_passes_is_written_on_one_line() -> None:
    """Whatever a consumer said: also half a character."""
    for error in ("no\nroom", "\u2028", "\ud800"):
        record = {"error": error, "at": datetime(2026, 11, 27, tzinfo=UTC)}
        written = write_tap_message(record)
        assert "\n" not in written and json.loads(written)["error"] == error


@pytest.mark.parametrize("way", ["half", "whole"])
async def test_who_leaves_watches_no_more(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: it would count among the eight that may watch, for the time that others who close
    their side of a connection have to read their answer, which here is long."""
    monkeypatch.setattr(protocol.HardenedProtocol, "_leave", lambda _: None)
    async with running(tmp_path) as run:
        reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
        writer.write(b"GET /api/v1/tap HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b"retry: ")
        watchers = run.gateway.dispatchers.scheduler.taps.watchers
        assert len(watchers) == 1
        if way == "half":
            writer.write_eof()
        else:
            writer.close()
        await until(lambda: not watchers)
        writer.close()


@pytest.mark.slow
async def test_the_command(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as run, Consumers() as consumer:
        bad = consumer.fresh()
        consumer.at(bad).behaviour = status(400)
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(bad))
        tail = asyncio.create_task(
            command(run.url, "tail", "storms", "--count", "1", "--payload", cwd=tmp_path)
        )
        scheduler = run.gateway.dispatchers.scheduler
        await until(lambda: bool(scheduler.taps.watchers))
        await run.publish("<a>1</a>", path="/soap/topic/storms")
        text = await tail
        assert "storms" in text and "1 matched" in text and "<a>1</a>" in text
        assert "answered 400 Bad Request" in text
