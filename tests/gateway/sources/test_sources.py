"""Sources against producers on real sockets."""

import contextlib
import json
import re
import sqlite3
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from filters.dialects import ACTION_DPWS_1_0, ACTION_DPWS_1_1
from gateway.model.sources import EndTold, Standing, State
from gateway.store import Store
from gateway.store import sources as rows
from mediation.model.versions import Wsa
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import S11, WSA10, WSE, Speaker, fresh_id, topic_expression
from tests.rigs.gateways import Running, running
from tests.rigs.producers import Producer, Producers, Script, Told, fault, producers, status
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
    now = await state(gateway, id_, "live")
    assert producer.count("Unsubscribe") == 0
    said = "SubscriptionEnd SourceShuttingDown Good night." if wse else "TerminationNotification"
    assert now["last_error"] == f"The producer ended the subscription: {said}"


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


# What goes wrong.


@pytest.mark.parametrize(
    ("said", "script"),
    [
        ("answered with a fault: Not you.", fault("Not you.")),
        ("answered with a fault: Not you.", fault("Not you.", status=200)),
        ("answered 404", status(404)),
        ("answered 503", status(503)),
        ("answered what cannot be read", status(200)),
    ],
)
async def test_what_fails_is_tried_again_and_said(
    gateway: Running, some: Producers, said: str, script: Script
) -> None:
    producer = some.add()
    producer.answers["Subscribe"] = script
    id_ = await add(gateway, producer)
    await producer.asked("Subscribe", 2)
    now = await shown(gateway, id_)
    assert said in now["last_error"]
    assert now["failures"] >= 1
    failing = [
        log for log in gateway.logs if log["event"] == "source.failing" and log["source"] == id_
    ]
    assert len(failing) == 1
    producer.answers.clear()
    assert (await state(gateway, id_, "live"))["failures"] == 0


async def test_loss_and_recovery_are_logged_once_each(gateway: Running, some: Producers) -> None:
    producer = some.add()
    id_ = await add(gateway, producer)
    await state(gateway, id_, "live")
    producer.answers["Subscribe"] = fault("Later.")
    await producer.end()
    await producer.asked("Subscribe", 3)
    producer.answers.clear()
    await state(gateway, id_, "live")
    logged = [
        log["event"]
        for log in gateway.logs
        if log.get("source") == id_ and log["event"] != "source.added"
    ]
    assert logged == ["source.live", "source.lost", "source.recovered"]


