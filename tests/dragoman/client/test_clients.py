"""Every client against a gateway in this process: the class decides what is spoken."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from lxml import etree

from dragoman.client import (
    Client,
    CloudEventsClient,
    DsubClient,
    Event,
    GatewayError,
    GridEventsClient,
    OnvifClient,
    Subscription,
    UnsupportedOperation,
    WseClient,
    WsManagementClient,
    WsMessengerClient,
    WsnClient,
    listening,
)
from dragoman.client import Consumer as EventConsumer
from dragoman.client.base import Credentials
from dragoman.events import event_type
from gateway.client import Consumer, EventClient
from gateway.delivery.verdicts import Verdict
from tests.rigs.document_metadata import document, submission
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import DEADLINE, cancel_wait, until

NOWHERE = "http://127.0.0.1:59999/"
MAKERS: dict[str, Callable[..., Client]] = {
    "wse 2004/08": WseClient,
    "wse 2004/08 soap 1.1": lambda url, **how: WseClient(url, soap="1.1", **how),
    "dpws": lambda url, **how: WseClient(url, addressing="2005/08", **how),
    "wse 2011/03": lambda url, **how: WseClient(url, version="2011/03", **how),
    "wsn 1.3": WsnClient,
    "wsn 1.3 soap 1.1": lambda url, **how: WsnClient(url, soap="1.1", **how),
    "dsub": DsubClient,
    "wsn 1.2": lambda url, **how: WsnClient(url, version="1.2", **how),
    "wsn 1.0": lambda url, **how: WsnClient(url, version="1.0", **how),
    "ws-management": WsManagementClient,
    "ws-management acknowledged": lambda url, **how: WsManagementClient(
        url, acknowledged=True, **how
    ),
    "ws-messenger": WsMessengerClient,
    "cloudevents": CloudEventsClient,
    "grid events": GridEventsClient,
}
EACH = pytest.mark.parametrize("make", list(MAKERS.values()), ids=list(MAKERS))
PAUSING = {"wsn 1.3", "dsub", "wsn 1.3 soap 1.1", "wsn 1.2", "wsn 1.0"}


@event_type("urn:weather")
@dataclass
class Storm:
    speed: float


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as run:
        yield run


async def mailboxes(gateway: Running) -> list[Any]:
    answer = await gateway.admin("GET", "/api/v1/mailboxes")
    return list(json.loads(answer.body)["mailboxes"])


async def soon(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, DEADLINE)


@EACH
async def test_what_is_published_is_heard(gateway: Running, make: Callable[..., Client]) -> None:
    async with make(gateway.url) as client, client.listen(topic="storms") as events:
        await client.publish("<speed>120</speed>", topic="storms")
        event = await soon(anext(events))
        assert (event.topic, event.element.text) == ("storms", "120")
        # An element of lxml, and a dataclass.
        await client.publish(etree.fromstring("<a><b/></a>"), topic="storms")
        assert (await soon(anext(events))).element.tag == "a"
        await client.publish(Storm(120.5), topic="storms")
        assert (await soon(anext(events))).into(Storm) == Storm(120.5)
    assert len(gateway.gateway.subscriptions) == 0 or make is GridEventsClient


@EACH
async def test_what_is_kept_is_pulled(gateway: Running, make: Callable[..., Client]) -> None:
    async with make(gateway.url) as client:
        try:
            subscription = await client.subscribe(topic="storms")
        except UnsupportedOperation as error:
            # CloudEvents, and the drafts of WS-Notification.
            assert "not kept" in str(error) or "has no CreatePullPoint" in str(error)
            return
        assert subscription.pull_point
        assert await client.pull(subscription, wait=timedelta(0)) == []
        for speed in range(3):
            await client.publish(f"<speed>{speed}</speed>", topic="storms")
        taken: list[Event] = []
        while len(taken) < 3:
            taken += await soon(client.pull(subscription, most=2))
        assert [event.element.text for event in taken] == ["0", "1", "2"]
        await client.unsubscribe(subscription)
        assert await mailboxes(gateway) == []


@EACH
async def test_what_is_refused_leaves_no_mailbox(
    gateway: Running, make: Callable[..., Client]
) -> None:
    async with make(gateway.url) as client:
        with pytest.raises((GatewayError, UnsupportedOperation)):
            await client.subscribe(xpath="/a[")
        assert await mailboxes(gateway) == []


@EACH
async def test_a_subscription_lives_and_ends(
    gateway: Running, make: Callable[..., Client], request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    async with make(gateway.url) as client:
        subscription = await client.subscribe(NOWHERE, lease=timedelta(minutes=1))
        first = subscription.expires
        assert first is not None and first > datetime.now(UTC)
        await client.renew(subscription, timedelta(minutes=5))
        assert subscription.expires is not None
        assert subscription.expires - first > timedelta(minutes=3)
        if name == "grid events":
            with pytest.raises(UnsupportedOperation):
                await client.status(subscription)
        else:
            await client.status(subscription)
            assert subscription.expires - first > timedelta(minutes=3)
        if name in PAUSING:
            await client.pause(subscription)
            [entry] = gateway.gateway.subscriptions.entries
            assert entry.subscription.policy.paused
            await client.resume(subscription)
        else:
            for refused in (client.pause, client.resume):
                with pytest.raises(UnsupportedOperation):
                    await refused(subscription)
        with pytest.raises(UnsupportedOperation, match="not pulled"):
            await client.pull(subscription)
        await client.unsubscribe(subscription)
        if name != "grid events":
            with pytest.raises(GatewayError) as gone:
                await client.status(subscription)
            assert gone.value.is_final


@EACH
async def test_properties_select(
    gateway: Running, make: Callable[..., Client], request: pytest.FixtureRequest
) -> None:
    selector = {"region": "north"}
    async with make(gateway.url) as client, Consumer() as consumer:
        if request.node.callspec.id in ("grid events", "dsub"):
            with pytest.raises(UnsupportedOperation, match=r"no (properties|query)"):
                await client.subscribe(consumer.address, selector=selector)
            return
        await client.subscribe(consumer.address, topic="storms", selector=selector)
        for region in ("south", "north"):
            await client.publish(f"<{region}/>", topic="storms", properties={"region": region})
        [notification] = (await soon(consumer.receive())).notifications
        assert notification.payload.startswith(b"<north")
        with pytest.raises((UnsupportedOperation, GatewayError)):
            # The journal evaluates no message selectors; brokers of JMS do.
            await client.subscribe(consumer.address, selector="region = 'north'")


async def test_deliveries_are_acknowledged_where_that_is_asked_for(gateway: Running) -> None:
    async with (
        WsManagementClient(gateway.url, acknowledged=True) as client,
        client.listen(topic="storms") as events,
    ):
        [entry] = gateway.gateway.subscriptions.entries
        assert entry.subscription.policy.delivery.acknowledged
        await client.publish("<a/>", topic="storms")
        await soon(anext(events))
        dispatchers = gateway.gateway.dispatchers
        await until(lambda: dispatchers.scheduler.verdicts[Verdict.DELIVERED] == 1)


async def test_topics_of_ws_messenger_have_no_wildcards() -> None:
    async with WsMessengerClient("http://127.0.0.1:1") as client:
        with pytest.raises(UnsupportedOperation, match="compares whole topics"):
            await client.subscribe(NOWHERE, topic="storms//.")


async def test_an_interrupted_pull_is_answered_again(gateway: Running) -> None:
    async with WsManagementClient(gateway.url) as client:
        subscription = await client.subscribe(topic="storms")
        context = subscription.granted.context
        assert context is not None and b"EnumerationContext" in context
        await client.publish("<a/>", topic="storms")
        [event] = await soon(client.pull(subscription))
        assert event.topic == "storms"
        await client.unsubscribe(subscription)
        with pytest.raises(GatewayError) as gone:
            await client.pull(subscription)
        assert gone.value.is_final


@pytest.mark.parametrize("pull", [False, True], ids=["push", "pull"])
async def test_iterating_subscribes_and_the_client_ends_it(gateway: Running, pull: bool) -> None:
    async with WsnClient(gateway.url) as client, WseClient(gateway.url) as publisher:
        listening = client.listen(topic="storms//.", pull=pull)
        first = asyncio.ensure_future(anext(listening))
        while not first.done():  # Nobody tells when it is subscribed.
            await publisher.publish("<speed>1</speed>", topic="storms/coast")
            await asyncio.wait((first,), timeout=0.05)
        event = await first
        assert event.topic == "storms/coast"
    assert len(gateway.gateway.subscriptions) == 0
    with pytest.raises(StopAsyncIteration):
        await soon(anext(listening))


class Interrupted(WsnClient):
    """A client whose first pulls go elsewhere."""

    urls: ClassVar[list[str]] = []

    async def pull(self, subscription: Subscription, **how: Any) -> list[Event]:
        if self.urls:
            subscription = replace(subscription, pull_point=self.urls.pop(0))
        return await super().pull(subscription, **how)


async def test_a_broker_that_is_away_is_asked_again(
    gateway: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "_RETRY", 0.01)
    monkeypatch.setattr(Interrupted, "urls", ["http://127.0.0.1:1/"])
    async with Interrupted(gateway.url) as client, client.listen(pull=True) as events:
        await client.publish("<a/>")
        await soon(anext(events))
    monkeypatch.setattr(Interrupted, "urls", [f"{gateway.url}/pullpoints/none"])
    async with Interrupted(gateway.url) as client, client.listen(pull=True) as events:
        with pytest.raises(GatewayError, match="refused"):
            await soon(anext(events))


async def test_one_that_an_operator_ends_is_an_error_to_who_iterates(gateway: Running) -> None:
    async with WseClient(gateway.url) as client, client.listen(topic="storms") as events:
        [entry] = gateway.gateway.subscriptions.entries
        answer = await gateway.api("DELETE", f"/subscriptions/{entry.subscription.id}")
        assert answer.status == 204
        with pytest.raises(GatewayError, match="was ended"):
            await soon(anext(events))


async def test_onvif_pulls_from_the_subscription_itself(gateway: Running) -> None:
    async with OnvifClient(gateway.url) as client:
        subscription = await client.subscribe(topic="storms")
        assert subscription.pull_point == subscription.address
        await client.publish("<speed>7</speed>", topic="storms")
        [event] = await soon(client.pull(subscription))
        assert (event.topic, event.element.text) == ("storms", "7")
        await client.renew(subscription)
        await client.unsubscribe(subscription)
        with pytest.raises(UnsupportedOperation):
            await client.subscribe(xpath="/a")


@pytest.mark.parametrize("pull", [True, False])
async def test_a_recipient_is_told_of_the_documents_it_asked_for(
    gateway: Running, pull: bool
) -> None:
    topic = "{urn:ihe:iti:dsub:2009}FullDocumentEntry"
    wanted = {
        "$XDSDocumentEntryPatientId": "P1^^^&1.2.3&ISO",
        "$XDSDocumentEntryClassCode": "('history^^classes','summary^^classes')",
    }
    async with (
        DsubClient(gateway.url) as client,
        client.listen(topic=topic, selector=wanted, pull=pull) as documents,
    ):
        for patient, code in (("P2", "history"), ("P1", "letter"), ("P1", "summary")):
            codes = {"classCode": [(code, "classes")]}
            entry = document(f"{patient}^^^&1.2.3&ISO", codes)
            await client.publish(submission(entry), topic=topic)
        assert b"summary" in (await soon(anext(documents))).payload
        with pytest.raises(UnsupportedOperation, match=r"no query of subscriptions .* \$Name"):
            await client.subscribe(topic=topic, selector={"$Name": "a"})
        with pytest.raises(GatewayError, match="not offered"):
            await client.subscribe(topic=topic, selector="<a/>")


@EACH
async def test_a_consumer_is_published_to_without_a_broker(make: Callable[..., Client]) -> None:
    async with Consumer() as consumer, make(consumer.address) as client:
        await client.publish("<speed>120</speed>", topic="storms")
        [notification] = (await soon(consumer.receive())).notifications
        assert (
            notification.payload.endswith(b"<speed>120</speed>") or b"120" in notification.payload
        )
    async with Consumer() as consumer, make("http://127.0.0.1:1") as client:
        await client.publish("<speed>120</speed>", topic="storms", to=consumer.address)
        await soon(consumer.receive())


@pytest.mark.parametrize("make", [WsnClient, CloudEventsClient])
async def test_a_producer_is_named(make: Callable[..., Client]) -> None:
    async with Consumer() as consumer, make(consumer.address) as client:
        await client.publish("<a/>", topic="storms", producer="http://buoy.example/7")
        assert b"http://buoy.example/7" in (await soon(consumer.receive())).octets


@pytest.mark.parametrize("publish", [WseClient, WsnClient, CloudEventsClient])
@pytest.mark.parametrize("listen", [WseClient, WsnClient, CloudEventsClient])
async def test_properties_reach_who_listens(
    gateway: Running, publish: Callable[..., Client], listen: Callable[..., Client]
) -> None:
    async with (
        publish(gateway.url) as publisher,
        listen(gateway.url) as listener,
        listener.listen(topic="storms") as events,
    ):
        await publisher.publish("<a/>", topic="storms", properties={"region": "north"})
        event = await soon(anext(events))
    if publish is CloudEventsClient and listen is not CloudEventsClient:
        assert event.properties == {}  # SOAP has attributes of CloudEvents nowhere.
    else:
        assert event.properties["region"] == "north"


async def test_filters_of_others_see_properties(gateway: Running) -> None:
    async with EventClient(gateway.url) as client, Consumer() as consumer:
        await client.subscribe(consumer.address, exact={"region": "north"})
        async with WsnClient(gateway.url) as publisher:
            for region in ("south", "north"):
                await publisher.publish(f"<{region}/>", properties={"region": region})
        [notification] = (await soon(consumer.receive())).notifications
        assert notification.payload == b"<north/>"


async def test_credentials_are_said_to_the_url_alone(tmp_path: Path) -> None:
    async with Consumer() as ours, Consumer() as other:
        known: list[tuple[Credentials, str]] = [
            (("ada", "secret"), "Basic YWRhOnNlY3JldA=="),
            ("t0ken", "Bearer t0ken"),
        ]
        for credentials, said in known:
            async with WsnClient(ours.address, credentials=credentials) as client:
                await client.publish("<a/>", topic="a")
                await client.publish("<a/>", topic="a", to=other.address)
            assert ("Authorization", said) in (await soon(ours.receive())).headers
            assert "Authorization" not in dict((await soon(other.receive())).headers)
    odd: list[Credentials] = ["two words", "ümlaut", ("a:b", "c")]
    for credentials in odd:
        with pytest.raises(GatewayError):
            WsnClient("http://127.0.0.1:1", credentials=credentials)


async def test_a_consumer_is_sent_to_or_fetches(gateway: Running) -> None:
    for consumer in (EventConsumer(), EventConsumer(mailbox=gateway.url)):
        async with consumer, WseClient(gateway.url) as client:
            subscription = await client.subscribe(consumer.address, topic="storms")
            for speed in range(2):
                await client.publish(f"<speed>{speed}</speed>", topic="storms")
            assert (await soon(consumer.receive())).element.text == "0"
            assert (await soon(anext(aiter(consumer)))).element.text == "1"
            [entry] = gateway.gateway.subscriptions.entries
            await gateway.api("DELETE", f"/subscriptions/{entry.subscription.id}")
            await client.publish("<a/>", to=consumer.address)
            await soon(consumer.receive())
            assert subscription.address
            assert len(consumer.ended) == 1


@pytest.mark.parametrize("fetches", [False, True], ids=["server", "mailbox"])
async def test_a_consumer_goes_on_after_a_time_limit(gateway: Running, fetches: bool) -> None:
    mailbox = gateway.url if fetches else None
    async with EventConsumer(mailbox=mailbox) as consumer, WseClient(gateway.url) as client:
        await client.subscribe(consumer.address, topic="storms")
        events = aiter(consumer)
        for speed in range(2):
            await cancel_wait(consumer.receive())
            await client.publish(f"<speed>{speed}</speed>", topic="storms")
            assert (await soon(anext(events))).element.text == str(speed)


@pytest.mark.parametrize("pull", [False, True], ids=["push", "pull"])
async def test_who_listens_goes_on_after_a_time_limit(gateway: Running, pull: bool) -> None:
    async with (
        WsnClient(gateway.url) as client,
        client.listen(topic="storms", pull=pull) as events,
    ):
        for speed in range(2):
            await cancel_wait(anext(events))
            await client.publish(f"<speed>{speed}</speed>", topic="storms")
            assert (await soon(anext(events))).element.text == str(speed)


async def test_what_is_no_event_is_refused_before_it_is_sent() -> None:
    async with WsnClient("http://127.0.0.1:1") as client:
        with pytest.raises(ValueError, match="line 1"):
            await client.publish("<a>")
        with pytest.raises(TypeError, match="int is no dataclass"):
            await client.publish(7)
        with pytest.raises(GatewayError, match="connection refused"):
            await client.publish("<a/>")
