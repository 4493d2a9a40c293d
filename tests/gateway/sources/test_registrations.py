"""Publishers that register, and those that are subscribed at on demand."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from mediation import names
from mediation.model.expiry import format_seconds
from mediation.model.versions import Wsa
from mediation.names import WSN_1_3, WSN_BR_1_3, WSRF_R
from tests.gateway.sources.test_sources import shown, state
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    RL,
    RP,
    S11,
    Speaker,
    notification_message,
    notify,
    topic_expression,
)
from tests.rigs.gateways import Running, running
from tests.rigs.producers import Producer, Producers, fault, producers, status
from tests.rigs.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
SPEAKER = Speaker()
BARE = Speaker(S11, None)
"""Apache CXF: SOAP 1.1, no headers at all."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def some() -> AsyncIterator[Producers]:
    async with producers() as those:
        yield those


def register(
    publisher: str | None = None, topic: str | None = None, *, demand: bool = False, inner: str = ""
) -> str:
    reference = (
        f"<b:PublisherReference>{SPEAKER.epr(publisher)}</b:PublisherReference>"
        if publisher
        else ""
    )
    named = "" if topic is None else f"<b:Topic>{topic}</b:Topic>"
    return (
        f'<b:RegisterPublisher xmlns:b="{WSN_BR_1_3}">{reference}{named}'
        f"<b:Demand>{str(demand).lower()}</b:Demand>{inner}</b:RegisterPublisher>"
    )


def until_then(seconds: float) -> str:
    time = format_seconds(datetime.now(UTC) + timedelta(seconds=seconds))
    return f"<b:InitialTerminationTime>{time}</b:InitialTerminationTime>"


async def registered(gateway: Running, body: str, speaker: Speaker = SPEAKER) -> str:
    """Register; the path of the registration."""
    answer = await gateway.ask(speaker, body)
    assert answer.status == 200, answer.body
    address = answer.message.text(
        f"{{{WSN_BR_1_3}}}RegisterPublisherResponse/"
        f"{{{WSN_BR_1_3}}}PublisherRegistrationReference/"
        "{http://www.w3.org/2005/08/addressing}Address"
    )
    path: str = address[address.index("/", 8) :]
    assert path.startswith("/publishers/")
    return path


async def source_of(gateway: Running, producer: Producer) -> dict[str, Any]:
    """The source of a registered publisher."""
    answer = await gateway.api("GET", "/sources?limit=1000")
    [one] = [each for each in json.loads(answer.body)["sources"] if each["url"] == producer.url]
    return dict(one)


async def sources_of(gateway: Running, producer: Producer) -> list[str]:
    answer = await gateway.api("GET", "/sources?limit=1000")
    listed = json.loads(answer.body)["sources"]
    return [each["state"] for each in listed if each["url"] == producer.url]


def destroy_registration() -> str:
    return f'<b:DestroyRegistration xmlns:b="{WSN_BR_1_3}"/>'


# Registrations.


@pytest.mark.parametrize("speaker", [SPEAKER, BARE], ids=["SOAP 1.2", "CXF"])
async def test_a_registration_is_destroyed_once(gateway: Running, speaker: Speaker) -> None:
    path = await registered(gateway, register(topic="storms"), speaker)
    answer = await gateway.ask(speaker, destroy_registration(), path)
    assert answer.status == 200, answer.body
    assert answer.message.body[0].tag == f"{{{WSN_BR_1_3}}}DestroyRegistrationResponse"
    again = await gateway.ask(speaker, destroy_registration(), path)
    assert again.fault.element == f"{{{WSRF_R}}}ResourceUnknownFault"


async def test_a_registration_is_named_by_to_alone(gateway: Running) -> None:
    path = await registered(gateway, register())
    answer = await gateway.ask(SPEAKER, destroy_registration(), "/soap", to=f"{gateway.url}{path}")
    assert answer.status == 200, answer.body


async def test_a_registration_is_a_resource(gateway: Running) -> None:
    path = await registered(gateway, register("http://p.example.org/", "storms"))
    document = f'<r:GetResourcePropertyDocument xmlns:r="{RP}"/>'
    answer = await gateway.ask(SPEAKER, document, path)
    names = [element.tag for element in answer.message.body[0].iter()]
    assert f"{{{WSN_BR_1_3}}}PublisherRegistrationRP" in names
    assert f"{{{WSN_BR_1_3}}}Topic" in names
    longer = (
        f'<l:SetTerminationTime xmlns:l="{RL}"><l:RequestedLifetimeDuration>PT1H'
        "</l:RequestedLifetimeDuration></l:SetTerminationTime>"
    )
    answer = await gateway.ask(SPEAKER, longer, path)
    assert answer.message.text(
        f"{{{RL}}}SetTerminationTimeResponse/{{{RL}}}NewTerminationTime"
    ).endswith("Z")
    assert (await gateway.ask(SPEAKER, f'<l:Destroy xmlns:l="{RL}"/>', path)).status == 200
    gone = await gateway.ask(SPEAKER, document, path)
    assert gone.fault.element == f"{{{WSRF_R}}}ResourceUnknownFault"


