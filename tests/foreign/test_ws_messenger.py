"""The tests of WS-Messenger (Apache Airavata 0.11) itself, with what they only print asserted."""

import pytest

from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import IBM, canonical, fresh_id
from tests.rigs.gateways import Running
from tests.rigs.messenger import WSE_PUBLISH, WseClient, plain_text

pytestmark = pytest.mark.asyncio(loop_scope="module")

GATEWAY = {"adapter": "embedded:"}
"""Settings of the module's gateway."""
MATCHING, OTHER = "<c><b><a> 123 </a></b></c>", "<a><b><c> 123 </c></b></a>"


@pytest.mark.parametrize("modules", [False, True], ids=["by hand", "addressing module"])
async def test_broker_wse_round_trip(gateway: Running, consumer: Consumers, modules: bool) -> None:
    """BrokerWSETest.testRoundTrip."""
    client, url = WseClient(gateway, modules=modules), consumer.fresh()
    identifier = await client.subscribe(url, "WseRoundTripTestTopic")
    await client.publish("WseRoundTripTestTopic", plain_text("Test <message/>"))
    await client.publish("WseRoundTripTestTopic", "<foo><bar>Test</bar></foo>")
    first, second = await consumer.next(url), await consumer.next(url)
    assert first.payload.text == "Test <message/>"
    assert canonical(second.payload) == b"<foo><bar>Test</bar></foo>"
    await client.unsubscribe(identifier)
    await client.publish("WseRoundTripTestTopic", "<foo/>")
    await gateway.quiet()
    assert consumer.waiting(url) == 0


@pytest.mark.parametrize("topic", ["XpathAndTopicTestWse", None], ids=["combined", "xpath only"])
async def test_wse_xpath_round_trip(
    gateway: Running, consumer: Consumers, topic: str | None
) -> None:
    """TestWseXpathSubscription.testSimpleXpathTopicRoundTrip,
    TestWseXpathAndTopicSubscription.testXpathOnlyRoundTrip."""
    client, url = WseClient(gateway), consumer.fresh()
    identifier = await client.subscribe(url, topic, "/c/b/a")
    for event in (MATCHING, OTHER):
        await client.publish(topic, event)
    await gateway.quiet()
    received = await consumer.next(url)
    assert canonical(received.payload) == MATCHING.encode()
    assert consumer.waiting(url) == 0
    await client.unsubscribe(identifier)


async def test_additional_scenarios(gateway: Running, consumer: Consumers) -> None:
    """TestAddtionalWseXpathAndTopicScenarios.testXpathAndTopicOnlyRoundTrip."""
    client, every, one = WseClient(gateway), consumer.fresh(), consumer.fresh()
    topic = "XpathAndTopicOnly"
    await client.subscribe(every, topic)
    await client.subscribe(one, topic, "/c/b/a[text()=1]")
    for number in (1, 2):
        await client.publish(topic, f"<c><b><a>{number}</a></b></c>")
    await gateway.quiet()
    assert (consumer.waiting(every), consumer.waiting(one)) == (2, 1)


async def test_a_text_that_looks_like_an_element(gateway: Running, consumer: Consumers) -> None:
    """TestWseMsgBrokerClient: one consumer with two subscriptions, of which the first ends."""
    client, url, topic = WseClient(gateway), consumer.fresh(), f"seismic{fresh_id()[-4:]}"
    first = await client.subscribe(url, topic)
    await client.subscribe(url, topic, "/foo/bar")
    await client.publish(topic, plain_text("<foo><bar>Test</bar></foo>"))
    await gateway.quiet()
    assert consumer.waiting(url) == 1
    assert (await consumer.next(url)).payload.text == "<foo><bar>Test</bar></foo>"
    await client.publish(topic, "<foo><bar>Test</bar></foo>")
    await gateway.quiet()
    assert consumer.waiting(url) == 2  # One delivery for each subscription that matches.
    await client.unsubscribe(first)
    await client.publish(topic, "<foo><bar>Test</bar></foo>")
    await gateway.quiet()
    assert consumer.waiting(url) == 3


async def test_what_its_consumers_are_sent(gateway: Running, consumer: Consumers) -> None:
    """Headers in the order in which the original writes them; the publisher's own topic."""
    client, url = WseClient(gateway), consumer.fresh()
    await client.subscribe(url, "ordered")
    await client.publish("ordered", "<foo/>")
    received = await consumer.next(url)
    names = [header.tag.rpartition("}")[2] for header in received.message.headers]
    assert names == ["Action", "MessageID", "To", "Topic"]
    assert received.message.wsa("Action") == WSE_PUBLISH
    assert received.headers["soapaction"] == f'"{WSE_PUBLISH}"'
    assert received.message.wsa("MessageID")
    assert received.message.wsa("To") == url
    topic = received.message.header("Topic", IBM)
    assert topic is not None
    assert (topic.text, topic.nsmap["widget"]) == ("widget:ordered", "http://widgets.com")
    assert received.headers["content-length"] == str(len(received.body))
    assert received.headers["content-type"].lower().startswith("text/xml")
