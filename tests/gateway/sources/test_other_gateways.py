"""Another Dragoman as the producer: every specification with a client, and both directions."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from mediation.client import SPECS
from mediation.model.versions import Soap, Version
from tests.gateway.sources.test_sources import shown, state
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import WSNT, Speaker, notification_message, notify, topic_expression
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
SPOKEN = [version for version, spec in SPECS.items() if isinstance(spec.form, Soap)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def other(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """A second gateway."""
    async with running(tmp_path_factory.mktemp("other")) as run:
        yield run


async def add(at: Running, producer: Running, version: Version, topic: str) -> str:
    asked = {"url": f"{producer.url}/soap", "spec": version.value, "topic": topic}
    answer = await at.api("POST", "/sources", json.dumps(asked).encode())
    assert answer.status == 201, answer.body
    return str(json.loads(answer.body)["id"])


async def listen(gateway: Running, url: str, topic: str) -> None:
    await gateway.subscribe(Speaker(), Speaker().wsn_subscribe(url, filter=topic_expression(topic)))


async def publish(gateway: Running, topic: str, number: int) -> None:
    event = f"<e xmlns='urn:e'><n>{number}</n></e>"
    await gateway.publish(notify(notification_message(event, topic)))


@pytest.mark.parametrize("version", SPOKEN, ids=lambda version: version.value)
async def test_every_specification(
    gateway: Running, other: Running, consumer: Consumers, version: Version
) -> None:
    topic, url = f"from-{version.name}", consumer.fresh()
    await listen(gateway, url, topic)
    id_ = await add(gateway, other, version, topic)
    live = await state(gateway, id_, "live")
    assert live["expires"] is not None or version in (Version.WSN_1_0, Version.WSN_1_2)
    await publish(other, topic, 7)
    receipt = await consumer.next(url)
    assert receipt.number == "7"
    assert receipt.topic is not None and (receipt.topic.text or "").endswith(topic)
    [held] = [
        one
        for one in json.loads((await other.api("GET", "/subscriptions?limit=1000")).body)[
            "subscriptions"
        ]
        if one["topics"] and one["topics"][0].endswith(topic)
    ]
    assert held["spec"] == version.value
    await gateway.api("DELETE", f"/sources/{id_}")

    async def gone() -> bool:
        answer = await other.api("GET", f"/subscriptions/{held['id']}")
        return answer.status == 404

    await until(gone)


async def test_an_operator_of_the_producer_ends_it_and_it_comes_back(
    gateway: Running, other: Running
) -> None:
    id_ = await add(gateway, other, Version.WSE_2004_08, "ended")
    before = await state(gateway, id_, "live")
    listed = json.loads((await other.api("GET", "/subscriptions?limit=1000")).body)
    [held] = [one for one in listed["subscriptions"] if one["topics"] == ["ended"]]
    await other.api("DELETE", f"/subscriptions/{held['id']}")

    async def again() -> bool:
        now = await shown(gateway, id_)
        return bool(now["state"] == "live" and now["manager"] != before["manager"])

    await until(again)
    assert "ended" in (await shown(gateway, id_))["last_error"]


async def test_two_gateways_are_sources_of_each_other(
    gateway: Running, other: Running, consumer: Consumers
) -> None:
    """Each takes every event in once, whoever published it: what comes back ends there."""
    ids = [
        await add(gateway, other, Version.WSN_1_3, "both"),
        await add(other, gateway, Version.WSN_1_3, "both"),
    ]
    for at, id_ in zip((gateway, other), ids, strict=True):
        await state(at, id_, "live")
    urls = [consumer.fresh(), consumer.fresh()]
    for at, url in zip((gateway, other), urls, strict=True):
        await listen(at, url, "both")
    await publish(gateway, "both", 1)
    await publish(other, "both", 2)
    for url in urls:
        assert {(await consumer.next(url)).number for _ in range(2)} == {"1", "2"}
    await gateway.quiet()
    await other.quiet()
    assert [consumer.waiting(url) for url in urls] == [0, 0]
    events = [
        (await shown(at, id_))["events"] for at, id_ in zip((gateway, other), ids, strict=True)
    ]
    assert max(events) <= 2


async def test_a_gateway_that_was_away_is_subscribed_at_again(
    gateway: Running, consumer: Consumers, tmp_path: Path
) -> None:
    url = consumer.fresh()
    await listen(gateway, url, "away")
    async with running(tmp_path / "first") as producer:
        id_ = await add(gateway, producer, Version.WSN_1_3, "away")
        before = await state(gateway, id_, "live")
        assert before["failures"] == 0
        element = f"{{{WSNT}}}Notify"
        await publish(producer, "away", 1)
        receipt = await consumer.next(url)
        assert receipt.message.body[0].tag == element
