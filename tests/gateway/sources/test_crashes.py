"""Sources whose gateway is killed, whose producer restarts, and that several gateways share."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.sources.sources import FRESH
from mediation.names import WSN_1_3, WSN_BR_1_3
from tests.gateway.replicas.test_replicas import shared_out
from tests.rigs.brokers import needs_rabbitmq, rabbitmq
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import Speaker, topic_expression
from tests.rigs.gateways import manager_path, running
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.processes import GatewayProcess, gateway_process
from tests.rigs.producers import Held, Producer, Told, producers
from tests.rigs.pulled_producers import PulledProducer, event
from tests.rigs.rabbitmq_adapters import environment_of
from tests.rigs.waiting import until

pytestmark = pytest.mark.slow
PULLED = {"profile": "wsman", "resource": "urn:resource", "mode": "pull", "publish_on": "pulled"}
SECONDS = 120.0


async def add(gateway: GatewayProcess, producer: Producer, **asked: Any) -> str:
    spec = "wse-2004-08" if producer.wse else "wsn-1.3"
    body = json.dumps({"url": producer.url, "spec": spec, **asked}).encode()
    answer = await gateway.request("POST", "/api/v1/sources", body, content_type="application/json")
    assert answer.status == 201, answer.body
    return str(json.loads(answer.body)["id"])


async def stands(gateway: GatewayProcess, id_: str, *states: str) -> dict[str, Any]:
    """Wait until a source is in one of *states*; how it stands."""
    seen: dict[str, Any] = {}

    async def holds() -> bool:
        answer = await gateway.request("GET", f"/api/v1/sources/{id_}")
        seen.clear()
        seen.update(json.loads(answer.body) if answer.status == 200 else {"state": "gone"})
        return seen["state"] in states

    await until(holds, SECONDS)
    return seen


async def test_a_gateway_that_is_killed_and_starts_elsewhere(tmp_path: Path) -> None:
    """It listens on another port now: it subscribes anew at once, and ends what it had."""
    async with producers() as some, consumers() as sinks:
        producer, sink = some.add(), sinks.add()
        async with gateway_process(tmp_path / "data") as gateway:
            await gateway.subscribe(sink.url)
            id_ = await add(gateway, producer, topic="storms")
            await stands(gateway, id_, "live")
            await gateway.kill()
            held = producer.one
            await gateway.start()
            await producer.asked("Unsubscribe")
            now = await stands(gateway, id_, "live")
            assert now["manager"].endswith(producer.one.id)
            assert producer.one is not held and producer.count("Subscribe") == 2
            assert await producer.send("<e><n>1</n></e>", topic="storms") == 202
            await sink.have(1)


async def test_a_subscription_that_a_crash_left_behind_is_refused(tmp_path: Path) -> None:
    """Killed between the producer's grant and the store's commit: the key of the orphan is not
    known any more."""
    async with producers() as some:
        producer = some.add()
        granted = asyncio.Event()

        def grant_in_vain(_: Producer, told: Told) -> tuple[int, bytes] | None:
            producer._do(told)
            granted.set()
            return None  # The gateway never hears of it.

        producer.answers["Subscribe"] = grant_in_vain
        async with gateway_process(tmp_path / "data") as gateway:
            id_ = await add(gateway, producer)
            await asyncio.wait_for(granted.wait(), SECONDS)
            await gateway.kill()
            orphan = producer.one
            producer.answers.clear()
            port = gateway.port
            await gateway.start()
            await stands(gateway, id_, "live")
            assert len(producer.held) == 2
            orphan.consumer = orphan.consumer.replace(f":{port}/", f":{gateway.port}/")
            assert await producer.send("<late/>", held=orphan) == 410
            [live] = [one for one in producer.held.values() if one is not orphan]
            assert await producer.send("<there/>", held=live) == 202


@pytest.mark.nightly
async def test_what_was_to_be_removed_is_removed_after_a_crash(tmp_path: Path) -> None:
    async with producers() as some:
        producer = some.add()
        producer.answers["Unsubscribe"] = lambda *_: None
        async with gateway_process(tmp_path / "data") as gateway:
            id_ = await add(gateway, producer)
            await stands(gateway, id_, "live")
            answer = await gateway.request("DELETE", f"/api/v1/sources/{id_}")
            assert answer.status == 204
            await producer.asked("Unsubscribe")
            await gateway.kill()
            producer.answers.clear()
            await gateway.start()
            await stands(gateway, id_, "gone")
            assert not producer.held


async def test_an_orderly_stop_keeps_the_subscription(tmp_path: Path) -> None:
    async with producers() as some:
        producer = some.add(wse=True)
        async with gateway_process(tmp_path / "data") as gateway:
            id_ = await add(gateway, producer)
            await stands(gateway, id_, "live")
        assert producer.held and producer.count("Unsubscribe") == 0


async def test_a_gateway_that_is_killed_goes_on_pulling(tmp_path: Path) -> None:
    """In the context that it had, so that what it has not acknowledged comes again."""
    async with producers() as some, consumers() as sinks:
        producer, sink = some.put(PulledProducer), sinks.add()
        async with gateway_process(tmp_path / "data") as gateway:
            await gateway.subscribe(sink.url)
            id_ = await add(gateway, producer, **PULLED)
            await stands(gateway, id_, "live")
            await producer.give(event(1), event(2))
            await producer.asked("Pull", 2)
            await sink.have(2)
            await producer.give(event(3))  # Whatever becomes of it meanwhile.
            await gateway.kill()
            before = len(producer.contexts)
            await gateway.start()
            await producer.give(event(4))
            await sink.have_all(["1", "2", "3", "4"])
            assert producer.count("Subscribe") == 1
            assert producer.contexts[before] in {f"{producer.one.id}#{number}" for number in (1, 2)}


@pytest.mark.nightly
async def test_a_gateway_that_is_killed_before_it_settles_pulls_again(tmp_path: Path) -> None:
    async with producers() as some, consumers() as sinks:
        producer, sink = some.put(PulledProducer), sinks.add()
        answered = asyncio.Event()

        def lose(_: Producer, told: Told) -> tuple[int, bytes] | None:
            """The answer never arrives whole: the gateway is killed before."""
            producer._pulled(told, told.text("EnumerationContext") or "")
            answered.set()
            return None

        async with gateway_process(tmp_path / "data") as gateway:
            await gateway.subscribe(sink.url)
            producer.items.append(event(1))
            producer.answers["Pull"] = lose
            id_ = await add(gateway, producer, **PULLED)
            await asyncio.wait_for(answered.wait(), SECONDS)
            await gateway.kill()
            producer.answers.clear()
            await gateway.start()
            await sink.have_all(["1"])
            await stands(gateway, id_, "live")
            assert producer.contexts[:2] == [f"{producer.one.id}#0"] * 2


async def test_a_gateway_that_is_killed_loses_nothing_of_another_gateway(tmp_path: Path) -> None:
    """What the other one has answered is kept there until the next context is used."""
    async with running(tmp_path / "service") as service, consumers() as sinks:
        sink = sinks.add()
        async with gateway_process(tmp_path / "data") as gateway:
            await gateway.subscribe(sink.url)
            asked = {"url": f"{service.url}/wsman", "spec": "wse-2004-08", **PULLED}
            body = json.dumps(asked).encode()
            answer = await gateway.request(
                "POST", "/api/v1/sources", body, content_type="application/json"
            )
            assert answer.status == 201, answer.body
            await stands(gateway, str(json.loads(answer.body)["id"]), "live")
            for life in range(2):
                for number in range(20):
                    await service.publish(event(20 * life + number))
                await gateway.kill()  # Wherever it is with them.
                await gateway.start()
            await service.publish(event(40))
            await sink.have_all([str(number) for number in range(41)])
        assert len(service.gateway.subscriptions.entries) == 1


# Several gateways.


@contextlib.asynccontextmanager
async def two(folder: Path) -> AsyncIterator[list[GatewayProcess]]:
    """Two gateways with one store and one broker."""
    needs_rabbitmq()
    needs_postgresql()
    with fresh_database() as url:
        environment = {
            **environment_of(rabbitmq().url, f"sources-{uuid.uuid4().hex[:8]}"),
            "DRAGOMAN_STORE": url,
        }
        async with (
            gateway_process(folder / "a", environment) as a,
            gateway_process(folder / "b", environment) as b,
        ):
            await shared_out([a, b])
            yield [a, b]


async def test_of_two_gateways_one_keeps_each_source(tmp_path: Path) -> None:
    async with producers() as some, two(tmp_path) as (a, b), consumers() as sinks:
        those = [some.add() for _ in range(6)]
        sink = sinks.add()
        await a.subscribe(sink.url)
        ids = [await add((a, b)[number % 2], producer) for number, producer in enumerate(those)]
        for id_ in ids:
            for gateway in (a, b):
                await stands(gateway, id_, "live")
        assert [producer.count("Subscribe") for producer in those] == [1] * 6
        # What comes to the other gateway is as good; so is what it hears of an end.
        for number, producer in enumerate(those):
            producer.one.consumer = _at((a, b)[(number + 1) % 2], producer.one)
            assert await producer.send(f"<e><n>{number}</n></e>") == 202
        await sink.have_all([str(number) for number in range(6)])
        assert await those[0].end() == 202
        await those[0].asked("Subscribe", 2)
        # An old key is unknown to both, the other gateway learns it from the store.
        old = those[1].one
        kept = Held(old.id, old.consumer, None, old.parameters, None)
        assert await those[1].end() == 202
        await those[1].asked("Subscribe", 2)
        await stands(a, ids[1], "live")

        async def refused() -> bool:
            statuses = []
            for gateway in (a, b):
                kept.consumer = _at(gateway, kept)
                statuses.append(await those[1].send("<late/>", held=kept))
            return statuses == [410, 410]

        await until(refused, 10 * FRESH)
        # Either may be asked to remove any.
        for id_ in ids:
            await a.request("DELETE", f"/api/v1/sources/{id_}")
        for id_ in ids:
            await stands(b, id_, "gone")
        assert not any(producer.held for producer in those)


@pytest.mark.nightly
async def test_another_gateway_goes_on_with_the_same_subscription(tmp_path: Path) -> None:
    """However long it takes to miss the other: producers that say nothing of a lease are asked to
    renew it, and their subscriptions are never over."""
    async with producers() as some, two(tmp_path) as (a, b):
        those = [some.add() for _ in range(4)]
        for producer in those:
            producer.grants = None
        ids = [await add(b, producer, lease=4) for producer in those]
        for id_ in ids:
            await stands(b, id_, "live")
        await a.kill()
        renewed = [producer.count("Renew") for producer in those]
        try:
            for producer, number in zip(those, renewed, strict=True):
                await producer.asked("Renew", number + 2)
            for id_ in ids:
                await stands(b, id_, "live", "renewing")
            assert [producer.count("Subscribe") for producer in those] == [1] * 4
        finally:
            await a.start()


@pytest.mark.nightly
async def test_one_gateway_pulls_and_another_one_goes_on(tmp_path: Path) -> None:
    async with producers() as some, two(tmp_path) as (a, b), consumers() as sinks:
        those = [some.put(PulledProducer) for _ in range(4)]
        sink = sinks.add()
        await b.subscribe(sink.url)
        for producer in those:
            id_ = await add(a, producer, **PULLED)
            await stands(b, id_, "live")
        for number, producer in enumerate(those):
            await producer.give(event(number))
            await producer.asked("Pull", 2)
        await sink.have_all([str(number) for number in range(4)])
        for producer in those:
            assert producer.contexts == [f"{producer.one.id}#{number}" for number in range(2)]
        await a.kill()
        try:
            for number, producer in enumerate(those, 4):
                await producer.give(event(number))
            await sink.have_all([str(number) for number in range(8)])
            assert [producer.count("Subscribe") for producer in those] == [1] * 4
        finally:
            await a.start()


async def test_demand_is_followed_once(tmp_path: Path) -> None:
    """A publisher registers at one gateway, and who wants what it has subscribes at the other."""
    async with producers() as some, two(tmp_path) as (a, b), consumers() as sinks:
        those = [some.add() for _ in range(3)]
        for number, producer in enumerate(those):
            answer = await (a, b)[number % 2].ask(
                f'<b:RegisterPublisher xmlns:b="{WSN_BR_1_3}"><b:PublisherReference>'
                f"{Speaker().epr(producer.url)}</b:PublisherReference><b:Topic>t{number}</b:Topic>"
                "<b:Demand>true</b:Demand></b:RegisterPublisher>"
            )
            assert answer.status == 200, answer.body
        managers = []
        for number in range(3):
            body = Speaker().wsn_subscribe(sinks.add().url, filter=topic_expression(f"t{number}"))
            answer = await (b, a)[number % 2].ask(body)
            managers.append(manager_path(answer.message))
        for producer in those:
            await producer.asked("Subscribe")
        unsubscribe = f'<n:Unsubscribe xmlns:n="{WSN_1_3}"/>'
        for manager in managers:
            assert (await a.ask(unsubscribe, manager)).status == 200
        for producer in those:
            await producer.asked("PauseSubscription")
        listed = json.loads((await b.request("GET", "/api/v1/sources")).body)["sources"]
        for source in listed:
            await stands(b, source["id"], "paused")
        for producer in those:
            assert [one.operation for one in producer.told] == ["Subscribe", "PauseSubscription"]


def _at(gateway: GatewayProcess, held: Held) -> str:
    return f"{gateway.url}/{held.consumer.split('/', 3)[3]}"
