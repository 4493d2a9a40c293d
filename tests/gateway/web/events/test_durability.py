"""CloudEvents that are held, die, are sent again, and survive kill -9."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.cloudevents import (
    BATCH,
    STRUCTURED,
    agreeing,
    event,
    publish,
    received,
    subscribed,
)
from tests.rigs.consumers import Consumers, status
from tests.rigs.gateways import Running, running
from tests.rigs.processes import GatewayProcess, gateway_process
from tests.rigs.waiting import until

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SETTINGS = {"adapter": "embedded:", "egress_allow": "127.0.0.0/8", "retry_delays": "0.05"}
FULL = {
    "topic": "{urn:w}tides/north",
    "subject": "gauge 7 \u20ac",
    "n": 5,
    "time": "2026-03-01T11:00:00Z",
    "datacontenttype": "application/json",
    "data": {"level": [1.5, None, "\u20ac"]},
}


async def letters(run: Running) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((await run.api("GET", "/deadletters")).body)[
        "dead_letters"
    ]
    return found


async def test_a_dead_letter_is_shown_and_sent_again(tmp_path: Path) -> None:
    async with running(tmp_path, **SETTINGS) as run, Consumers() as consumer:
        sink = consumer.add(agreeing(status(400)))
        await subscribed(run, sink, protocolsettings={"secret": SECRET})
        sent = event(**FULL)
        await publish(run, sent)
        first = await sink.next()
        await run.quiet()
        [letter] = await letters(run)
        shown = json.loads((await run.api("GET", f"/deadletters/{letter['number']}")).body)
        assert json.loads(shown["envelope"]["text"]) == sent
        assert SECRET.removeprefix("whsec_") not in json.dumps(shown)
        sink.behaviour = agreeing()
        await run.api("POST", "/deadletters/redrive", b'{"all": true}')
        again = await sink.next()
        assert received(again) == received(first) == sent
        assert again.headers["webhook-id"] == first.headers["webhook-id"]
        await run.quiet()
        assert await letters(run) == []


async def test_what_waits_survives_a_restart(tmp_path: Path) -> None:
    """In the mode and the form that its subscriber asked for."""
    async with Consumers() as consumer:
        away = agreeing(status(503))
        sinks = {mode: consumer.add(away) for mode in ("binary", "structured", "batched")}
        async with running(tmp_path, **SETTINGS | {"retry_delays": "0.5"}) as run:
            for mode, sink in sinks.items():
                await subscribed(run, sink, protocolsettings={"mode": mode, "data": "json"})
            sent = event(**FULL)
            await publish(run, sent)
            for sink in sinks.values():
                await sink.next()
        for sink in sinks.values():
            sink.behaviour = agreeing()
            sink.taken = sink.count
        async with running(tmp_path, **SETTINGS | {"retry_delays": "0.5"}) as run:
            binary = await sinks["binary"].next()
            assert json.loads(binary.body) == sent["data"]
            assert binary.headers["ce-subject"] == "gauge%207%20%E2%82%AC"
            assert received(await sinks["structured"].next()) == sent
            batched = await sinks["batched"].next()
            assert batched.headers["content-type"] == BATCH
            assert json.loads(batched.body) == [sent]
            await run.quiet()


async def post(gateway: GatewayProcess, value: object, type: str, path: str = "/events") -> int:
    """The status of the answer; 0 where there was none."""
    body = json.dumps(value).encode()
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        return (await gateway.request("POST", path, body, content_type=type)).status
    return 0


@pytest.mark.slow
async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    async with Consumers() as consumer, gateway_process(tmp_path / "data") as gateway:
        sink, batches = consumer.add(agreeing()), consumer.add(agreeing())
        for one, mode in ((sink, "structured"), (batches, "batched")):
            wanted = {"sink": one.url, "protocol": "HTTP", "protocolsettings": {"mode": mode}}
            made = await post(gateway, wanted, "application/json", "/events/subscriptions")
            assert made == 201

        async def publish_for_ever() -> None:
            while True:
                await gateway.up.wait()
                events = [event(data=1), event(data=2)]
                if await post(gateway, events, BATCH) == 202:
                    acknowledged.update(one["id"] for one in events)

        publishing = [asyncio.create_task(publish_for_ever()) for _ in range(3)]
        for _ in range(3):
            before = len(acknowledged)
            await until(lambda before=before: len(acknowledged) > before + 40)  # type: ignore[misc]
            await gateway.kill()
            await gateway.start()
        for task in publishing:
            task.cancel()
        await asyncio.gather(*publishing, return_exceptions=True)
        await gateway.at_rest()
        structured = {
            received(one)["id"]
            for one in sink.received
            if one.headers.get("content-type") == STRUCTURED
        }
        batched = {
            one["id"]
            for receipt in batches.received
            if receipt.headers.get("content-type") == BATCH
            for one in json.loads(receipt.body)
        }
        assert acknowledged - structured == set()
        assert acknowledged - batched == set()
