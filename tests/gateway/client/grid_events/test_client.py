"""The client of Grid SOAP Events, against a gateway."""

import pytest

from gateway.client import Consumer, GatewayError, GridClient, subscribed
from mediation.grid_events import Event, read_payload, write_payload
from tests.rigs.gateways import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_it_publishes_events_as_they_are(gateway: Running) -> None:
    event = Event("urn:lab", "run.done", "bench7", 17, 3, "it's <over>")
    async with (
        GridClient(gateway.url) as client,
        Consumer() as consumer,
        subscribed(client, consumer.address, topic="{urn:lab}run") as renewed,
    ):
        assert len(gateway.gateway.subscriptions) == 1
        await client.publish(write_payload(event))
        [one] = (await consumer.receive()).notifications
        assert read_payload(one.payload) == event
        assert str(one.topic) == "{urn:lab}run/done"
        former = renewed.subscription
        again = await client.renew(former)
        assert again.expires is not None and former.expires is not None
        assert again.expires > former.expires
        assert len(gateway.gateway.subscriptions) == 1


async def test_what_is_refused_is_told(gateway: Running) -> None:
    async with GridClient(gateway.url) as client:
        with pytest.raises(GatewayError, match=r"refused: .*policy") as caught:
            await client.subscribe("http://192.168.1.7/listener")
        assert caught.value.status == 500
        for topic, xpath in (("a//b", None), (None, "/a"), ("{a", None)):
            with pytest.raises(GatewayError):
                await client.subscribe("http://127.0.0.1:8999/", topic=topic, xpath=xpath)


async def test_another_server(gateway: Running) -> None:
    async with GridClient(f"{gateway.url}/elsewhere") as client:
        with pytest.raises(GatewayError, match="does not answer as a Dragoman"):
            await client.publish(b"<a/>")
