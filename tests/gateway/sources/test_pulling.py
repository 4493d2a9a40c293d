"""Sources whose events the gateway pulls, in mode Pull of WS-Management."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from mediation.model.expiry import parse_expiry
from mediation.model.versions import Wsa
from mediation.names import (
    DRAGOMAN_DATA,
    WSEN,
    WSMAN,
    WSMAN_DROPPED_EVENTS,
    WSMAN_EARLIEST,
    WSMAN_EVENT,
    WSMAN_PULL,
)
from tests.gateway.sources.test_management import MANAGED, RESOURCE, bookmark
from tests.gateway.sources.test_sources import add, shown, state
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    CONCRETE,
    FULL,
    Speaker,
    notification_message,
    notify,
    wse_filter,
)
from tests.rigs.gateways import Running, running
from tests.rigs.producers import Producer, Producers, Told, fault, producers, status
from tests.rigs.pulled_producers import PulledProducer, event
from tests.rigs.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def some() -> AsyncIterator[Producers]:
    async with producers() as those:
        yield those


async def live(gateway: Running, producer: Producer, **asked: Any) -> str:
    id_ = await add(gateway, producer, **{**MANAGED, "mode": "pull", **asked})
    await state(gateway, id_, "live")
    return id_


async def listen(gateway: Running, consumer: Consumers, topic: str) -> str:
    url = consumer.fresh()
    await gateway.subscribe(
        Speaker(), Speaker().wse_subscribe(url, filter=wse_filter(topic, CONCRETE))
    )
    return url


async def came(consumer: Consumers, url: str, number: int) -> list[str]:
    """The numbers of so many events."""
    return [(await consumer.next(url)).number for _ in range(number)]


def once(script: Any) -> Any:
    """*script* for one Pull; then as ever."""

    def answer(of: Producer, told: Told) -> tuple[int, bytes] | None:
        del of.answers["Pull"]
        answered: tuple[int, bytes] | None = script(of, told)
        return answered

    return answer


async def test_what_is_asked(gateway: Running, some: Producers) -> None:
    producer = some.put(PulledProducer)
    id_ = await live(gateway, producer)
    told = producer.last("Subscribe")
    [delivery] = told.message.root.iter("{*}Delivery")
    assert delivery.get("Mode") == WSMAN_PULL and not len(delivery)
    assert not [*told.message.root.iter("{*}NotifyTo"), *told.message.root.iter("{*}EndTo")]
    assert [*told.message.root.iter("{*}SendBookmarks")]
    told = await producer.asked("Pull")
    assert told.message.wsa("Action", Wsa.V2004_08) == f"{WSEN}/Pull"
    assert told.text("ResourceURI") == RESOURCE
    assert told.text("EnumerationContext") == f"{producer.one.id}#0"
    # Some know a subscription by what the manager's reference has.
    assert told.text("Id") == producer.one.parameters
    assert int(told.text("MaxElements") or "") > 1
    lengths = [parse_expiry(told.text(name) or "") for name in ("MaxTime", "OperationTimeout")]
    waits, works = (one.duration.seconds for one in lengths if one.duration is not None)
    assert timedelta(0) < waits < works
    assert (await shown(gateway, id_))["mode"] == "pull"


async def test_what_is_pulled_is_published(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    """Events bare, with actions, in batches; and what was left out."""
    producer = some.put(PulledProducer)
    id_ = await live(gateway, producer, publish_on="pulled/all")
    url = await listen(gateway, consumer, "pulled/all")
    batch = (
        f'<w:Events xmlns:w="{WSMAN}">{event(3, wrapped=True)}{event(4, wrapped=True)}</w:Events>'
    )
    dropped = f'<w:DroppedEvents xmlns:w="{WSMAN}" Action="urn:x">7</w:DroppedEvents>'
    await producer.give(event(1), event(2, wrapped=True), batch, dropped)
    receipts = [await consumer.next(url) for _ in range(5)]
    assert [one.number for one in receipts[:4]] == ["1", "2", "3", "4"]
    assert [one.message.wsa("Action") for one in receipts[1:4]] == [
        f"urn:action:{n}" for n in (2, 3, 4)
    ]
    assert receipts[4].message.wsa("Action") == WSMAN_DROPPED_EVENTS
    assert receipts[4].payload.text == "7"
    assert {one.topic.text for one in receipts if one.topic is not None} == {"pulled/all"}
    assert (await shown(gateway, id_))["events"] == 5


async def test_contexts_follow_each_other(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    """A Pull has the context of the answer before it; where that had none, its own."""
    producer = some.put(PulledProducer)
    producer.most = 2
    await live(gateway, producer, publish_on="pulled/contexts")
    url = await listen(gateway, consumer, "pulled/contexts")
    await producer.give(*map(event, range(5)))
    assert await came(consumer, url, 5) == ["0", "1", "2", "3", "4"]
    await producer.asked("Pull", 4)
    assert [one.partition("#")[2] for one in producer.contexts] == ["0", "1", "2", "3"]

    def without(of: Producer, told: Told) -> tuple[int, bytes]:
        body = f'<n:PullResponse xmlns:n="{WSEN}"><n:Items>{event(9)}</n:Items></n:PullResponse>'
        return 200, of._envelope(told, body)

    producer.answers["Pull"] = once(without)
    await producer.give(event(5))  # The answer to the Pull that waits.
    assert await came(consumer, url, 2) == ["5", "9"]
    await producer.asked("Pull", 6)
    assert [one.partition("#")[2] for one in producer.contexts][-2:] == ["4", "4"]


@pytest.mark.parametrize("how", ["fault", "nothing"])
async def test_nothing_there_is_no_failure(
    gateway: Running, consumer: Consumers, some: Producers, how: str
) -> None:
    """Who does not wait for events, as openwsman, is not asked more than once a second."""
    producer = some.put(PulledProducer)
    empty = f'<n:PullResponse xmlns:n="{WSEN}"><n:Items/></n:PullResponse>'
    nothing = {
        "fault": fault("The operation has timed out.", subcode="TimedOut"),
        "nothing": lambda of, told: (200, of._envelope(told, empty)),
    }
    producer.answers["Pull"] = nothing[how]
    began = asyncio.get_running_loop().time()
    id_ = await live(gateway, producer, publish_on=f"pulled/{how}")
    await producer.asked("Pull", 3)
    assert asyncio.get_running_loop().time() - began >= 2.0
    now = await shown(gateway, id_)
    assert (now["state"], now["failures"], now["last_error"]) == ("live", 0, None)
    assert now["last_event"] is not None  # A sign of life.
    url = await listen(gateway, consumer, f"pulled/{how}")
    del producer.answers["Pull"]
    await producer.give(event(1))
    assert await came(consumer, url, 1) == ["1"]
    assert producer.count("Subscribe") == 1


async def test_openwsman_answers_with_the_message_of_an_event(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    producer = some.put(PulledProducer)

    def bare(of: Producer, told: Told) -> tuple[int, bytes]:
        action = f'<w:Action xmlns:w="{WSMAN}">{WSMAN_EVENT}</w:Action>'
        octets = of._envelope(told, event(1))
        return 200, octets.replace(b"<s:Body>", f"<s:Header>{action}</s:Header><s:Body>".encode())

    producer.answers["Pull"] = once(bare)
    url = await listen(gateway, consumer, "pulled/openwsman")
    await live(gateway, producer, publish_on="pulled/openwsman")
    receipt = await consumer.next(url)
    assert (receipt.number, receipt.message.wsa("Action")) == ("1", WSMAN_EVENT)
    await producer.asked("Pull", 2)


@pytest.mark.parametrize("how", ["lost", "over", "timed out"])
async def test_a_context_that_is_over_is_followed_by_a_subscription_behind_the_bookmark(
    gateway: Running, consumer: Consumers, some: Producers, how: str
) -> None:
    producer = some.put(PulledProducer)
    producer.bookmarks = True
    topic = f"pulled/{how.replace(' ', '-')}"
    id_ = await live(gateway, producer, publish_on=topic)
    url = await listen(gateway, consumer, topic)
    producer.over = how == "over"
    await producer.give(event(1), event(2))
    assert await came(consumer, url, 2) == ["1", "2"]
    if how == "lost":
        await producer.asked("Pull", 2)
        await producer.lose()
    if how == "timed out":  # The enumerator, not the request.
        await producer.asked("Pull", 2)
        producer.answers["Pull"] = fault("Over.", subcode="TimedOut", namespace=WSEN)
        await producer.give(event(3))
        assert await came(consumer, url, 1) == ["3"]
    told = await producer.asked("Subscribe", 2)
    assert bookmark(told) == f"at {producer.number}"
    producer.over = False
    producer.answers.clear()
    assert "Pull" in (await state(gateway, id_, "live"))["last_error"]
    assert producer.count("Unsubscribe") == 0
    await producer.give(event(4))
    assert await came(consumer, url, 1) == ["4"]


async def test_what_a_service_has_kept_is_asked_for(gateway: Running, some: Producers) -> None:
    producer = some.put(PulledProducer)
    await live(gateway, producer, existing=True)
    assert bookmark(producer.last("Subscribe")) == WSMAN_EARLIEST


@pytest.mark.parametrize("how", [fault("Broken."), status(503), status(404)])
async def test_a_pull_that_fails_is_made_again(
    gateway: Running, consumer: Consumers, some: Producers, how: Any
) -> None:
    """A refusal ends the subscription for another one, for nobody knows what it means; nothing
    that was there is lost."""
    producer = some.put(PulledProducer)
    producer.answers["Pull"] = once(how)
    topic = f"pulled/failed-{producer.url.rpartition('/')[2]}"
    url = await listen(gateway, consumer, topic)
    id_ = await add(gateway, producer, **{**MANAGED, "mode": "pull", "publish_on": topic})
    await producer.asked("Pull", 2)
    await producer.give(event(1))
    assert await came(consumer, url, 1) == ["1"]
    assert "Pull: " in (await state(gateway, id_, "live"))["last_error"]


async def test_a_subscription_that_is_given_up_is_pulled_from_until_the_next_is_there(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    """A refused Renew loses nothing."""
    producer = some.put(PulledProducer)
    producer.answers["Renew"] = fault("UnableToRenew")
    held_back = asyncio.Event()

    async def wait(_: Producer) -> None:
        await held_back.wait()

    await live(gateway, producer, publish_on="pulled/renewed", lease=2)
    url = await listen(gateway, consumer, "pulled/renewed")
    producer.meanwhile["Subscribe"] = wait
    await producer.asked("Subscribe", 2)
    first = next(iter(producer.held))
    await producer.give(event(1))
    assert await came(consumer, url, 1) == ["1"]
    assert {one.partition("#")[0] for one in producer.contexts} == {first}
    del producer.answers["Renew"]
    del producer.meanwhile["Subscribe"]
    held_back.set()
    await producer.asked("Unsubscribe")
    await producer.give(event(2))
    assert await came(consumer, url, 1) == ["2"]
    assert producer.contexts[-1].partition("#")[0] != first


async def test_a_source_that_is_removed_is_pulled_from_no_more(
    gateway: Running, some: Producers
) -> None:
    producer = some.put(PulledProducer)
    id_ = await live(gateway, producer)
    await producer.asked("Pull")
    await gateway.api("DELETE", f"/sources/{id_}")
    await producer.asked("Unsubscribe")

    async def gone() -> bool:
        return (await gateway.api("GET", f"/sources/{id_}")).status == 404

    await until(gone)
    pulls = producer.count("Pull")
    await producer.lose()
    other = some.put(PulledProducer)
    await live(gateway, other)
    await other.asked("Pull")
    assert producer.count("Pull") == pulls


async def test_a_subscription_without_a_context_is_none(gateway: Running, some: Producers) -> None:
    producer = some.add(wse=True)  # It does not know the mode.
    id_ = await add(gateway, producer, **{**MANAGED, "mode": "pull"})
    now = await state(gateway, id_, "backing-off")
    assert "EnumerationContext" in now["last_error"]


async def test_an_event_that_is_refused_for_good_is_left_out(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    """One that goes in circles; the others come."""
    producer = some.put(PulledProducer)
    await live(gateway, producer, publish_on="pulled/refused")
    url = await listen(gateway, consumer, "pulled/refused")
    told = "<d:event/><d:event hops='99' origin='o.1'/><d:event/>"
    producer.headers = f"<d:pulled xmlns:d='{DRAGOMAN_DATA}'>{told}</d:pulled>"
    await producer.give(event(1), event(2), event(3))
    await producer.asked("Pull", 2)
    assert await came(consumer, url, 2) == ["1", "3"]
    await gateway.quiet()
    assert consumer.waiting(url) == 0
    assert any(one["event"] == "source.event-refused" for one in gateway.logs)


async def test_a_large_answer_is_read(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    """Longer than answers to other requests may be."""
    producer = some.put(PulledProducer)
    await live(gateway, producer, publish_on="pulled/large")
    url = await listen(gateway, consumer, "pulled/large")
    large = f"<e xmlns='urn:e'><n>1</n><x>{'x' * 300_000}</x></e>"
    await producer.give(large)
    assert await came(consumer, url, 1) == ["1"]


async def test_two_gateways_pull_from_each_other(
    gateway: Running, consumer: Consumers, tmp_path: Path
) -> None:
    """Each takes every event in once: what comes back ends there. An event keeps its topic and its
    action."""
    async with running(tmp_path) as other:
        ids = []
        for at, producer in ((gateway, other), (other, gateway)):
            asked = {"url": f"{producer.url}/wsman", "spec": "wse-2004-08", "mode": "pull"}
            asked = {**MANAGED, **asked, "topic": "both//."}
            answer = await at.api("POST", "/sources", json.dumps(asked).encode())
            assert answer.status == 201, answer.body
            ids.append(json.loads(answer.body)["id"])
            await state(at, ids[-1], "live")
        urls = []
        for at in (gateway, other):
            urls.append(consumer.fresh())
            filter = wse_filter("both//.", FULL)
            await at.subscribe(Speaker(), Speaker().wse_subscribe(urls[-1], filter=filter))
        await gateway.publish(notify(notification_message(event(1), "both/here")))
        await other.publish(notify(notification_message(event(2), "both/there")))
        for url in urls:
            receipts = {one.number: one for one in [await consumer.next(url) for _ in range(2)]}
            assert sorted(receipts) == ["1", "2"]
            topics = [receipts[number].topic for number in ("1", "2")]
            assert [one.text for one in topics if one is not None] == ["both/here", "both/there"]
        for at, id_ in zip((gateway, other), ids, strict=True):
            await until(partial(_took, at, id_, 1))
        await gateway.publish(notify(notification_message(event(3), "both/here")))
        assert [await came(consumer, url, 1) for url in urls] == [["3"], ["3"]]
        assert [consumer.waiting(url) for url in urls] == [0, 0]


async def _took(at: Running, id_: str, number: int) -> bool:
    return bool((await shown(at, id_))["events"] >= number)
