"""Sources against producers on real sockets."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running
from tests.rigs.producers import Producer, Producers, producers
from tests.rigs.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def some() -> AsyncIterator[Producers]:
    async with producers() as those:
        yield those


async def add(gateway: Running, producer: Producer, **asked: Any) -> str:
    """Add *producer* as a source; its id."""
    spec = "wse-2004-08" if producer.wse else "wsn-1.3"
    body = json.dumps({"url": producer.url, "spec": spec, **asked}).encode()
    answer = await gateway.api("POST", "/sources", body)
    assert answer.status == 201, answer.body
    return str(json.loads(answer.body)["id"])


async def shown(gateway: Running, id_: str) -> dict[str, Any]:
    answer = await gateway.api("GET", f"/sources/{id_}")
    assert answer.status == 200, answer.body
    return dict(json.loads(answer.body))


async def state(gateway: Running, id_: str, wanted: str) -> dict[str, Any]:
    """Wait until a source is in a state; how it stands."""
    seen: dict[str, Any] = {}

    async def holds() -> bool:
        seen.update(await shown(gateway, id_))
        return bool(seen["state"] == wanted)

    await until(holds)
    return seen


@pytest.mark.parametrize("wse", [False, True])
async def test_what_a_producer_sends_is_published(
    gateway: Running, consumer: Consumers, some: Producers, wse: bool
) -> None:
    producer = some.add(wse=wse)
    url = consumer.fresh()
    await gateway.subscribe(Speaker(), Speaker().wse_subscribe(url))
    id_ = await add(gateway, producer, publish_on="storms/coast")
    await state(gateway, id_, "live")
    assert await producer.send("<w xmlns='urn:w'>120</w>") == 202
    receipt = await consumer.next(url)
    assert receipt.payload.text == "120"
    assert receipt.topic is not None and receipt.topic.text == "storms/coast"
    assert await producer.send("<w xmlns='urn:w'>130</w>", topic="own") == 202
    receipt = await consumer.next(url)
    assert receipt.topic is not None and receipt.topic.text == "own"
    now = await shown(gateway, id_)
    assert now["events"] == 2 and now["last_event"] is not None


async def test_an_address_with_another_key_is_gone(gateway: Running, some: Producers) -> None:
    producer = some.add()
    id_ = await add(gateway, producer)
    await state(gateway, id_, "live")
    old = producer.one.consumer
    producer.one.consumer = old[:-1] + ("0" if old[-1] != "0" else "1")
    assert await producer.send("<w/>") == 410


async def test_a_lease_is_renewed_in_time(gateway: Running, some: Producers) -> None:
    producer = some.add()
    producer.grants = "PT2S"
    id_ = await add(gateway, producer)
    renew = await producer.asked("Renew")
    assert renew.text("TerminationTime") == "PT1H"
    await producer.asked("Renew", 2)
    assert (await state(gateway, id_, "live"))["failures"] == 0
    assert producer.count("Subscribe") == 1


async def test_a_fault_to_renew_means_that_it_is_gone(gateway: Running, some: Producers) -> None:
    producer = some.add(wse=True)
    producer.grants = "PT2S"
    id_ = await add(gateway, producer)
    await producer.asked("Subscribe")
    first = producer.one.consumer
    producer.forget()
    await producer.asked("Subscribe", 2)
    now = await state(gateway, id_, "live")
    assert "Unknown subscription" in now["last_error"]
    assert producer.one.consumer != first


@pytest.mark.parametrize("wse", [False, True])
async def test_an_end_is_followed_by_another_subscription(
    gateway: Running, some: Producers, wse: bool
) -> None:
    producer = some.add(wse=wse)
    id_ = await add(gateway, producer)
    await state(gateway, id_, "live")
    assert await producer.end() == 202
    await producer.asked("Subscribe", 2)
    await state(gateway, id_, "live")
    assert producer.count("Unsubscribe") == 0


async def test_who_is_removed_is_told(gateway: Running, some: Producers) -> None:
    producer = some.add()
    id_ = await add(gateway, producer)
    await state(gateway, id_, "live")
    answer = await gateway.api("DELETE", f"/sources/{id_}")
    assert answer.status == 204
    await producer.asked("Unsubscribe")
    assert not producer.held

    async def gone() -> bool:
        return (await gateway.api("GET", f"/sources/{id_}")).status == 404

    await until(gone)