async def test_a_registration_ends_with_its_time(gateway: Running) -> None:
    path = await registered(gateway, register(inner=until_then(2.0)))

    async def gone() -> bool:
        answer = await gateway.ask(
            SPEAKER, f'<r:GetResourcePropertyDocument xmlns:r="{RP}"/>', path
        )
        return answer.status != 200

    await until(gone)
    await until(
        lambda: all(not path.endswith(one.key) for one in gateway.gateway.registrations.all)
    )


async def test_a_time_that_is_over_is_refused(gateway: Running) -> None:
    answer = await gateway.ask(SPEAKER, register(inner=until_then(-60.0)))
    assert answer.fault.element == f"{{{WSN_1_3}}}UnacceptableInitialTerminationTimeFault"


async def test_a_publisher_at_a_forbidden_address_is_rejected(gateway: Running) -> None:
    answer = await gateway.ask(SPEAKER, register("http://10.1.2.3/", "storms", demand=True))
    assert answer.fault.element == f"{{{WSN_BR_1_3}}}PublisherRegistrationRejectedFault"


async def test_whoever_publishes_need_not_register(gateway: Running) -> None:
    await gateway.publish(notify(notification_message("<a/>", "anything")))


async def test_what_nobody_registered_is_refused_where_that_is_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path, requires_registration=True) as run:
        event = notify(notification_message("<a/>", "storms/coast"))
        answer = await run.ask(SPEAKER, event)
        assert answer.fault.element == f"{{{WSN_1_3}}}TopicNotSupportedFault"
        full = '<b:Topic Dialect="http://docs.oasis-open.org/wsn/t-1/TopicExpression/Full">'
        path = await registered(run, register(inner=f"{full}storms//.</b:Topic>"))
        assert (await run.ask(SPEAKER, event)).status == 202
        other = await run.ask(SPEAKER, notify(notification_message("<a/>", "quakes")))
        assert other.fault.element == f"{{{WSN_1_3}}}TopicNotSupportedFault"
        asked = (
            f'<r:GetResourceProperty xmlns:r="{RP}" xmlns:b="{WSN_BR_1_3}">'
            "b:RequiresRegistration</r:GetResourceProperty>"
        )
        said = await run.ask(SPEAKER, asked)
        assert b">true</" in said.body
        await run.ask(SPEAKER, destroy_registration(), path)
        assert (await run.ask(SPEAKER, event)).status != 202


# Demand.


async def subscribe(gateway: Running, url: str, topic: str) -> str:
    return await gateway.subscribe(
        SPEAKER, SPEAKER.wsn_subscribe(url, filter=topic_expression(topic))
    )


async def unsubscribe(gateway: Running, manager: str) -> None:
    answer = await gateway.ask(SPEAKER, f'<n:Unsubscribe xmlns:n="{WSN_1_3}"/>', manager)
    assert answer.status == 200


