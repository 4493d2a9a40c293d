"""Mailboxes of several gateways: whichever is asked, a box is one, and none of it is lost."""

import asyncio
import functools
import re
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from mediation import names
from tests.gateway.mailboxes.test_pull_points import PullPoint, event, events_in
from tests.gateway.mailboxes.test_pull_points import ask as ask_point
from tests.gateway.replicas.test_replicas import (
    PREFETCH,
    SECONDS,
    TAKEOVER,
    all_quiet,
    replicas,
    shared_out,
)
from tests.gateway.server.test_kill import more_acknowledged
from tests.gateway.soap.test_onvif import Puller, publish, pulled, time_of
from tests.rigs.brokers import needs_rabbitmq, rabbitmq
from tests.rigs.envelopes import WSE, R, Speaker, next_number
from tests.rigs.gateways import manager_path
from tests.rigs.json_mailboxes import UNKNOWN, Box, call, numbers, put, streaming
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.processes import GatewayProcess, Publisher, publishing
from tests.rigs.rabbitmq_adapters import environment_of
from tests.rigs.waiting import until

needs_rabbitmq()
needs_postgresql(allow_module_level=True)

pytestmark = pytest.mark.asyncio(loop_scope="module")

SOON = 30.0
"""Seconds: less than what waits here would wait, far more than a busy machine needs."""
LEASE = 10
"""Seconds: a busy machine kills a gateway within them."""
LONG = 60.0
EVERYWHERE = range(24)
"""So many topics that each gateway has some of them."""
SPEAKER = Speaker()
Two = list[GatewayProcess]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Two]:
    """Gateways that share the work; a test that kills one starts it again."""
    folder: Path = tmp_path_factory.mktemp("mailbox-replicas")
    with fresh_database() as url:
        environment = {
            **environment_of(rabbitmq().url, f"boxes-{uuid.uuid4().hex[:8]}"),
            "DRAGOMAN_STORE": url,
        }
        async with replicas(folder, environment) as both:
            yield both


def fresh_topics() -> list[str]:
    """In all partitions, so that every gateway delivers."""
    name = f"boxed{next_number()}"
    return [f"{name}-{number}" for number in EVERYWHERE]


async def publish_to(there: Two, topics: list[str], start: int = 0) -> None:
    """Publish one event to each of *topics*, at every gateway in turn; its text is its number."""
    for number, topic in enumerate(topics, start):
        answer = await there[number % len(there)].request(
            "POST",
            f"/soap/topic/{topic}",
            SPEAKER.envelope(event(number), message_id=f"urn:test:{topic}:{number}"),
            content_type=SPEAKER.type,
        )
        assert answer.status == 202, answer.body


async def other_requests(there: GatewayProcess, box: Box) -> None:
    """Let *there* answer some requests, which it does after it has taken in what came before."""
    for _ in range(3):
        await Box(there, box.key, box.id).size()


async def subscribe(there: GatewayProcess, body: str) -> str:
    """The path of the manager."""
    answer = await there.ask(body)
    assert answer.status == 200, answer.body
    return manager_path(answer.message)


# A box is everybody's.


async def test_made_here_subscribed_there_and_pulled_anywhere(two: Two) -> None:
    a, b = two
    point, topics = await PullPoint.create(a), fresh_topics()
    manager = await subscribe(b, SPEAKER.wsn_subscribe(point.address))
    await publish_to(two, topics)
    found: list[str] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < len(topics):
            for there in two:
                inner = "<n:MaximumNumber>2</n:MaximumNumber>"
                answer = await ask_point(there, SPEAKER, "GetMessages", inner, point.path)
                some = [one for one in events_in(answer) if one.topic in topics]
                assert len(some) <= 2
                found += [one.payload for one in some]
    assert sorted(found, key=int) == [str(number) for number in EVERYWHERE]
    answer = await a.ask(f'<n:Unsubscribe xmlns:n="{names.WSN_1_3}"/>', manager)
    assert answer.status == 200
    assert (await ask_point(b, SPEAKER, "DestroyPullPoint", "", point.path)).status == 200
    gone = await ask_point(a, SPEAKER, "GetMessages", "", point.path)
    assert gone.fault.element == f"{{{R}}}ResourceUnknownFault"


