"""sdc11073 (IEEE 11073 SDC over DPWS 1.1): its own subscriptions, which validate what they send."""

import asyncio
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from lxml import etree

from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import WSE, Speaker, notification_message, notify
from tests.rigs.gateways import Running

pytest.importorskip("sdc11073", reason="needs sdc11073 (pip install -e '.[dev]')")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Of its own deprecated modules.
    from sdc11073.definitions_sdc import SdcV1Definitions
    from sdc11073.pysoap.msgreader import MessageReader
    from sdc11073.xml_types.mex_types import GetMetadata

from tests.rigs.sdc_subscriptions import subscription

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # Threads and parsers of theirs, not ours.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

LOGGER: Any = logging.getLogger("sdc")
ACTION = "http://example.org/device/Alarm"
WXF = "http://schemas.xmlsoap.org/ws/2004/09/transfer"
OTHER = "http://example.org/device/Metric"
EVENT = '<d:Alarm xmlns:d="http://example.org/device">on</d:Alarm>'


@pytest.fixture
def clients() -> Iterator[list[Any]]:
    """The connections that a test opened."""
    opened: list[Any] = []
    yield opened
    for client in opened:
        client.close()


async def test_a_subscription_lives_and_ends(
    gateway: Running, consumer: Consumers, clients: list[Any]
) -> None:
    """It validates what it sends with the schema of WS-Eventing, in which ``wse:Identifier`` has
    no attribute: a reference parameter of that name could never be echoed."""
    url, end = consumer.fresh(), consumer.fresh()
    one = subscription(gateway.url, ACTION, url, end, clients)
    await asyncio.to_thread(one.subscribe, 600)
    assert one.is_subscribed and one.granted_expires == 600
    assert one.subscribe_response.SubscriptionManager.ReferenceParameters
    await gateway.publish(EVENT, action=OTHER)
    await gateway.publish(EVENT, action=ACTION)
    assert (await consumer.next(url)).message.wsa("Action") == ACTION
    assert consumer.waiting(url) == 0
    for seconds in (1200, 3600):
        assert await asyncio.to_thread(one.renew, seconds) == seconds
        left = await asyncio.to_thread(one.get_status)
        assert seconds - 10 <= left <= seconds
    await asyncio.to_thread(one.unsubscribe)
    assert not one.is_subscribed
    await gateway.publish(EVENT, action=ACTION)
    await gateway.quiet()
    assert consumer.waiting(url) == 0


async def test_its_end_names_it_by_what_it_gave(
    gateway: Running, consumer: Consumers, clients: list[Any]
) -> None:
    keys = [etree.Element("{http.local.com}MyClIdentifier") for _ in range(2)]
    for key in keys:
        key.text = "urn:uuid:mine"
    url, end = consumer.fresh(), consumer.fresh()
    one = subscription(gateway.url, ACTION, url, end, clients)
    one.notify_to_identifier, one.end_to_identifier = keys
    await asyncio.to_thread(one.subscribe, 600)
    await gateway.publish(EVENT, action=ACTION)
    for address in (url, end):
        if address == end:
            [entry] = gateway.gateway.subscriptions.entries
            answer = await gateway.api("DELETE", f"/subscriptions/{entry.subscription.id}")
            assert answer.status == 204
        message = (await consumer.next(address)).message
        echoed = message.header("MyClIdentifier", "http.local.com")
        assert echoed is not None and echoed.text == "urn:uuid:mine"
    assert message.wsa("Action") == f"{WSE}/SubscriptionEnd"
    assert await asyncio.to_thread(one.get_status) == 0


async def test_events_of_a_publisher_in_ws_notification(
    gateway: Running, consumer: Consumers, clients: list[Any]
) -> None:
    """They have no action but the one that is made of their root element, on which it filters; as
    event sink it reads what comes, and ends as any other."""
    url, end = consumer.fresh(), consumer.fresh()
    one = subscription(gateway.url, ACTION, url, end, clients)
    await asyncio.to_thread(one.subscribe, 600)
    for payload in (EVENT.replace("Alarm", "Metric"), EVENT):
        await gateway.publish(notify(notification_message(payload, "alarms")))
    received = await consumer.next(url)
    # Of a device that it does not know it has no schema.
    reader = MessageReader(SdcV1Definitions, None, LOGGER)
    read = reader.read_received_message(received.body, validate=False)
    assert read.p_msg.header_info_block.Action == ACTION
    assert read.p_msg.msg_name.localname == "Alarm"
    await gateway.quiet()
    assert consumer.waiting(url) == 0
    await asyncio.to_thread(one.unsubscribe)
    assert consumer.waiting(end) == 0


@pytest.mark.parametrize("asked", ["Get", "GetMetadata"])
async def test_it_reads_what_the_gateway_tells_of_itself(gateway: Running, asked: str) -> None:
    """It validates the answers with its schemas of WS-MetadataExchange, WSDL and WS-Eventing."""
    await gateway.publish(EVENT, action=ACTION)
    body = GetMetadata().as_etree_node(GetMetadata.NODETYPE, {}) if asked == "GetMetadata" else None
    written = "" if body is None else etree.tostring(body).decode()
    action = GetMetadata.action if body is not None else f"{WXF}/Get"
    answer = await gateway.ask(Speaker(), written, action=action)
    assert answer.status == 200, answer.body
    reader = MessageReader(SdcV1Definitions, None, LOGGER)
    read = reader.read_received_message(answer.body)
    assert read.p_msg.msg_name.localname == "Metadata"
    assert [section.get("Dialect") for section in read.p_msg.msg_node] == [
        "http://schemas.xmlsoap.org/wsdl/",
        "http://www.w3.org/ns/ws-policy",
        "http://www.w3.org/2011/03/ws-evd",
    ]
