"""The overview of a gateway."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from gateway.web import overview
from tests.rigs.certificates import Authority
from tests.rigs.consumers import Consumers, status
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import DEADLINE, until

SPEAKER = Speaker()


@pytest.fixture(autouse=True)
def _never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request has an overview of its own."""
    monkeypatch.setattr(overview, "FRESH", 0.0)


async def overview_of(run: Running) -> Any:
    answer = await run.api("GET", "/overview")
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


async def test_a_gateway_at_rest(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        seen = await overview_of(run)
        assert seen["store"] == {"kind": "sqlite", "writable": True}
        assert seen["broker"]["adapter"] == "memory"
        assert seen["now"] == {"waiting": 0, "oldest": None, "in_flight": 0}
        assert seen["failing"] == {"subscriptions": 0, "hosts": 0, "first": []}
        assert seen["dead_letters"]["by_reason"] == []
        assert 0 < seen["disk"]["reserve"] < seen["disk"]["size"]
        assert (seen["replica"], seen["replicas"], seen["certificates"]) == (None, 1, [])


async def test_what_waits_died_and_fails(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumers() as consumer:
        bad, good = consumer.fresh(), consumer.fresh()
        consumer.at(bad).behaviour = status(400)
        nobody = "http://127.0.0.1:9/secret-path"
        for url in (bad, good, nobody, nobody):
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        await run.publish("<a/>")
        await consumer.next(good)

        async def seen() -> bool:
            found = await overview_of(run)
            return bool(found["failing"]["subscriptions"] >= 2 and found["now"]["waiting"] == 2)

        await until(seen)
        found = await overview_of(run)
        hosts = {one["host"]: one for one in found["failing"]["first"]}
        away = hosts["http://127.0.0.1:9"]
        assert (away["subscriptions"], away["waiting"]) == (2, 2)
        assert "refused" in away["last_error"] and away["next_attempt"] > away["last_error_at"]
        assert found["dead_letters"]["by_reason"] == [
            {"reason": "rejected", "kept": 1, "last_hour": 1}
        ]
        assert found["now"]["oldest"] is not None
        assert "secret-path" not in json.dumps(found)


async def test_certificates_and_their_days(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("consumer", days=20)
    settings = {"egress_certificate": certificate, "egress_key": key}
    async with running(tmp_path / "data", **settings) as run:
        [seen] = (await overview_of(run))["certificates"]
        assert (seen["use"], seen["file"], seen["days"]) == ("consumers", str(certificate), 19)
        certificate.unlink()
        [seen] = (await overview_of(run))["certificates"]
        assert (seen["until"], seen["days"]) == (None, None)


async def test_rates_are_of_what_came_and_went(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumers() as consumer:
        url = consumer.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        for _ in range(3):
            await run.publish("<a/>")
            await consumer.next(url)
        await run.quiet()
        assert (await run.post(b"<a")).status >= 400
        assert (await overview_of(run))["rates"]["accepted"] == []
        run.gateway.rates.look()
        rates = (await overview_of(run))["rates"]
        assert len({len(value) for value in rates.values() if isinstance(value, list)}) == 1
        [accepted], [delivered], [failed] = rates["accepted"], rates["delivered"], rates["failed"]
        assert accepted == delivered > 0 == failed
        assert rates["refused"][0] > 0
        assert 0 < rates["p50"][0] <= rates["p99"][0]


async def test_a_store_that_stands_still_is_told(tmp_path: Path) -> None:
    """The rest of the overview does not wait for it."""
    async with running(tmp_path) as run:
        go_on, begun = threading.Event(), threading.Event()

        def operation(_: Connection) -> None:
            begun.set()
            assert go_on.wait(DEADLINE)

        standing = run.gateway.store.submit(operation)
        await until(begun.is_set)
        seen = await overview_of(run)
        assert (seen["now"], seen["dead_letters"], seen["spool"]) == (None, None, None)
        assert seen["failing"]["hosts"] == 0
        go_on.set()
        await standing
        assert (await overview_of(run))["now"]["waiting"] == 0
