"""What flows through a gateway."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.web import topology
from gateway.web.consumer_patterns import consumers_beside
from tests.rigs.consumers import Consumers, status
from tests.rigs.envelopes import Speaker, notification_message, notify
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

SPEAKER = Speaker()


@pytest.fixture(autouse=True)
def _never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request has a look of its own."""
    monkeypatch.setattr(topology, "FRESH", 0.0)


async def topology_of(run: Running, query: str = "", expected: int = 200) -> Any:
    answer = await run.api("GET", f"/topology{query}")
    assert answer.status == expected, answer.body
    return json.loads(answer.body)


async def test_nothing_flows(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        seen = await topology_of(run)
        assert (seen["publishers"], seen["topics"], seen["flows"]) == ([], [], [])
        assert seen["more_topics"] == seen["more_consumers"] == {"number": 0, "rate": 0.0}
        assert (seen["broker"]["adapter"], seen["queues"], seen["consumers"]) == ("memory", [], [])


async def test_flows_by_dialect_topic_and_host(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumers() as consumers:
        good, bad = consumers.fresh(), "http://127.0.0.1:9/secret"
        for url in (good, good, bad):
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        for name in ("storms", "storms", "tides"):
            await run.publish("<a/>", path=f"/soap/topic/{name}")
        await run.publish(notify(notification_message("<a/>", "storms")))
        await consumers.next(good)

        async def failing() -> bool:
            return any(one["failing"] for one in (await topology_of(run))["consumers"])

        await until(failing)
        seen = await topology_of(run)
        dialects = {one["dialect"]: one for one in seen["publishers"]}
        assert set(dialects) == {"event", "wsn-1.3"}
        assert dialects["event"]["publishers"] == ["127.0.0.1"]
        rates = {(one["dialect"], one["topic"]): one["rate"] for one in seen["flows"]}
        assert set(rates) == {("event", "storms"), ("event", "tides"), ("wsn-1.3", "storms")}
        assert rates["event", "storms"] == pytest.approx(2 * rates["event", "tides"], abs=0.01)
        assert [one["topic"] for one in seen["topics"]] == ["storms", "tides"]
        hosts = {one["host"]: one for one in seen["consumers"]}
        assert "secret" not in json.dumps(seen)
        away = hosts["http://127.0.0.1:9"]
        assert (away["subscriptions"], away["failing"]) == (1, 1)
        listed = await run.api("GET", f"/subscriptions?consumer={away['consumers']}")
        assert len(json.loads(listed.body)["subscriptions"]) == 1
        [here] = [one for name, one in hosts.items() if name != "http://127.0.0.1:9"]
        assert here["subscriptions"] == 2 and here["rate"] > 0


async def test_narrowed_and_bounded(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        for number in range(5):
            url = f"http://127.0.0.{number + 2}:9/"
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
            await run.publish("<a/>", path=f"/soap/topic/t{number}")
        await run.publish(notify(notification_message("<a/>", "t0")))
        seen = await topology_of(run, "?limit=2")
        assert len(seen["topics"]) == len(seen["consumers"]) == 2
        assert seen["more_topics"]["number"] == seen["more_consumers"]["number"] == 3
        assert seen["more_topics"]["rate"] > 0
        assert any(one["topic"] is None for one in seen["flows"])
        seen = await topology_of(run, "?spec=wsn-1.3")
        assert [one["topic"] for one in seen["topics"]] == ["t0"]
        assert [one["dialect"] for one in seen["flows"]] == ["wsn-1.3"]
        assert (await topology_of(run, "?spec=unknown"))["flows"] == []
        await topology_of(run, "?limit=51", 422)


async def test_consumers_that_refuse_are_attempts(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumers() as consumers:
        url = consumers.fresh()
        consumers.at(url).behaviour = status(400)
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        await run.publish("<a/>")
        await consumers.next(url)
        await run.quiet()
        [host] = (await topology_of(run))["consumers"]
        assert host["rate"] > 0


@pytest.mark.parametrize(
    ("address", "pattern"),
    [
        ("http://consumer.example/a?b", "http://consumer.example/*"),
        ("https://me:secret@consumer.example:8443/a", "https://consumer.example:8443/*"),
        ("soap.tcp://10.0.0.7:9000", "soap.tcp://10.0.0.7:9000/*"),
        ("mailto:me@example.org", "mailto:*"),
        ("http://[broken", ""),
    ],
)
def test_patterns(address: str, pattern: str) -> None:
    assert consumers_beside(address) == pattern