async def test_who_waits_here_hears_of_what_is_stored_there(two: Two) -> None:
    a, b = two
    box = await Box.make(a)
    for there, other in ((a, b), (b, a)):
        waiting = asyncio.create_task(Box(there, box.key, box.id).receive(wait=LONG))
        await other_requests(there, box)
        assert not waiting.done()
        await put(other, box.path, f"stored{next_number()}")
        batch = await asyncio.wait_for(waiting, SOON)
        assert len(batch["messages"]) == 1
        assert await Box(other, box.key, box.id).do("acknowledge", lease=batch["lease"]) == {
            "number": 1
        }
    assert (await box.size())["messages"] == 0


async def test_a_box_destroyed_here_is_unknown_there_at_once(two: Two) -> None:
    a, b = two
    for wanted in ({}, {"topic": "nothing"}):
        box = await Box.make(a, **wanted)
        there = Box(b, box.key, box.id)
        assert (await there.size())["messages"] == 0
        waiting = asyncio.create_task(there.do("receive", wait=LONG, status=404))
        manager = f"/subscriptions/{box.key}"
        if not wanted:
            manager = await subscribe(b, SPEAKER.wsn_subscribe(there.address))
        await other_requests(b, box)
        assert not waiting.done()
        await call(a, "DELETE", box.path, status=204)
        assert await call(b, "GET", box.path, status=404) == UNKNOWN
        assert await there.do("receive", wait=0, status=404) == UNKNOWN
        assert (await b.ask(SPEAKER.wsn_subscribe(there.address))).status != 200
        answer = await b.ask(f'<n:Renew xmlns:n="{names.WSN_1_3}"/>', manager)
        assert answer.fault.element == f"{{{R}}}ResourceUnknownFault"
        assert await asyncio.wait_for(waiting, SOON) == UNKNOWN


async def test_onvif_made_here_pulled_and_renewed_there(two: Two) -> None:
    a, b = two
    here = await Puller.create(a)
    there = Puller(b, here.address)
    name = f"RuleEngine/Replicas{next_number()}"
    for number in EVERYWHERE:
        await publish(two[number % 2], f"{name}-{number}/Motion", f"{name}.{number}")
    answer = await there.pull(limit=3)
    lease = time_of(answer, "TerminationTime") - time_of(answer, "CurrentTime")
    assert lease > timedelta(seconds=30)
    found = [one for one in pulled(answer) if name in one]
    async with asyncio.timeout(SECONDS):
        while len(found) < len(EVERYWHERE):
            for puller in (there, here):
                found += [one for one in pulled(await puller.pull(limit=3)) if name in one]
    assert sorted(found) == sorted(f"{name}.{number}" for number in EVERYWHERE)

    answer = await there.renew("PT20M")
    granted = time_of(answer, "TerminationTime")
    assert time_of(await here.pull(), "TerminationTime") == granted  # It was not shortened.
    assert (await here.unsubscribe()).status == 200
    for gone in (await there.pull(), await there.renew("PT1M"), await there.unsubscribe()):
        assert gone.fault.element == f"{{{R}}}ResourceUnknownFault"
    assert await call(b, "GET", here.path.replace("subscriptions", "mailboxes"), status=404)


async def test_who_cannot_be_called_asks_anywhere(two: Two) -> None:
    """WS-MakeConnection: its box is made once, whoever it subscribes at."""
    a, b = two
    uri, topics = f"{names.MAKE_CONNECTION_ANONYMOUS}{uuid.uuid4()}", fresh_topics()
    first, second = await asyncio.gather(
        *(subscribe(there, SPEAKER.wse_subscribe(uri)) for there in two)
    )
    await publish_to(two, topics)
    asking = (
        f'<c:MakeConnection xmlns:c="{names.MAKE_CONNECTION_1_1}"><c:Address>{uri}</c:Address>'
        "</c:MakeConnection>"
    )
    found: list[bytes] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < 2 * len(topics):
            for there in two:
                answer = await there.ask(asking)
                assert answer.status in (200, 202), answer.body
                if answer.status == 200:
                    found += re.findall(rb"<e:Event [^>]*>(\d+)<", answer.body)
    assert sorted(map(int, found)) == sorted([*EVERYWHERE, *EVERYWHERE])
    for there, manager in ((b, first), (a, second)):
        answer = await there.ask(f'<e:Unsubscribe xmlns:e="{WSE}"/>', manager)
        assert answer.status == 200


