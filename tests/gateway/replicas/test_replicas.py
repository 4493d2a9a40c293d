"""Several gateways with one PostgreSQL and one RabbitMQ: what one answers, all keep."""

import asyncio
import contextlib
import functools
import json
import random
import signal
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.delivery.settlement import COUNTED
from mediation.names import WSE_2004_08 as WSE
from mediation.names import WSN_1_3 as WSN
from tests.gateway.security.test_http_digest import Signed, nonces_of
from tests.gateway.security.test_http_digest import make_file as make_digests
from tests.gateway.server.test_kill import more_acknowledged
from tests.gateway.soap.test_username_tokens import digested, make_file
from tests.rigs.brokers import RabbitMQ, needs_rabbitmq, rabbitmq
from tests.rigs.consumers import Consumer, accept, consumers, status
from tests.rigs.envelopes import Answer, Speaker, fresh_id
from tests.rigs.gateways import manager_path
from tests.rigs.outage_traffic import judge
from tests.rigs.postgresql import PostgreSQL, needs_postgresql, postgresql_cluster
from tests.rigs.processes import GatewayProcess, Publisher, gateway_process, publishing
from tests.rigs.rabbitmq_adapters import environment_of
from tests.rigs.stores import check_store, execute
from tests.rigs.system_events import listen_to_system_events, system_event
from tests.rigs.waiting import until

needs_rabbitmq()
needs_postgresql(allow_module_level=True)

SECONDS = 120.0
RATE = 60.0
"""Messages a second, each for three consumers, while a gateway is killed."""
TAKEOVER = 120.0
PREFETCH = 64


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return rabbitmq()


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgreSQL]:
    with postgresql_cluster() as one:
        yield one


@pytest.fixture
def environment(broker: RabbitMQ, cluster: PostgreSQL) -> dict[str, str]:
    """What gateways have in common."""
    name = f"replicas-{uuid.uuid4().hex[:8]}"
    return {
        **environment_of(broker.url, name),
        "DRAGOMAN_STORE": cluster.url(cluster.make_database()),
        "DRAGOMAN_RETRY_DELAYS": ",".join(["0.5"] * 4),
    }


@contextlib.asynccontextmanager
async def replicas(
    folder: Path, environment: dict[str, str], count: int = 2
) -> AsyncIterator[list[GatewayProcess]]:
    """That many gateways, once the work is shared out; the store is sound afterwards."""
    async with AsyncExitStack() as stack:
        those = [
            await stack.enter_async_context(gateway_process(folder / name, environment))
            for name in "abc"[:count]
        ]
        await shared_out(those)
        yield those
    check_store(environment["DRAGOMAN_STORE"])


async def partitions(gateway: GatewayProcess) -> set[int]:
    state = json.loads((await gateway.request("GET", "/readyz")).body)
    return {int(partition) for partition in state["partitions"]}


async def holds_none(gateway: GatewayProcess) -> bool:
    return not await partitions(gateway)


