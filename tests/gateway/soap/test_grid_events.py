"""Grid SOAP Events over sockets: publishers from templates, listeners with leases."""

import pytest
from lxml import etree

from tests.rigs.consumers import Consumers, Receipt
from tests.rigs.envelopes import S11, WSE, Speaker
from tests.rigs.gateways import Running
from tests.rigs.grid_events import PORT, event_in, lease, sample

pytestmark = pytest.mark.asyncio(loop_scope="module")

GATEWAY = {"adapter": "embedded:"}
"""Settings of the module's gateway."""
MESSENGER = Speaker(S11)


def port_at(url: str) -> str:
    """A port at *url*."""
    return PORT.replace("http://desk.example.org:4561/listener", url)


async def subscribe(
    run: Running, url: str, *, handback: str = "h", pattern: str = "", milliseconds: str = "60000"
) -> int:
    """Call subscribeLease; the lease that is granted."""
    octets = lease(port=port_at(url), pattern=pattern, handback=handback, milliseconds=milliseconds)
    answer = await run.post(octets)
    assert answer.status == 200, answer.body
    [response] = etree.fromstring(answer.body)[-1]
    assert response.tag == "{urn:m}subscribeLeaseResponse"
    return int(response.findtext("return/leaseDuration") or "")


async def publish(run: Running, octets: bytes) -> None:
    answer = await run.post(octets, soapaction='"urn:example:listener#handleEvent"')
    assert answer.status == 200, answer.body
    [response] = etree.fromstring(answer.body)[-1]
    assert etree.QName(response).localname == "handleEventResponse"


def storm(number: int = 0, message: str = "wind") -> bytes:
    octets = sample("event").replace(b">41<", f">{number}<".encode())
    return octets.replace(b"waves of &lt;9&gt; metres", message.encode())


async def test_from_a_publisher_to_a_listener(gateway: Running, consumer: Consumers) -> None:
    url = consumer.fresh()
    assert await subscribe(gateway, url, handback="desk-5") == 60000
    await publish(gateway, storm(message="one"))
    received: Receipt = await consumer.next(url)
    assert received.headers["soapaction"] == '"urn:desk#handleEvent"'
    assert received.headers["content-type"] == "text/xml; charset=utf-8"
    assert int(received.headers["content-length"]) == len(received.body)
    assert "transfer-encoding" not in received.headers
    event = event_in(received.body)
    assert (event.message, event.handback) == ("one", "desk-5")
    method = etree.fromstring(received.body)[-1][0]
    assert method.tag == "{urn:desk}handleEvent"


async def test_across_specifications(gateway: Running, consumer: Consumers) -> None:
    """To a subscriber of WS-Eventing, and from a publisher of it to a listener."""
    eventing, listener = consumer.fresh(), consumer.fresh()
    delivery = f"<e:Delivery><e:NotifyTo>{MESSENGER.epr(eventing)}</e:NotifyTo></e:Delivery>"
    await gateway.subscribe(MESSENGER, f'<e:Subscribe xmlns:e="{WSE}">{delivery}</e:Subscribe>')
    await subscribe(gateway, listener, pattern="<eventType>Flood</eventType>")
    await publish(gateway, storm())
    payload = (await consumer.next(eventing)).payload
    assert payload.tag == "{http://www.extreme.indiana.edu/soap/events}Event"
    assert payload.findtext("eventType") == "storm.coast.Warning"
    for number in (1, 2):
        await gateway.publish("<Flood xmlns='urn:f'/>", path="/soap/topic/Flood")
        event = event_in((await consumer.next(listener)).body)
        assert (event.type, event.namespace, event.number) == ("Flood", "urn:f", number)
        assert event.message == '<Flood xmlns="urn:f"/>'
    assert consumer.waiting(listener) == 0