async def test_a_producer_that_is_away_is_asked_to_go_on(
    gateway: Running, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It comes back with its memory: the subscription is the same."""
    async with producers() as those:
        producer = those.add()
        producer.grants = "PT6S"
        id_ = await add(gateway, producer)
        await state(gateway, id_, "live")
        await those.leave()
        now = await state(gateway, id_, "backing-off")
        assert "connection refused" in now["last_error"]
        await those.listen()
        await state(gateway, id_, "live")
        assert producer.count("Subscribe") == 1
        await remove(gateway, id_)


async def test_a_producer_that_lost_its_memory_gets_one_subscription(gateway: Running) -> None:
    async with producers() as those:
        producer = those.add()
        producer.grants = "PT6S"
        id_ = await add(gateway, producer)
        await state(gateway, id_, "live")
        await those.leave()
        producer.forget()
        await state(gateway, id_, "backing-off")
        await those.listen()
        await producer.asked("Subscribe", 2)
        await state(gateway, id_, "live")
        assert len(producer.held) == 1
        await remove(gateway, id_)


async def test_a_producer_that_refuses_to_renew_has_its_old_subscription_ended(
    gateway: Running, some: Producers
) -> None:
    """Apache CXF's publishers do not renew: the former subscription would send for ever."""
    producer = some.add()
    producer.grants = "PT2S"
    producer.answers["Renew"] = fault("Not offered.")
    id_ = await add(gateway, producer)
    await producer.asked("Unsubscribe")
    await state(gateway, id_, "live")
    assert len(producer.held) == 1
    assert producer.count("Subscribe") == 2
    producer.answers.clear()


async def test_silence_is_asked_about(gateway: Running, some: Producers) -> None:
    producer = some.add()
    id_ = await add(gateway, producer, silence=1.0)
    asked = await producer.asked("GetResourceProperty")
    assert asked.text("GetResourceProperty") == "p:TerminationTime"
    await state(gateway, id_, "live")
    producer.forget()
    await producer.asked("Renew")
    await producer.asked("Subscribe", 2)


async def test_who_is_never_asked_is_never_asked(gateway: Running, some: Producers) -> None:
    quiet, asked = some.add(wse=True), some.add(wse=True)
    await add(gateway, quiet, silence=0)
    await add(gateway, asked, silence=1.0)
    await asked.asked("GetStatus", 2)
    assert quiet.count("GetStatus") == 0


WORDS = [
    pytest.param("<e:Status>{ns}/DeliveryFailure</e:Status>", id="a URI"),
    pytest.param("<e:Code>e:SourceShuttingDown</e:Code>", id="a QName in Code"),
    pytest.param("<e:Status>SourceShuttingDown</e:Status>", id="sdc11073: a bare word"),
    pytest.param("<e:Status>{ns}/SourceCanceling</e:Status>", id="the spelling of the prose"),
]


@pytest.mark.parametrize("words", WORDS)
async def test_ends_as_producers_write_them(gateway: Running, some: Producers, words: str) -> None:
    producer = some.add(wse=True)
    id_ = await add(gateway, producer)
    await state(gateway, id_, "live")
    assert await producer.end(words.format(ns=WSE)) == 202
    await producer.asked("Subscribe", 2)
    await state(gateway, id_, "live")


async def test_an_end_by_its_action_alone(gateway: Running, some: Producers) -> None:
    """Apache CXF names the element after a Java interface."""
    producer = some.add(wse=True)
    id_ = await add(gateway, producer)
    await state(gateway, id_, "live")
    held = producer.one
    body = '<x:subscriptionEnd xmlns:x="http://client.eventing.ws.cxf.apache.org/"/>'
    action = f"{WSE}/SubscriptionEnd"
    assert await producer._post(held.end_to or "", body, action) == 202
    await producer.asked("Subscribe", 2)
    assert (await shown(gateway, id_))["events"] == 0


async def test_an_event_that_comes_by_two_subscriptions_is_one(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    producer, url = some.add(), consumer.fresh()
    await gateway.subscribe(
        Speaker(), Speaker().wsn_subscribe(url, filter=topic_expression("twice"))
    )
    id_ = await add(gateway, producer)
    await state(gateway, id_, "live")
    same = fresh_id()
    assert await producer.send("<a/>", topic="twice", message_id=same) == 202
    await producer.end()
    await producer.asked("Subscribe", 2)
    await state(gateway, id_, "live")
    assert await producer.send("<a/>", topic="twice", message_id=same) == 202
    assert await producer.send("<b/>", topic="twice") == 202
    assert [(await consumer.next(url)).payload.tag for _ in range(2)] == ["a", "b"]


# What is asked of a producer.


async def test_topics_filters_and_leases_are_asked_for(gateway: Running, some: Producers) -> None:
    producer = some.add()
    scope = {"w": "urn:weather"}
    await add(
        gateway, producer, topic="w:storms//.", xpath="/w:e/w:speed > 64", namespaces=scope,
        lease="PT10M",
    )  # fmt: skip
    told = await producer.asked("Subscribe")
    assert told.text("TopicExpression") == "w:storms//."
    assert told.text("MessageContent") == "/w:e/w:speed > 64"
    assert told.text("InitialTerminationTime") == "PT10M"


async def test_apache_cxf_is_spoken_to_as_it_speaks(gateway: Running, some: Producers) -> None:
    producer = some.add()
    id_ = await add(gateway, producer, profile="cxf", topic="myTopic")
    told = await producer.asked("Subscribe")
    assert (told.message.soap, told.message.headers) == (S11, [])
    assert told.headers["soapaction"] == '""'
    await state(gateway, id_, "live")


@pytest.mark.parametrize(
    ("profile", "wsa", "dialect"),
    [
        ("standard", Wsa.V2004_08.value, ACTION_DPWS_1_0),
        ("dpws-1.0", Wsa.V2004_08.value, ACTION_DPWS_1_0),
        ("dpws", WSA10, ACTION_DPWS_1_1),
    ],
)
async def test_a_device_is_asked_for_actions_as_its_dpws_says(
    gateway: Running, some: Producers, profile: str, wsa: str, dialect: str
) -> None:
    producer = some.add(wse=True)
    await add(gateway, producer, profile=profile, actions=["urn:a/b"])
    told = await producer.asked("Subscribe")
    [filter_] = told.message.root.iter(f"{{{WSE}}}Filter")
    assert (filter_.get("Dialect"), filter_.text) == (dialect, "urn:a/b")
    assert told.message.root.find(f".//{{{wsa}}}Action") is not None


async def test_reference_parameters_of_a_manager_come_back(
    gateway: Running, some: Producers
) -> None:
    producer = some.add(wse=True)
    producer.grants = "PT2S"
    await add(gateway, producer)
    told = await producer.asked("Renew")
    assert told.text("Id") == producer.one.parameters


REFUSED = [
    pytest.param({"url": "http://10.1.2.3/"}, "The policy of this gateway", id="address"),
    pytest.param(
        {"url": "soap.tcp://127.0.0.1:9/"}, "A producer is asked over http", id="no answers"
    ),
    pytest.param({"url": "nonsense"}, "This is not an address to send to", id="no address"),
    pytest.param({"spec": "x"}, "spec: 'x' is not offered", id="spec"),
    pytest.param({"topic": "a b"}, "topic", id="topic"),
    pytest.param({"topic": "p:a"}, "prefix", id="prefix"),
    pytest.param({"xpath": "/a["}, "", id="XPath"),
    pytest.param({"lease": "soon"}, "lease: must be seconds, or a duration", id="lease"),
    pytest.param({"lease": 0.5}, "A lease is from 1 second", id="short lease"),
    pytest.param({"publish_on": "a//."}, '"a//." does not name one topic', id="pattern"),
    pytest.param({"profile": "x"}, "There is no such profile", id="profile"),
    pytest.param({"silence": -1}, "silence", id="silence"),
    pytest.param({"actions": ["urn:a"]}, "has no filter of actions", id="actions in WSN"),
    pytest.param({"actions": ["urn:a b"]}, "actions", id="no action"),
    pytest.param(
        {"actions": ["urn:a"], "topic": "a", "spec": "wse-2004-08"},
        "goes with no topic",
        id="actions and a topic",
    ),
]


@pytest.mark.parametrize(("asked", "said"), REFUSED)
async def test_what_is_refused(
    gateway: Running, some: Producers, asked: dict[str, Any], said: str
) -> None:
    body = {"url": some.add().url, **asked}
    answer = await gateway.api("POST", "/sources", json.dumps(body).encode())
    assert answer.status in (400, 422)
    assert said in json.loads(answer.body)["detail"]


async def test_sources_are_listed_page_by_page(gateway: Running, some: Producers) -> None:
    added = {await add(gateway, some.add()) for _ in range(3)}
    seen: set[str] = set()
    after = ""
    while True:
        page = json.loads((await gateway.api("GET", f"/sources?limit=2&after={after}")).body)
        seen |= {one["id"] for one in page["sources"]}
        if page["next"] is None:
            break
        after = page["next"]
    assert added <= seen


async def test_the_metrics_say_how_many_stand_how(gateway: Running, some: Producers) -> None:
    id_ = await add(gateway, some.add())
    await state(gateway, id_, "live")
    text = (await gateway.admin("GET", "/metrics")).body.decode()
    found = re.search(r'^dragoman_sources\{state="live"\} (\S+)$', text, re.MULTILINE)
    assert found is not None and float(found[1]) >= 1
    assert "dragoman_source_events_total" in text


async def test_what_is_not_for_a_source_is_refused_there(gateway: Running, some: Producers) -> None:
    producer = some.add()
    id_ = await add(gateway, producer)
    await state(gateway, id_, "live")
    path = urlsplit(producer.one.consumer).path
    subscribe = Speaker().wse_subscribe("http://consumer.example.org/")
    answer = await gateway.ask(Speaker(), subscribe, path)
    assert answer.status == 400
    end = f'<e:SubscriptionEnd xmlns:e="{WSE}"/>'
    assert (await gateway.ask(Speaker(), end, "/soap")).status == 400


async def remove(gateway: Running, id_: str) -> None:
    """Remove a source, and wait until it is gone."""
    await gateway.api("DELETE", f"/sources/{id_}")

    async def gone() -> bool:
        return (await gateway.api("GET", f"/sources/{id_}")).status == 404

    await until(gone)


async def test_a_store_that_fails_loses_no_subscription(tmp_path: Path, some: Producers) -> None:
    """What a producer grants while another program has the store is kept once it has gone."""
    producer = some.add()
    async with running(tmp_path) as run:
        store = run.gateway.store
        assert store.folder is not None
        with contextlib.closing(
            sqlite3.connect(store.folder / "store.db", isolation_level=None)
        ) as another:

            def grant(_: Producer, told: Told) -> tuple[int, bytes]:
                another.execute("BEGIN IMMEDIATE")
                return producer._do(told)

            producer.answers["Subscribe"] = grant
            id_ = await add(run, producer)
            await run.until(lambda: not store.writable)
            another.execute("ROLLBACK")
            del producer.answers["Subscribe"]
            now = await state(run, id_, "live")
            assert now["manager"].endswith(producer.one.id)
            assert producer.count("Subscribe") == 1


@pytest.mark.parametrize("left", [State.SUBSCRIBING, State.LOST])
async def test_an_end_that_was_told_before_a_crash_is_carried_out_once(
    tmp_path: Path, some: Producers, left: State
) -> None:
    """Of a subscription whose lease was over when the next one was begun."""
    producer = some.add()
    async with running(tmp_path) as run:
        id_ = await add(run, producer)
        await state(run, id_, "live")
    producer.forget()

    def crashed(standing: Standing) -> Standing:
        pending = "next" if left is State.SUBSCRIBING else None
        over = time.time() - 1.0
        return replace(standing, state=left, pending=pending, expires=over, due=None)

    store = Store.at(tmp_path)
    await store.start()
    try:
        [row] = await store.submit(rows.load)
        assert row.standing.key is not None
        told = EndTold(row.standing.key, "TerminationNotification")
        await store.submit(partial(rows.keep, id_=id_, standing=crashed(row.standing)))
        await store.submit(partial(rows.end, id_=id_, told=told))
    finally:
        await store.close()
    async with running(tmp_path) as run:
        await producer.asked("Subscribe", 2)
        await state(run, id_, "live")
        entry = run.gateway.sources.by_id(id_)
        assert entry is not None
        # Some for the end, and two for each Subscribe.
        assert entry.row.revision <= row.revision + 10


@pytest.mark.parametrize("wse", [False, True])
async def test_an_end_may_be_told_before_subscribe_is_answered(
    gateway: Running, some: Producers, wse: bool
) -> None:
    producer = some.add(wse=wse)
    statuses: list[int] = []

    async def end(_: Producer) -> None:
        del producer.meanwhile["Subscribe"]
        statuses.append(await producer.end())

    producer.meanwhile["Subscribe"] = end
    id_ = await add(gateway, producer)
    await producer.asked("Subscribe", 2)
    assert statuses == [202]
    now = await state(gateway, id_, "live")
    assert now["last_error"].startswith("The producer ended the subscription")


@pytest.mark.slow
@pytest.mark.parametrize("wse", [False, True])
async def test_a_gateway_whose_address_changed(tmp_path: Path, some: Producers, wse: bool) -> None:
    """It subscribes anew at once, and says why; the subscription at the former address is ended."""
    producer = some.add(wse=wse)
    async with running(tmp_path, public_url="http://127.0.0.1:8001") as run:
        id_ = await add(run, producer, lease="PT6S", silence=0)
        await state(run, id_, "live")
    async with running(tmp_path, public_url="http://127.0.0.1:8001"):
        await producer.asked("Renew", producer.count("Renew") + 1)
    assert producer.count("Subscribe") == 1
    async with running(tmp_path, public_url="http://127.0.0.1:8002") as run:
        await producer.asked("Subscribe", 2)
        await producer.asked("Unsubscribe")
        how = await state(run, id_, "live")
        assert "Our own address was http://127.0.0.1:8001" in how["last_error"]
        assert producer.one.consumer.startswith("http://127.0.0.1:8002/sources/")
