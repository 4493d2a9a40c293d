"""Services of WS-Management as sources: what they are asked, and where they go on."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from lxml import etree

from mediation.names import WSMAN, WSMAN_EARLIEST
from tests.gateway.sources.test_sources import add, shown, state
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import Speaker, notification_message, notify
from tests.rigs.gateways import Running, running
from tests.rigs.producers import Producer, Producers, Told, fault, producers

pytestmark = pytest.mark.asyncio(loop_scope="module")
RESOURCE = "http://example.org/wsman/alarms"
MARK = f'<w:Bookmark xmlns:w="{WSMAN}"><at xmlns="urn:mark">17</at></w:Bookmark>'
MANAGED = {"profile": "wsman", "resource": RESOURCE, "publish_on": "alarms"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def some() -> AsyncIterator[Producers]:
    async with producers() as those:
        yield those


async def live(gateway: Running, producer: Producer, **asked: Any) -> str:
    id_ = await add(gateway, producer, **{**MANAGED, **asked})
    await state(gateway, id_, "live")
    return id_


def bookmark(told: Told) -> str | None:
    """What stands in the bookmark of a request."""
    for element in told.message.root.iter(f"{{{WSMAN}}}Bookmark"):
        if not len(element):
            return element.text
        [mark] = element
        return f"{etree.QName(mark).localname} {mark.text}"
    return None


async def lose(gateway: Running, producer: Producer, id_: str, times: int) -> Told:
    """Have the subscription end; the *times*-th Subscribe."""
    await producer.end()
    told = await producer.asked("Subscribe", times)
    await state(gateway, id_, "live")
    return told


async def test_what_a_service_is_asked(gateway: Running, some: Producers) -> None:
    producer = some.add(wse=True)
    await live(gateway, producer, mode="events", silence=120)
    told = producer.last("Subscribe")
    [resource] = told.message.root.iter(f"{{{WSMAN}}}ResourceURI")
    assert resource.text == RESOURCE
    assert resource.get(f"{{{told.message.soap.value}}}mustUnderstand") == "true"
    [delivery] = told.message.root.iter("{*}Delivery")
    assert delivery.get("Mode") == f"{WSMAN.removesuffix('.xsd')}/Events"
    assert told.text("Heartbeats") == "PT1M"
    assert [one.tag for one in told.message.root.iter("{*}SendBookmarks")]
    assert bookmark(told) is None


async def test_who_is_never_asked_has_no_heartbeats(gateway: Running, some: Producers) -> None:
    producer = some.add(wse=True)
    await live(gateway, producer, silence=0)
    assert producer.last("Subscribe").text("Heartbeats") is None


@pytest.mark.parametrize("mode", ["push", "events"])
async def test_a_silence_that_is_too_short_for_heartbeats(
    gateway: Running, some: Producers, mode: str
) -> None:
    """The refusal speaks of what was asked for, not of what would be made of it."""
    producer = some.add(wse=True)
    asked = {"url": producer.url, "spec": "wse-2004-08", "profile": "wsman", "mode": mode}
    asked |= {"resource": RESOURCE, "publish_on": "alarms"}
    for silence in (0.5, 6, 9.9):
        body = json.dumps({**asked, "silence": silence}).encode()
        answer = await gateway.api("POST", "/sources", body)
        assert answer.status == 400
        said = json.loads(answer.body)["detail"]
        assert said == "With the profile wsman, silence is 10 seconds or more, or 0."
    await live(gateway, producer, mode=mode, silence=10)
    assert producer.last("Subscribe").text("Heartbeats") == "PT5S"


async def test_requests_to_a_manager_name_the_resource(gateway: Running, some: Producers) -> None:
    producer = some.add(wse=True)
    id_ = await live(gateway, producer)
    await gateway.api("DELETE", f"/sources/{id_}")
    told = await producer.asked("Unsubscribe")
    assert told.text("ResourceURI") == RESOURCE


async def test_a_service_goes_on_behind_its_last_bookmark(
    gateway: Running, some: Producers
) -> None:
    producer = some.add(wse=True)
    id_ = await live(gateway, producer)
    assert await producer.send("<a/>", headers=MARK) == 202
    assert bookmark(await lose(gateway, producer, id_, 2)) == "at 17"
    assert await producer.send("<a/>", headers=MARK.replace("17", "18")) == 202
    assert await producer.send("<a/>") == 202
    assert bookmark(await lose(gateway, producer, id_, 3)) == "at 18"


@pytest.mark.parametrize("subcode", ["InvalidBookmark", "UnsupportedFeature"])
async def test_a_bookmark_that_is_refused_is_forgotten(
    gateway: Running, some: Producers, subcode: str
) -> None:
    producer = some.add(wse=True)
    id_ = await live(gateway, producer)
    assert await producer.send("<a/>", headers=MARK) == 202

    def only_without(of: Producer, told: Told) -> tuple[int, bytes] | None:
        if bookmark(told) is not None:
            return fault("Gone.", subcode=subcode)(of, told)
        del of.answers["Subscribe"]
        return of._do(told)

    producer.answers["Subscribe"] = only_without
    told = await lose(gateway, producer, id_, 3)
    assert bookmark(producer.told[-2]) == "at 17"
    assert bookmark(told) is None
    assert bookmark(await lose(gateway, producer, id_, 4)) is None


async def test_what_a_service_has_kept_is_asked_for(gateway: Running, some: Producers) -> None:
    producer = some.add(wse=True)
    id_ = await live(gateway, producer, existing=True)
    assert (await shown(gateway, id_))["existing"] is True
    assert bookmark(producer.last("Subscribe")) == WSMAN_EARLIEST
    assert bookmark(await lose(gateway, producer, id_, 2)) == WSMAN_EARLIEST
    assert await producer.send("<a/>", headers=MARK) == 202
    assert bookmark(await lose(gateway, producer, id_, 3)) == "at 17"


@pytest.mark.parametrize("subcode", ["InvalidBookmark", "UnsupportedFeature"])
async def test_a_service_that_has_kept_nothing(
    gateway: Running, some: Producers, subcode: str
) -> None:
    producer = some.add(wse=True)

    def only_without(of: Producer, told: Told) -> tuple[int, bytes] | None:
        if bookmark(told) is not None:
            return fault("Nothing is kept.", subcode=subcode)(of, told)
        return of._do(told)

    producer.answers["Subscribe"] = only_without
    await live(gateway, producer, existing=True)
    assert bookmark(producer.told[-2]) == WSMAN_EARLIEST
    assert bookmark(producer.last("Subscribe")) is None


async def test_a_lost_bookmark_is_followed_by_what_is_left(
    gateway: Running, some: Producers
) -> None:
    producer = some.add(wse=True)
    id_ = await live(gateway, producer, existing=True)
    assert await producer.send("<a/>", headers=MARK) == 202

    def not_behind(of: Producer, told: Told) -> tuple[int, bytes] | None:
        if bookmark(told) == "at 17":
            return fault("Gone.", subcode="InvalidBookmark")(of, told)
        return of._do(told)

    producer.answers["Subscribe"] = not_behind
    assert bookmark(await lose(gateway, producer, id_, 3)) == WSMAN_EARLIEST
    assert bookmark(producer.told[-2]) == "at 17"


async def test_another_refusal_leaves_the_bookmark(gateway: Running, some: Producers) -> None:
    producer = some.add(wse=True)
    id_ = await live(gateway, producer)
    assert await producer.send("<a/>", headers=MARK) == 202

    def once(of: Producer, told: Told) -> tuple[int, bytes] | None:
        del of.answers["Subscribe"]
        return fault("Too many.", subcode="QuotaLimit")(of, told)

    producer.answers["Subscribe"] = once
    assert bookmark(await lose(gateway, producer, id_, 3)) == "at 17"


async def test_a_heartbeat_is_a_sign_of_life(gateway: Running, some: Producers) -> None:
    producer = some.add(wse=True)
    id_ = await live(gateway, producer)
    before = (await shown(gateway, id_))["last_event"]
    body = f'<w:Events xmlns:w="{WSMAN}"/>'
    action = f"{WSMAN.removesuffix('.xsd')}/Heartbeat"
    assert await producer._post(producer.one.consumer, body, action) in (200, 202)
    after = await shown(gateway, id_)
    assert after["last_event"] != before
    assert after["events"] == 0


@pytest.mark.parametrize("mode", ["push", "push-with-ack", "events", "pull"])
async def test_another_gateway_in_each_mode(
    gateway: Running, consumer: Consumers, tmp_path_factory: pytest.TempPathFactory, mode: str
) -> None:
    """Events come, are acknowledged where that is asked for, and are not sent again."""
    url, topic = consumer.fresh(), f"managed/{mode}"
    await gateway.subscribe(Speaker(), Speaker().wse_subscribe(url))
    async with running(tmp_path_factory.mktemp("service")) as other:
        asked = {"url": f"{other.url}/wsman", "spec": "wse-2004-08", "mode": mode, "topic": topic}
        answer = await gateway.api("POST", "/sources", json.dumps({**MANAGED, **asked}).encode())
        assert answer.status == 201, answer.body
        id_ = json.loads(answer.body)["id"]
        await state(gateway, id_, "live")
        for number in range(3):
            event = f"<e xmlns='urn:e'><n>{number}</n></e>"
            await other.publish(notify(notification_message(event, topic)))
        assert [(await consumer.next(url)).number for _ in range(3)] == ["0", "1", "2"]
        await other.quiet()  # All are acknowledged.
        listed = json.loads((await other.api("GET", "/subscriptions?limit=10")).body)
        assert [one["mode"]["mode"] for one in listed["subscriptions"]] == [mode]
        assert (await shown(gateway, id_))["events"] == 3


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"profile": "standard", "resource": RESOURCE}, "wsman"),
        ({"profile": "standard", "mode": "events"}, "wsman"),
        ({"profile": "standard", "existing": True}, "wsman"),
        ({"profile": "wsman"}, "with a resource"),
        ({"profile": "wsman", "resource": RESOURCE, "spec": "wsn-1.3"}, "wse-2004-08"),
        ({"profile": "wsman", "resource": RESOURCE, "mode": "batch"}, "push-with-ack"),
    ],
)
async def test_what_is_refused(gateway: Running, asked: dict[str, str], said: str) -> None:
    body = {"url": "http://127.0.0.1:9/wsman", "spec": "wse-2004-08", **asked}
    answer = await gateway.api("POST", "/sources", json.dumps(body).encode())
    assert answer.status in (400, 422)
    assert said in answer.body.decode()
