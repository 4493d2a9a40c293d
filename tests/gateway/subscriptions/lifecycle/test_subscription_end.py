"""Consumers of WS-Notification are told of the end that they subscribed for."""

import json

import pytest
from lxml import etree

from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import FULL, RL, WSNT, Speaker, topic_expression
from tests.rigs.gateways import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEAKER = Speaker()
END = topic_expression("a//. | rl:ResourceTermination", FULL, f'xmlns:rl="{RL}"')
NOTICE = f"{{{RL}}}TerminationNotification"


async def end_all(gateway: Running) -> None:
    """End all subscriptions, as an operator does."""
    for view in json.loads((await gateway.api("GET", "/subscriptions")).body)["subscriptions"]:
        assert (await gateway.api("DELETE", f"/subscriptions/{view['id']}")).status == 204


async def test_a_consumer_that_subscribed_for_it(gateway: Running, consumer: Consumers) -> None:
    told, other = consumer.fresh(), consumer.fresh()
    await gateway.subscribe(SPEAKER, SPEAKER.wsn_subscribe(told, filter=END))
    await gateway.subscribe(SPEAKER, SPEAKER.wsn_subscribe(other))
    await end_all(gateway)
    receipt = await consumer.next(told)
    assert receipt.payload.tag == NOTICE
    assert receipt.topic is not None and receipt.topic.text is not None
    prefix, _, name = receipt.topic.text.partition(":")
    assert (receipt.topic.nsmap[prefix], name) == (RL, "ResourceTermination")
    assert "operator" in str(receipt.payload.findtext(f"{{{RL}}}TerminationReason"))
    assert consumer.waiting(other) == 0


async def test_who_ends_it_is_not_told(gateway: Running, consumer: Consumers) -> None:
    url = consumer.fresh()
    path = await gateway.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url, filter=END))
    assert (await gateway.ask(SPEAKER, f'<n:Unsubscribe xmlns:n="{WSNT}"/>', path)).status == 200
    await gateway.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url, filter=END))
    await end_all(gateway)
    await consumer.next(url)
    assert consumer.waiting(url) == 0


async def test_a_pull_point_keeps_the_notice(gateway: Running) -> None:
    made = (await gateway.ask(SPEAKER, f'<n:CreatePullPoint xmlns:n="{WSNT}"/>')).message
    address = str(made.body[0][0][0].text)
    await gateway.subscribe(SPEAKER, SPEAKER.wsn_subscribe(address, filter=END))
    await end_all(gateway)
    found = list[etree._Element]()
    while not found:
        pull = f'<n:GetMessages xmlns:n="{WSNT}"/>'
        answer = await gateway.ask(SPEAKER, pull, address.removeprefix(gateway.url))
        found = list(answer.message.body[0].iter(NOTICE))
    assert len(found) == 1