# And survives whoever holds it.


async def test_one_is_killed(two: Two) -> None:
    """In traffic: what was in boxes is there, what is acknowledged comes; what was not fetched
    meanwhile is there once, and what was comes twice at most with the same message id."""
    a, b = two
    still, read = [await Box.make(a, topic="*//.") for _ in range(2)]
    there = [Box(b, box.key, box.id) for box in (still, read)]
    fetched: list[Any] = []

    async def fetch() -> None:
        while True:
            batch = await there[1].receive(max=32, wait=1)
            if batch["messages"]:
                await there[1].do("acknowledge", lease=batch["lease"])
                fetched.extend(batch["messages"])

    fetching = asyncio.create_task(fetch())
    async with publishing(b, 40.0, publishers=8, topics=True) as publishers:
        await until(lambda: len(fetched) > 50, SECONDS)
        await a.kill()
        await shared_out([b], TAKEOVER)
        await more_acknowledged(publishers, 20)
    await b.at_rest()
    lying: list[Any] = []
    while (batch := await there[0].receive(max=256))["messages"]:
        lying += batch["messages"]
    await until(lambda: acknowledged(publishers) <= set(texts(fetched)), SECONDS)
    fetching.cancel()
    assert judged(publishers, lying) == 0
    assert judged(publishers, fetched) <= 3 * PREFETCH
    await a.start()
    await shared_out([a, b])
    for box in there:
        await call(a, "DELETE", box.path, status=204)
    await all_quiet(two)


@pytest.mark.nightly
async def test_a_reader_is_killed(two: Two) -> None:
    """With the gateway that gave it messages: their lease ends, and they come again."""
    a, b = two
    box = await Box.make(a)
    text = f"leased{next_number()}"
    await box.put(text)
    batch = await box.receive(lease=LEASE)
    assert numbers(batch["messages"]) == [text]
    await a.kill()
    there = Box(b, box.key, box.id)
    assert (await there.receive())["messages"] == []
    batch = await there.receive(wait=LONG)
    assert numbers(batch["messages"]) == [text]
    assert [message["takes"] for message in batch["messages"]] == [2]
    assert await there.do("acknowledge", lease=batch["lease"]) == {"number": 1}
    await a.start()
    await shared_out([a, b])


async def is_empty(box: Box) -> bool:
    return not (await box.size())["messages"]


@pytest.mark.nightly
async def test_a_stream_goes_on_elsewhere(two: Two) -> None:
    """Where its reader had come to when its gateway was killed, and at once."""
    a, b = two
    box = await Box.make(a)
    sent = [f"streamed{next_number()}" for _ in range(6)]
    await box.put(*sent[:5])
    async with streaming(box) as stream:
        assert await stream.take(3) == sent[:3]
        seen = stream.last_id
        # Until the gateway knows that all five have arrived.
        await until(functools.partial(is_empty, box), SECONDS)
        await a.kill()
    there = Box(b, box.key, box.id)
    async with streaming(there, last_event_id=seen) as stream:
        assert await stream.take(2) == sent[3:5]
        await there.put(sent[5])
        assert await stream.take(1) == sent[5:]
    await a.start()
    await shared_out([a, b])


def texts(messages: list[Any]) -> list[str]:
    return [re.findall(r"<n>(\w+)</n>", message["payload"])[0] for message in messages]


def acknowledged(publishers: list[Publisher]) -> set[str]:
    return {number for one in publishers for number in one.acknowledged}


def judged(publishers: list[Publisher], messages: list[Any]) -> int:
    """Nothing acknowledged is lost, what comes twice has the same id, and all of a topic is in
    order; how much came twice."""
    ids: dict[str, str] = {}
    last: dict[str, int] = {}
    repeats = 0
    for number, message in zip(texts(messages), messages, strict=True):
        if number in ids:
            assert ids[number] == message["message_id"]
            repeats += 1
            continue
        ids[number] = message["message_id"]
        assert int(number[1:]) > last.get(number[0], 0), "out of order"
        last[number[0]] = int(number[1:])
    assert acknowledged(publishers) - ids.keys() == set(), "lost"
    return repeats
