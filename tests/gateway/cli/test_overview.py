"""``dragoman overview``."""

import json
from pathlib import Path

import pytest

from gateway.web import overview
from tests.rigs.consumers import Consumers, status
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running
from tests.rigs.programs import command
from tests.rigs.waiting import until

SPEAKER = Speaker()


@pytest.mark.slow
async def test_the_state_of_a_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "FRESH", 0.0)
    async with running(tmp_path / "data") as run, Consumers() as consumer:
        bad = consumer.fresh()
        consumer.at(bad).behaviour = status(400, b"no such patient")
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(bad))
        await run.publish("<a/>")

        async def died() -> bool:
            return (await run.gateway.dispatchers.conservation()).dead_letters == 1

        await until(died)
        text = await command(run.url, "overview", cwd=tmp_path)
        assert "sqlite, writable" in text and "1, 1 failing" in text
        assert "no such patient" in text and "rejected" in text
        found = json.loads(await command(run.url, "overview", "--output", "json", cwd=tmp_path))
        assert found["dead_letters"]["by_reason"][0]["reason"] == "rejected"
