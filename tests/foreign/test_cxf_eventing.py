"""Apache CXF's WS-Eventing 2011/03: its subscriber and its sinks at a gateway, and its event source
under ours."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio
from lxml import etree

from gateway.client import Client, Consumer
from mediation.model.versions import Version
from tests.rigs.consumers import Consumers
from tests.rigs.cxf import CxfPeer, cxf_peer, needs_cxf
from tests.rigs.envelopes import Speaker, topic_expression
from tests.rigs.gateways import Running
from tests.rigs.waiting import until

needs_cxf()
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

WRAP = "http://www.w3.org/2011/03/ws-evt/DeliveryFormats/Wrap"
STATUS = "http://www.w3.org/2011/03/ws-evt/SourceCancelling"
STORM = '<o:Storm xmlns:o="urn:test:weather"><o:speed>{}</o:speed></o:Storm>'


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def peer() -> AsyncIterator[CxfPeer]:
    async with cxf_peer() as running:
        yield running


async def publish(gateway: Running, speed: int) -> None:
    await gateway.publish(STORM.format(speed), action="urn:test:storm")


async def test_raw(gateway: Running, peer: CxfPeer) -> None:
    """Its filters have no namespaces."""
    source = f"{gateway.url}/soap"
    storms = "//*[local-name()='Storm'][. > 100]"
    assert await peer.ask("subscribe", source, "raw", "-", "PT1H", storms) == "PT1H"
    await publish(gateway, 90)
    await publish(gateway, 120)
    assert await peer.got() == "raw 120"
    assert await peer.ask("renew", "raw", "PT2H") == "PT2H"
    assert (await peer.ask("status", "raw")).startswith(("PT2H", "PT1H59M"))
    assert await peer.ask("unsubscribe", "raw") == "done"
    for request in (("status", "raw"), ("renew", "raw", "PT1H"), ("unsubscribe", "raw")):
        assert await peer.ask(*request) == "fault UnknownSubscription"


async def test_wrapped_and_its_end(gateway: Running, peer: CxfPeer) -> None:
    source = f"{gateway.url}/soap"
    assert await peer.ask("subscribe", source, "wrapped", WRAP, "-", "-") == "PT0S"
    await publish(gateway, 120)
    assert await peer.got() == "wrapped 120 urn:test:storm"
    [entry] = gateway.gateway.subscriptions.entries
    assert (await gateway.api("DELETE", f"/subscriptions/{entry.id}")).status == 204
    assert await peer.got() == f"end {STATUS}"


@pytest.mark.parametrize(
    ("format_", "expires", "filter_", "fault"),
    [
        ("urn:zip", "-", "-", "DeliveryFormatRequestedUnavailable"),
        ("-", "-PT1H", "-", "UnsupportedExpirationValue"),
        ("-", "2001-01-01T00:00:00Z", "-", "UnsupportedExpirationValue"),
        ("-", "-", "///", "CannotProcessFilter"),
        ("-", "-", "false()", "EmptyFilter"),
    ],
)
async def test_faults(
    gateway: Running, peer: CxfPeer, format_: str, expires: str, filter_: str, fault: str
) -> None:
    answer = await peer.ask("subscribe", f"{gateway.url}/soap", "raw", format_, expires, filter_)
    assert answer == f"fault {fault}"


async def test_its_source(peer: CxfPeer) -> None:
    """Our own client subscribes, and reads its events, wrapped and not, and its SubscriptionEnd,
    whose element is none of WS-Eventing's."""
    async with Client(peer.url, Version.WSE_2011_03) as client, Consumer() as consumer:
        subscription = await client.subscribe(consumer.address, lease=timedelta(hours=1))
        assert subscription.expires is not None
        assert await peer.ask("emit", "99") == "1"
        arrived = await anext(aiter(consumer))
        [event] = arrived.notifications
        assert b"99" in event.payload and b"urn:test:weather" in event.payload
        renewed = await client.renew(subscription, timedelta(hours=2))
        assert renewed.expires is not None and renewed.expires > subscription.expires
        assert await peer.ask("end") == "done"
        ended = (await anext(aiter(consumer))).ended
        assert ended is not None
        assert (ended.status, ended.reason) == ("SourceShuttingDown", "Bye.")


async def test_a_source_of_the_gateway(
    gateway: Running, consumer: Consumers, peer: CxfPeer
) -> None:
    """The gateway subscribes there, and what comes is published on, in any specification."""
    speaker, url = Speaker(), consumer.fresh()
    await gateway.subscribe(speaker, speaker.wsn_subscribe(url, filter=topic_expression("storms")))
    wanted = {"url": f"{peer.url}/soap", "spec": "wse-2011-03", "publish_on": "storms"}
    added = await gateway.api("POST", "/sources", json.dumps(wanted).encode())
    assert added.status == 201, added.body
    path = f"/sources/{json.loads(added.body)['id']}"

    async def is_(state: str) -> None:
        async def holds() -> bool:
            return bool(json.loads((await gateway.api("GET", path)).body)["state"] == state)

        await until(holds)

    await is_("live")
    assert int(await peer.ask("emit", "77")) >= 1
    assert b"77" in etree.tostring((await consumer.next(url)).payload)
    assert (await gateway.api("DELETE", path)).status == 204