async def test_a_publisher_is_paused_while_nobody_wants_what_it_has(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    """As WebSphere's publishers have it: one subscription, paused and resumed."""
    producer = some.add()
    await registered(gateway, register(producer.url, "demanded", demand=True))
    before = await source_of(gateway, producer)
    assert (before["state"], before["topic"]) == ("idle", "demanded")
    other = await subscribe(gateway, consumer.fresh(), "quakes")
    url = consumer.fresh()
    first = await subscribe(gateway, url, "demanded")
    await producer.asked("Subscribe")
    assert producer.one.topic == "demanded"
    await state(gateway, before["id"], "live")
    assert await producer.send("<w>1</w>", topic="demanded") == 202
    assert (await consumer.next(url)).payload.text == "1"
    await unsubscribe(gateway, first)
    await producer.asked("PauseSubscription")
    await state(gateway, before["id"], "paused")
    await subscribe(gateway, consumer.fresh(), "demanded")
    await producer.asked("ResumeSubscription")
    await state(gateway, before["id"], "live")
    await unsubscribe(gateway, other)
    assert [one.operation for one in producer.told] == [
        "Subscribe", "PauseSubscription", "ResumeSubscription"
    ]  # fmt: skip


async def test_a_publisher_that_cannot_pause_is_unsubscribed(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    """As Apache CXF's publishers have it: SOAP 1.1, no addressing, Subscribe and Unsubscribe."""
    producer = some.add()
    for operation in ("PauseSubscription", "ResumeSubscription", "Renew", "GetResourceProperty"):
        producer.answers[operation] = fault("Not here.")
    await registered(gateway, register(producer.url, "cxf", demand=True), BARE)
    for number in (1, 2):
        manager = await subscribe(gateway, consumer.fresh(), "cxf")
        told = await producer.asked("Subscribe", number)
        assert told.message.soap is S11
        assert told.message.headers == []
        await state(gateway, (await source_of(gateway, producer))["id"], "live")
        await unsubscribe(gateway, manager)
        await producer.asked("Unsubscribe", number)
        await state(gateway, (await source_of(gateway, producer))["id"], "idle")
    assert producer.count("PauseSubscription") == 1


async def test_reference_parameters_come_back_to_who_sends_no_addressing(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    producer = some.add()
    await registered(gateway, register(producer.url, "bare", demand=True), BARE)
    manager = await subscribe(gateway, consumer.fresh(), "bare")
    assert (await producer.asked("Subscribe")).message.headers == []
    await state(gateway, (await source_of(gateway, producer))["id"], "live")
    await unsubscribe(gateway, manager)
    told = await producer.asked("PauseSubscription")
    assert told.text("Id") == producer.one.parameters
    await state(gateway, (await source_of(gateway, producer))["id"], "paused")


async def test_every_topic_is_wanted_by_itself(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    producer = some.add()
    both = "<b:Topic>left</b:Topic><b:Topic>right</b:Topic>"
    path = await registered(gateway, register(producer.url, demand=True, inner=both))
    await subscribe(gateway, consumer.fresh(), "right")
    await producer.asked("Subscribe")

    async def settled() -> bool:
        return sorted(await sources_of(gateway, producer)) == ["idle", "live"]

    await until(settled)
    assert producer.one.topic == "right"
    await gateway.ask(SPEAKER, destroy_registration(), path)
    await producer.asked("Unsubscribe")

    async def gone() -> bool:
        return await sources_of(gateway, producer) == []

    await until(gone)


async def test_a_publisher_that_restarts_registers_once(gateway: Running, some: Producers) -> None:
    producer = some.add()
    first = await registered(gateway, register(producer.url, "again", demand=True))
    await registered(gateway, register(producer.url, "again", demand=True))

    async def one() -> bool:
        return len(await sources_of(gateway, producer)) == 1

    await until(one)
    gone = await gateway.ask(SPEAKER, destroy_registration(), first)
    assert gone.fault.element == f"{{{WSRF_R}}}ResourceUnknownFault"


async def test_a_publisher_that_is_away_is_subscribed_at_later(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    producer = some.add()
    producer.answers["Subscribe"] = status(503)
    await registered(gateway, register(producer.url, "later", demand=True))
    await subscribe(gateway, consumer.fresh(), "later")
    await producer.asked("Subscribe", 2)
    id_ = (await source_of(gateway, producer))["id"]
    assert "answered 503" in (await shown(gateway, id_))["last_error"]
    del producer.answers["Subscribe"]
    await state(gateway, id_, "live")


async def test_demand_survives_a_restart_of_the_gateway(
    tmp_path: Path, consumer: Consumers, some: Producers
) -> None:
    producer = some.add()
    data, public = tmp_path / "data", "http://127.0.0.1:8001"  # The port is another one each time.
    async with running(data, adapter="embedded:", public_url=public) as run:
        await registered(run, register(producer.url, "kept", demand=True))
        manager = await subscribe(run, consumer.fresh(), "kept")
        await producer.asked("Subscribe")
        id_ = (await source_of(run, producer))["id"]
        await state(run, id_, "live")
    held = producer.one
    async with running(data, adapter="embedded:", public_url=public) as run:
        now = await state(run, id_, "live")
        assert now["manager"].endswith(held.id)
        await unsubscribe(run, manager)
        await producer.asked("PauseSubscription")
    assert producer.count("Subscribe") == 1


# The drafts.


@pytest.mark.parametrize(
    ("namespace", "lifetime", "wsa"),
    [
        pytest.param(names.WSN_BR_2004_06, names.WSRF_RL_2004_06, Wsa.V2003_03, id="1.2"),
        pytest.param(names.WSN_BR_IBM, names.WSRF_RL_IBM, Wsa.V2005_08, id="1.0"),
    ],
)
async def test_a_publisher_of_a_draft_registers_and_destroys(
    gateway: Running, namespace: str, lifetime: str, wsa: Wsa
) -> None:
    speaker = Speaker(S11, wsa)
    body = f'<b:RegisterPublisher xmlns:b="{namespace}"><b:Topic>orders</b:Topic>'
    answer = await gateway.ask(speaker, f"{body}</b:RegisterPublisher>")
    assert answer.status == 200, answer.body
    address = answer.message.text(
        f"{{{namespace}}}RegisterPublisherResponse/"
        f"{{{namespace}}}PublisherRegistrationReference/{{{wsa.value}}}Address"
    )
    path = address[address.index("/", 8) :]
    destroy = f'<l:Destroy xmlns:l="{lifetime}"/>'
    assert (await gateway.ask(speaker, destroy, path)).status == 200
    gone = await gateway.ask(speaker, destroy, path)
    assert gone.fault.element.endswith("}ResourceUnknownFault")