async def shared_out(those: list[GatewayProcess], seconds: float = SECONDS) -> None:
    """Wait until each has its share, and all together have all."""
    fair = -(-16 // len(those))
    held: list[set[int]] = []

    async def fairly() -> bool:
        held[:] = [await partitions(one) for one in those]
        return max(map(len, held)) <= fair and sum(map(len, held)) == 16

    await until(fairly, seconds)
    assert set.union(*held) == set(range(16))


async def all_quiet(those: list[GatewayProcess]) -> dict[str, float]:
    for one in those:
        metrics = await one.at_rest()
    return metrics


def delivered_to(those: list[Consumer]) -> int:
    return sum(len(set(one.numbers)) for one in those)


async def test_subscribe_at_one_publish_at_the_other(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """What is published after the SubscribeResponse is delivered, what after the
    UnsubscribeResponse is not, wherever each of them is asked for."""
    async with consumers() as sinks, replicas(tmp_path, environment) as (a, b):
        publishers = [Publisher(b, name, path=f"/soap/topic/of-{name}") for name in "abcd"]
        going = [asyncio.create_task(one.run(100.0)) for one in publishers]
        for turn in range(4):  # Each pair of where it is made and where it is ended.
            consumer = sinks.add()
            manager = await (a, b)[turn % 2].subscribe(consumer.url)
            after = {one._name: one._next for one in publishers}

            def due(after: dict[str, int] = after) -> list[str]:
                acknowledged = [number for one in publishers for number in one.acknowledged]
                return [one for one in acknowledged if int(one[1:]) > after[one[0]]]

            await until(lambda due=due: len(due()) > 20, SECONDS)  # type: ignore[misc]
            await consumer.have_all(due())
            answer = await (b, a)[turn // 2 % 2].ask(f'<e:Unsubscribe xmlns:e="{WSE}"/>', manager)
            assert answer.status == 200
            last = {one._name: one._next for one in publishers}
            await more_acknowledged(publishers, 20)
            late = [number for number in consumer.numbers if int(number[1:]) > last[number[0]]]
            assert not late
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)
        for one in publishers:
            one.close()
        await all_quiet([a, b])
    assert execute(environment["DRAGOMAN_STORE"], "SELECT count(*) FROM held") == [(0,)]


@pytest.mark.nightly  # 150 s: files of the other gateway's archive are waited for.
async def test_a_subscription_that_begins_with_the_archive(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Which both write, while both publish: it misses nothing, and gets each once."""
    shared = environment | {"DRAGOMAN_ARCHIVE": str(tmp_path / "archive")}
    async with consumers() as sinks, replicas(tmp_path, shared) as (a, b):
        publishers = [
            Publisher(one, name, path=f"/soap/topic/of-{name}")
            for one, names in ((a, "cd"), (b, "ef"))
            for name in names
        ]
        going = [asyncio.create_task(one.run(20.0)) for one in publishers]
        await more_acknowledged(publishers, 100)
        consumer = sinks.add()
        since = '<p:Since xmlns:p="urn:dragoman:policy:1">2026-01-01T00:00:00Z</p:Since>'
        body = Speaker().wse_subscribe(consumer.url)
        answer = await b.ask(body.replace("</e:Delivery>", f"{since}</e:Delivery>"))
        assert answer.status == 200, answer.body
        [one] = json.loads((await b.request("GET", "/api/v1/subscriptions")).body)["subscriptions"]

        async def has_caught_up() -> bool:
            path = f"/api/v1/subscriptions/{one['id']}/replay"
            return bool(json.loads((await b.request("GET", path)).body)["state"] == "done")

        await until(has_caught_up, 2 * SECONDS)
        await more_acknowledged(publishers, 100)
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)
        for publisher in publishers:
            publisher.close()
        published = [number for publisher in publishers for number in publisher.acknowledged]
        await consumer.have_all(published)
        await all_quiet([a, b])
        assert set(published) <= set(consumer.numbers)
        assert [number for number, times in Counter(consumer.numbers).items() if times > 1] == []


async def test_one_is_killed(environment: dict[str, str], tmp_path: Path) -> None:
    """In traffic: nothing is lost, everything in its order, and the other has its work soon."""
    async with consumers() as sinks, replicas(tmp_path, environment) as (a, b):
        those = [sinks.add(keep=False) for _ in range(3)]
        for consumer in those:
            await a.subscribe(consumer.url)
        async with publishing(b, RATE, publishers=8, topics=True) as publishers:
            await those[0].have(100, SECONDS)
            await a.kill()
            await shared_out([b], TAKEOVER)
            await more_acknowledged(publishers, 50)
        for consumer in those:
            await consumer.have_all([one for all in publishers for one in all.acknowledged])
        metrics = await b.at_rest()
        assert judge(publishers, those) <= 3 * PREFETCH
        # A crash forgets the counts of its last moment, of both sides of the equation.
        forgotten = 3 * 2 * RATE * COUNTED
        assert metrics["delivered_total"] >= delivered_to(those) - forgotten
        await a.start()


@pytest.mark.nightly
async def test_one_is_frozen(environment: dict[str, str], tmp_path: Path) -> None:
    """Others take its work; when it goes on it leaves their messages alone."""
    async with consumers() as sinks, replicas(tmp_path, environment) as (a, b):
        those = [sinks.add(keep=False) for _ in range(3)]
        for consumer in those:
            await a.subscribe(consumer.url)
        async with publishing(b, 100.0, publishers=8, topics=True) as publishers:
            await those[0].have(100, SECONDS)
            assert a.process is not None
            a.process.send_signal(signal.SIGSTOP)
            await shared_out([b], TAKEOVER)
            await more_acknowledged(publishers, 50)
            a.process.send_signal(signal.SIGCONT)
            await shared_out([a, b])
            await more_acknowledged(publishers, 50)
        for consumer in those:
            await consumer.have_all([one for all in publishers for one in all.acknowledged])
        await all_quiet([a, b])
        assert judge(publishers, those) <= 3 * PREFETCH
        assert "partition.lost" in a.log.read_text()


@pytest.mark.nightly
async def test_one_comes_and_one_goes(environment: dict[str, str], tmp_path: Path) -> None:
    """In traffic: shares are evened out, nothing comes twice, and all is in its order."""
    async with consumers() as sinks, replicas(tmp_path, environment) as (a, b):
        those = [sinks.add(keep=False) for _ in range(3)]
        for consumer in those:
            await b.subscribe(consumer.url)
        async with publishing(b, 100.0, publishers=8, topics=True) as publishers:
            async with gateway_process(tmp_path / "c", environment) as c:
                await shared_out([a, b, c])
            await shared_out([a, b])
            assert await a.end() == 0
            await shared_out([b])
        for consumer in those:
            await consumer.have_all([one for all in publishers for one in all.acknowledged])
        await b.at_rest()
        # A machine that is too busy for signs of life makes a gateway lose what it holds.
        lost = any("partition.lost" in one.log.read_text() for one in (a, b, c))
        assert lost or judge(publishers, those) == 0


async def test_a_subscription_is_everybodys(environment: dict[str, str], tmp_path: Path) -> None:
    """Renewed, paused and resumed at either; it expires once, and so does what waits for it."""
    speaker = Speaker()
    async with consumers() as sinks, replicas(tmp_path, environment) as (a, b):
        consumer, failing = sinks.add(), sinks.add(status(503))
        manager = await a.subscribe(consumer.url)
        publisher = Publisher(b, "a")
        renew = f'<e:Renew xmlns:e="{WSE}"><e:Expires>PT2H</e:Expires></e:Renew>'
        for one in (b, a, b):
            assert (await one.ask(renew, manager)).status == 200
        answer = await a.request(
            "POST", "/soap", speaker.envelope(speaker.wsn_subscribe(consumer.url)),
            content_type=speaker.type,
        )  # fmt: skip
        assert answer.status == 200
        wsn = manager_path(answer.message)
        for what, at, expected in (
            ("PauseSubscription", b, 1), ("ResumeSubscription", a, 2), ("PauseSubscription", a, 1),
        ):  # fmt: skip
            assert (await at.ask(f'<n:{what} xmlns:n="{WSN}"/>', wsn)).status == 200
            seen = consumer.count
            assert await publisher.publish() == 202
            await consumer.have(seen + expected, SECONDS)
            await all_quiet([a, b])
            assert consumer.count == seen + expected
        await a.subscribe(failing.url, expires="PT1S")  # Before its retries are used up.
        assert await publisher.publish() == 202
        await counted(b, "subscriptions", 2)
        metrics = await all_quiet([a, b])
        assert metrics["expired_total"] == 1
        publisher.close()


SUBSCRIPTIONS = "/api/v1/subscriptions"


@pytest.mark.nightly
async def test_retries_and_dead_letters_are_one_replicas(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """As many attempts as one gateway makes; a dead letter is redriven at any, by who holds it."""
    async with consumers() as sinks, replicas(tmp_path, environment) as (a, b):
        failing = sinks.add(status(503))
        await a.subscribe(failing.url)
        publishers = [Publisher(a, name, path=f"/soap/topic/of-{name}") for name in "abcdefgh"]
        assert await publishers[0].publish() == 202
        await counted(a, "dead_letters", 1)
        failing.behaviour = status(400)
        for one in publishers[1:]:
            assert await one.publish() == 202
        for one in publishers:
            one.close()
        await counted(b, "dead_letters", 8)
        assert failing.count == 5 + 7
        # Each says what it knows, and who knows the rest: none says that all is well.
        views = [json.loads((await one.request("GET", SUBSCRIPTIONS)).body) for one in (a, b)]
        [first], [second] = (view["subscriptions"] for view in views)
        assert first["delivery"]["failures"] + second["delivery"]["failures"] >= 8
        for view in (first, second):
            assert view["state"] in ("failing", "unknown"), view
            assert view["counts"]["dead"] == 8
            [other] = view["delivery"]["elsewhere"]
            assert "partitions" in other
        for gateway in (a, b):
            await until(functools.partial(_names_failing, gateway, failing.url), SECONDS)
        failing.behaviour = accept
        for gateway, number in ((a, 8), (b, 0)):
            answer = await gateway.request(
                "POST",
                "/api/v1/deadletters/redrive",
                b'{"all": true}',
                content_type="application/json",
            )
            assert json.loads(answer.body)["number"] == number
        await failing.have(12 + 8, SECONDS)
        metrics = await all_quiet([a, b])
        assert (metrics["dead_total"], metrics["delivered_total"]) == (0, 8)
        assert sorted(failing.numbers[12:]) == [f"{name}1" for name in "abcdefgh"]


async def _names_failing(gateway: GatewayProcess, url: str) -> bool:
    """Whether the overview of *gateway* names the host of *url*, with one subscription."""
    said = json.loads((await gateway.request("GET", "/api/v1/overview")).body)["failing"]
    assert said["subscriptions"] <= 1
    return [url.startswith(one["host"]) for one in said["first"]] == [True]


async def counted(gateway: GatewayProcess, what: str, number: int) -> None:
    """Wait until a metric has the value *number*."""

    async def shows() -> bool:
        return (await gateway.metrics())[what] == number

    await until(shows, SECONDS)


async def test_the_store_is_away(
    cluster: PostgreSQL, environment: dict[str, str], tmp_path: Path
) -> None:
    """For longer than leases last: publishers go on, and when it is back everybody does."""
    async with consumers() as sinks, replicas(tmp_path, environment) as (a, b):
        consumer = sinks.add(keep=False)
        await a.subscribe(consumer.url)
        async with publishing(b, 50.0, publishers=8, topics=True) as publishers:
            await consumer.have(50, SECONDS)
            cluster.stop()
            for one in (a, b):
                await until(functools.partial(holds_none, one), SECONDS)
            cluster.start()
            await shared_out([a, b])
            await consumer.have(consumer.count + 50, SECONDS)
        await consumer.have_all([one for all in publishers for one in all.acknowledged])
        await all_quiet([a, b])
        assert judge(publishers, [consumer]) <= 16 * PREFETCH


async def test_what_cannot_be_shared(environment: dict[str, str], tmp_path: Path) -> None:
    """`embedded:` is for one gateway: a second one refuses to start; the same one starts again."""
    alone = {"DRAGOMAN_STORE": environment["DRAGOMAN_STORE"]}
    async with gateway_process(tmp_path / "a", alone) as a:
        second = GatewayProcess(tmp_path / "b", alone)
        with pytest.raises(AssertionError):
            await second.start()
        assert second.process is not None
        assert await asyncio.wait_for(second.process.wait(), SECONDS) == 75
        [line] = second.log.read_text().splitlines()
        assert "Another Dragoman uses the store" in line
        await a.kill()
        await a.start()
    async with gateway_process(tmp_path / "b", alone):
        pass


@pytest.mark.nightly  # Three seconds of processor time.
async def test_each_of_its_own_events_is_told_once(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Whichever gateway it happens at, and whichever the listener subscribed at."""
    environment |= {"DRAGOMAN_RETRY_DELAYS": "none", "DRAGOMAN_GRACE": "0"}
    async with consumers() as sinks, replicas(tmp_path, environment) as (a, b):
        listeners = [sinks.add(), sinks.add()]
        await listen_to_system_events(a, listeners[0].url, b)
        await listen_to_system_events(b, listeners[1].url, a)
        refusing = sinks.add(status(400))
        manager, other = [await one.subscribe(refusing.url) for one in (a, b)]
        assert (await b.ask(f'<e:Renew xmlns:e="{WSE}"/>', manager)).status == 200
        publishers = [Publisher(a, "p"), Publisher(b, "q")]
        for publisher in publishers:
            assert await publisher.publish() == 202
            publisher.close()
        await until(lambda: len(refusing.received) == 4, SECONDS)
        for one, path in ((b, manager), (a, other)):
            assert (await one.ask(f'<e:Unsubscribe xmlns:e="{WSE}"/>', path)).status == 200
        expiring = sinks.add()
        await a.subscribe(expiring.url, expires="PT1S")
        expected = Counter(
            {
                "subscription/created": 3,
                "subscription/renewed": 1,
                "deadletter": 4,
                "subscription/ended": 3,
            }
        )
        for listener in listeners:
            await listener.until(lambda one=listener: told(one) >= expected, SECONDS)  # type: ignore[misc]
        await all_quiet([a, b])
        for listener in listeners:
            counts = told(listener)
            failing = counts.pop("subscription/failing")
            assert counts == expected
            assert 2 <= failing <= 4, "each gateway that delivers to a subscription tells it"


def told(listener: Consumer) -> Counter[str]:
    """How many events of each kind came."""
    return Counter(system_event(one.body)[0] for one in listener.received)


async def test_a_digest_of_http_is_replayed(tmp_path: Path, environment: dict[str, str]) -> None:
    """A nonce of one gateway counts at another, which knows how often it was used at the first; so
    it does after a kill."""
    file = make_digests(tmp_path)
    environment["DRAGOMAN_IDENTITIES"] = str(file)

    async def send(gateway: GatewayProcess, header: str = "Digest") -> Answer:
        envelope = Speaker().envelope("<event/>", message_id=fresh_id())
        kind = Speaker().soap.media_type
        return await gateway.request(
            "POST", "/soap", envelope, content_type=kind, authorization=header
        )

    async with replicas(tmp_path, environment) as (one, other):
        assert (await send(one)).status == 401
        signed = Signed(nonces_of(file).make(time.time()))
        nonces = iter([replace(signed, nc=f"{number:08x}").header() for number in range(1, 6)])
        first, second = next(nonces), next(nonces)
        assert (await send(one, second)).status == 202
        for gateway in (other, one):
            for header in (first, second):
                assert (await send(gateway, header)).status == 401
        statuses = [(await send(gateway, next(nonces))).status for gateway in (other, one)]
        assert statuses == [202, 202]
        last = next(nonces)
        at_once = await asyncio.gather(*(send(each, last) for each in (one, other) * 5))
        assert sorted(answer.status for answer in at_once) == [202] + [401] * 9
        await one.kill()
        await one.start()
        assert (await send(one, last)).status == 401


@pytest.mark.parametrize(
    "times",
    [pytest.param(3, marks=pytest.mark.nightly), pytest.param(100, marks=pytest.mark.release)],
)
async def test_tokens_are_replayed(tmp_path: Path, environment: dict[str, str], times: int) -> None:
    """A thousand tokens of WS-Security, again and again at two gateways, one of which is killed on
    the way: each is accepted once."""
    environment["DRAGOMAN_IDENTITIES"] = str(make_file(tmp_path))
    tokens, statuses, chance = [digested() for _ in range(1_000)], [], random.Random(24)
    replays = tokens * times
    chance.shuffle(replays)

    async def send(gateway: GatewayProcess, header: str) -> int:
        envelope = Speaker().envelope("<event/>", message_id=fresh_id(), headers=header)
        kind = Speaker().soap.media_type
        return (await gateway.request("POST", "/soap", envelope, content_type=kind)).status

    async with replicas(tmp_path, environment) as those:
        for start in range(0, len(replays), 20):
            if start == len(replays) // 2:
                await those[0].kill()
                await those[0].start()
            part = zip(replays[start : start + 20], those * 10, strict=True)
            statuses += await asyncio.gather(*(send(one, header) for header, one in part))
    assert statuses.count(202) == len(tokens)
