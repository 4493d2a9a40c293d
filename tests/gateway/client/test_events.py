"""The client library in CloudEvents, against a gateway in this process."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from filters import Refused
from gateway.client import (
    Client,
    Consumer,
    EventClient,
    GatewayError,
    ReceivedMessage,
    speaking,
    subscribed,
)
from mediation.model.versions import Version
from tests.rigs.cloudevents import event, publish
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import DEADLINE

PAYLOAD = b'<?xml version="1.0"?><speed>120</speed>'


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Running]:
    """It asks every consumer whether it agrees."""
    async with running(tmp_path, webhook_handshake="always") as run:
        yield run


async def received(consumer: Consumer) -> ReceivedMessage:
    return await asyncio.wait_for(consumer.receive(), DEADLINE)


async def test_what_is_published_arrives(gateway: Running) -> None:
    async with EventClient(gateway.url) as client, Consumer() as consumer:
        async with subscribed(client, consumer.address, topic="storms//.") as held:
            assert held.subscription.expires is not None
            id_ = await client.publish(PAYLOAD, topic="storms/coast", action="urn:example:storm")
            [notification] = (await received(consumer)).notifications
            assert str(notification.topic) == "storms/coast"
            assert notification.payload == b"<speed>120</speed>"
            assert (notification.action, notification.message_id) == ("urn:example:storm", id_)
            await publish(gateway, event(topic="storms", data={"level": 1}))
            [notification] = (await received(consumer)).notifications
            assert notification.payload == b'{"level": 1}'
        assert held.is_over
    assert len(gateway.gateway.subscriptions) == 0


@pytest.mark.parametrize("version", [Version.WSE_2004_08, Version.WSN_1_3])
async def test_both_worlds(gateway: Running, version: Version) -> None:
    async with (
        Client(gateway.url, version) as soap,
        EventClient(gateway.url) as events,
        Consumer() as one,
        Consumer() as other,
        subscribed(soap, one.address),
        subscribed(events, other.address),
    ):
        for client in (soap, events):
            await client.publish(PAYLOAD, topic="storms")
            for consumer in (one, other):
                [notification] = (await received(consumer)).notifications
                assert str(notification.topic) == "storms"
                assert b"120" in notification.payload


async def test_an_xpath(gateway: Running) -> None:
    async with EventClient(gateway.url) as client, Consumer() as consumer:
        prefixes = {"w": "urn:w"}
        async with subscribed(
            client, consumer.address, xpath="/w:speed > 100", namespaces=prefixes
        ):
            for speed in (90, 130):
                await client.publish(b'<speed xmlns="urn:w">%d</speed>' % speed)
            [notification] = (await received(consumer)).notifications
            assert b"130" in notification.payload


async def test_renewing_and_ending(gateway: Running) -> None:
    async with EventClient(gateway.url) as client, Consumer() as consumer:
        granted = await client.subscribe(consumer.address, lease=timedelta(minutes=1))
        later = await client.renew(granted, timedelta(hours=1))
        assert granted.expires is not None and later.expires is not None
        assert later.expires > granted.expires
        await client.unsubscribe(later)
        with pytest.raises(GatewayError, match="There is no such subscription") as gone:
            await client.renew(later)
        assert gone.value.code == "subscription-unknown"


async def test_what_goes_wrong(gateway: Running) -> None:
    async with EventClient(gateway.url) as client:
        with pytest.raises(GatewayError, match="could not be asked"):
            await client.subscribe("http://127.0.0.1:8099/")
        with pytest.raises(GatewayError, match="not a topic"):
            await client.publish(PAYLOAD, topic="a//b")
        with pytest.raises(Refused):
            await client.publish(b"<a>")
    async with EventClient("http://127.0.0.1:1") as client:
        with pytest.raises(GatewayError, match="cannot reach"):
            await client.publish(PAYLOAD)


def test_the_client_of_a_version() -> None:
    assert isinstance(speaking("127.0.0.1:8080", Version.CLOUDEVENTS), EventClient)


async def test_the_client_of_another_version() -> None:
    assert isinstance(speaking("127.0.0.1:8080", Version.WSN_1_3), Client)
