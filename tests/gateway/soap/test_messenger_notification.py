"""WS-BaseNotification 1.0 as WS-Messenger's clients (Apache Airavata 0.11) speak it at its
NotificationService."""

import json
from pathlib import Path

import pytest
from lxml import etree

from tests.rigs.consumers import Consumers, Receipt
from tests.rigs.envelopes import (
    IBM,
    IBM_SIMPLE,
    S11,
    WSA10,
    WSNT,
    XPATH,
    Speaker,
    canonical,
    children,
    fresh_id,
)
from tests.rigs.gateways import Running, running
from tests.rigs.messenger import (
    EVENTING,
    WSE_PUBLISH,
    WseClient,
    WsntClient,
    enveloped,
    http_post,
    plain_text,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

GATEWAY = {"adapter": "embedded:"}
"""Settings of the module's gateway."""
EVENT = "<c><b>1</b></c>"


def fresh_topic() -> str:
    return f"t{fresh_id()[-6:]}"


def brief(receipt: Receipt) -> list[etree._Element]:
    """The first child of each Message, which is what its viewer shows."""
    assert receipt.message.soap is S11
    [notify] = receipt.message.body
    assert notify.tag == f"{{{IBM}}}Notify"
    contents = notify.findall(f"{{{IBM}}}NotificationMessage/{{{IBM}}}Message")
    return [children(content)[0] for content in contents]


# The original's tests.


async def test_broker_wsnt_round_trip(gateway: Running, consumer: Consumers) -> None:
    """BrokerWSNTTest.testRoundTrip: the topic begins with a slash."""
    client, url = WsntClient(gateway), consumer.fresh()
    identifier = await client.subscribe(url, "/WsntRoundTripTestTopic")
    await client.publish("/WsntRoundTripTestTopic", plain_text("Test <message/>"))
    await client.publish("/WsntRoundTripTestTopic", "<foo><bar>Test</bar></foo>")
    first, second = await consumer.next(url), await consumer.next(url)
    assert brief(first)[0].text == "Test <message/>"
    assert canonical(brief(second)[0]) == b"<foo><bar>Test</bar></foo>"
    await client.unsubscribe(identifier)
    await client.publish("/WsntRoundTripTestTopic", "<foo/>")
    await gateway.quiet()
    assert consumer.waiting(url) == 0


async def test_a_text_that_looks_like_an_element(gateway: Running, consumer: Consumers) -> None:
    """TestWsntMsgBrokerClient: one consumer with two subscriptions, of which the first ends."""
    client, url, topic = WsntClient(gateway), consumer.fresh(), fresh_topic()
    first = await client.subscribe(url, topic)
    await client.subscribe(url, topic, "/foo/bar")
    await client.publish(topic, plain_text("<foo><bar>Test</bar></foo>"))
    await gateway.quiet()
    assert consumer.waiting(url) == 1
    await client.publish(topic, "<foo><bar>Test</bar></foo>")
    await gateway.quiet()
    assert consumer.waiting(url) == 3
    await client.unsubscribe(first)
    await client.publish(topic, "<foo><bar>Test</bar></foo>")
    await gateway.quiet()
    assert consumer.waiting(url) == 4


# Requests.


@pytest.mark.parametrize("modules", [False, True])
async def test_the_answer_to_subscribe(
    gateway: Running, consumer: Consumers, modules: bool
) -> None:
    client = WsntClient(gateway, modules=modules)
    identifier = await client.subscribe(consumer.fresh(), fresh_topic())
    await client.unsubscribe(identifier)
    answer = await client.manage("UnsubsribeRequest", identifier)
    assert answer.status == 500 and answer.fault.text


PAUSES = ("PauseSubsriptionRequest", "PauseSubscriptionRequest", "PauseSubscription")
RESUMES = ("ResumeSubsriptionRequest", "ResumeSubscriptionRequest", "ResumeSubscription")


@pytest.mark.parametrize(("pause", "resume"), list(zip(PAUSES, RESUMES, strict=True)))
@pytest.mark.parametrize("empty", [False, True], ids=["with a body", "by the action alone"])
async def test_pause_and_resume_in_every_spelling(
    gateway: Running, consumer: Consumers, pause: str, resume: str, empty: bool
) -> None:
    """What comes while it is paused is not kept."""
    client, url, topic = WsntClient(gateway), consumer.fresh(), fresh_topic()
    identifier = await client.subscribe(url, topic)

    async def manage(name: str) -> None:
        header = client.identifier_header(identifier)
        body = "" if empty else f'<n:{name} xmlns:n="{IBM}"/>'
        answer = await client.call(f"{IBM}/{name}", body, header)
        assert (answer.status, answer.message.body) == (200, []), answer.body
        meant = "Pause" if name in PAUSES else "Resume"
        assert answer.message.wsa("Action") == f"{IBM}/{meant}SubscriptionResponse"

    await manage(pause)
    await client.publish(topic, "<lost/>")
    await manage(resume)
    await client.publish(topic, "<kept/>")
    await gateway.quiet()
    assert [brief(one)[0].tag for one in consumer.at(url).received] == ["kept"]


@pytest.mark.parametrize("name", ["UnsubsribeRequest", "UnsubscribeRequest"])
@pytest.mark.parametrize("empty", [False, True])
async def test_unsubscribe_in_every_spelling(
    gateway: Running, consumer: Consumers, name: str, empty: bool
) -> None:
    client = WsntClient(gateway)
    identifier = await client.subscribe(consumer.fresh(), fresh_topic())
    body = "" if empty else f'<n:{name} xmlns:n="{IBM}"/>'
    answer = await client.call(f"{IBM}/{name}", body, client.identifier_header(identifier))
    assert (answer.status, answer.message.body) == (200, []), answer.body
    assert answer.message.wsa("Action") == f"{IBM}/UnsubscribeResponse"


async def test_the_soap_action_alone(gateway: Running, consumer: Consumers) -> None:
    """Without addressing headers, as a client that does not load the module."""
    body = WsntClient.subscribe_body(consumer.fresh(), fresh_topic())
    octets = http_post(
        gateway.port, WsntClient.at, enveloped(body), f"{IBM}/SubscribeRequest", quoted=False
    )
    answer = await gateway.raw(octets)
    assert answer.status == 200, answer.body
    assert not answer.message.headers


@pytest.mark.parametrize("spelling", ["Dialect", "wsnt:Dialect", "DIALECT", "wsnt:DIALECT"])
async def test_the_dialect_of_topics_and_selectors_is_qualified_or_not(
    gateway: Running, consumer: Consumers, spelling: str
) -> None:
    client, url, topic = WsntClient(gateway), consumer.fresh(), fresh_topic()
    body = client.subscribe_body(url, topic, "/c/b").replace("wsnt:Dialect", "Dialect")
    await client.ask(f"{IBM}/SubscribeRequest", body.replace("Dialect=", f"{spelling}="))
    await client.publish(topic, EVENT, "<other/>")
    await gateway.quiet()
    assert consumer.waiting(url) == 1


@pytest.mark.parametrize(
    ("word", "raw"),
    [("true", False), ("TRUE", False), ("1", False), (None, False), ("false", True), ("0", True)],
)
async def test_use_notify(
    gateway: Running, consumer: Consumers, word: str | None, raw: bool
) -> None:
    client, url, topic = WsntClient(gateway), consumer.fresh(), fresh_topic()
    await client.subscribe(url, topic, use_notify=word)
    await client.publish(topic, EVENT)
    received = await consumer.next(url)
    assert received.message.wsa("Action") == f"{IBM}/Notify"
    assert received.headers["soapaction"] == f'"{IBM}/Notify"'
    if raw:
        assert canonical(received.message.body[0]) == EVENT.encode()
        assert IBM_SIMPLE.encode() not in received.body  # No topic anywhere.
    else:
        assert canonical(brief(received)[0]) == EVENT.encode()


@pytest.mark.parametrize("topic", [None, ">", ""])
async def test_no_topic_is_all(gateway: Running, consumer: Consumers, topic: str | None) -> None:
    client, url = WsntClient(gateway), consumer.fresh()
    identifier = await client.subscribe(url, topic)
    await client.publish("any", EVENT)
    await client.publish(None, EVENT)
    await gateway.quiet()
    assert consumer.waiting(url) == 2
    await client.unsubscribe(identifier)


async def test_it_never_ends_and_may_ask_for_an_end(gateway: Running, consumer: Consumers) -> None:
    client = WsntClient(gateway)
    ids = []
    for more in ("", "<wsnt:InitialTerminationTime>2030-01-01T00:00:00Z"
                     "</wsnt:InitialTerminationTime>"):  # fmt: skip
        body = client.subscribe_body(consumer.fresh(), fresh_topic(), more=more)
        await client.ask(f"{IBM}/SubscribeRequest", body)
        ids.append(
            max(
                gateway.gateway.subscriptions.entries,
                key=lambda one: one.subscription.lease.created,
            )
        )
    ends = [one.subscription.lease.expires for one in ids]
    assert ends[0] is None and ends[1] is not None and ends[1].year == 2030


async def test_the_same_subscribe_again(gateway: Running, consumer: Consumers) -> None:
    """It gives the same identifier; the other protocol, and raw, are others."""
    client, url, topic = WsntClient(gateway), consumer.fresh(), fresh_topic()
    first = await client.subscribe(url, topic, "/c")
    assert await client.subscribe(url, topic, "/c") == first
    others = {
        await client.subscribe(url, topic, "/c", use_notify="false"),
        await client.subscribe(url, topic),
        await WseClient(gateway).subscribe(url, topic, "/c"),
    }
    assert len({first, *others}) == 4
    await client.publish(topic, EVENT)
    await gateway.quiet()
    assert consumer.waiting(url) == 4


@pytest.mark.parametrize(
    ("broken", "subcode"),
    [
        ("no consumer", "SubscribeCreationFailedFault"),
        ("an unknown dialect", "SubscribeCreationFailedFault"),
        ("no XPath", "SubscribeCreationFailedFault"),
    ],
)
async def test_refusals(gateway: Running, consumer: Consumers, broken: str, subcode: str) -> None:
    client = WsntClient(gateway)
    body = client.subscribe_body(consumer.fresh(), "t", "/c[" if broken == "no XPath" else "/c")
    if broken == "no consumer":
        body = body.replace("ConsumerReference", "Other")
    elif broken == "an unknown dialect":
        body = body.replace(XPATH, "urn:unknown")
    answer = await client.call(f"{IBM}/SubscribeRequest", body)
    assert answer.status == 500
    assert answer.fault.element == f"{{{IBM}}}{subcode}"
    if broken == "no consumer":
        begin = "Only Push delivery Mode (NotifyTo) is supported"
        assert answer.fault.text.startswith(begin)


async def test_no_dialect_of_a_topic_is_looked_at(gateway: Running, consumer: Consumers) -> None:
    client, url, topic = WsntClient(gateway), consumer.fresh(), fresh_topic()
    body = client.subscribe_body(url, topic).replace(IBM_SIMPLE, "urn:unknown")
    await client.ask(f"{IBM}/SubscribeRequest", body)
    await client.publish(topic, EVENT)
    [message] = (await consumer.next(url)).message.body[0]
    assert message.findtext(f"{{{IBM}}}Topic") == f"widget:{topic}"
    elsewhere = await gateway.post(enveloped(body), "/soap")
    assert elsewhere.fault.element == f"{{{IBM}}}TopicPathDialectUnknownFault"


async def test_the_reference_is_in_the_addressing_of_the_request(
    gateway: Running, consumer: Consumers
) -> None:
    client = WsntClient(gateway)
    old = 'xmlns:wsa="http://schemas.xmlsoap.org/ws/2004/08/addressing"'
    body = client.subscribe_body(consumer.fresh(), fresh_topic())
    body = body.replace("<wsnt:ConsumerReference", f"<wsnt:ConsumerReference {old}")
    answer = await client.ask(f"{IBM}/SubscribeRequest", body)
    reference = answer.message.body[0].find(f"{{{IBM}}}SubscriptionReference")
    await client.unsubscribe(client.read_identifier(reference))


@pytest.mark.parametrize("name", ["PauseSubsriptionRequest", "UnsubsribeRequest"])
async def test_an_unknown_subscription(gateway: Running, name: str) -> None:
    answer = await WsntClient(gateway).manage(name, "Tsub9@1764750000000")
    known = name.startswith("Pause")
    begin = "no subscription found for id: " if known else "unknown subscription: "
    assert answer.status == 500
    assert answer.fault.text.startswith(f"{begin}Tsub9@1764750000000 ")


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("PauseSubsriptionRequest", "missing subscription id"),
        ("ResumeSubsriptionRequest", "missing subscription id"),
        ("UnsubsribeRequest", "subscription identifier is not provided"),
    ],
)
async def test_no_identifier(gateway: Running, name: str, begin: str) -> None:
    answer = await WsntClient(gateway).manage(name, "")
    assert answer.status == 500 and answer.fault.text.startswith(begin)


# Publications.


@pytest.mark.parametrize("service", [WsntClient.at, EVENTING])
async def test_each_message_of_a_notify_is_for_itself(
    gateway: Running, consumer: Consumers, service: str
) -> None:
    client, url, topic = WsntClient(gateway), consumer.fresh(), fresh_topic()
    identifier = await client.subscribe(url, ">")
    messages = (
        client.message(topic, "<a/>")
        + client.message(None, "<b/>", producer="")
        + client.message("other", "<c/>")
    )
    body = f'<wsnt:Notify xmlns:wsnt="{IBM}">{messages}</wsnt:Notify>'
    answer = await client.ask(f"{IBM}/Notify", body, path=service)
    assert len(answer.message.body) == 1  # One track id for all.
    found = []
    for _ in range(3):
        receipt = await consumer.next(url)
        [message] = receipt.message.body[0]
        text = message.findtext(f"{{{IBM}}}Topic")
        producer = message.findtext(f"{{{IBM}}}ProducerReference/{{{WSA10}}}Address")
        found.append((brief(receipt)[0].tag, text, producer))
    assert found == [
        ("a", f"widget:{topic}", "http://192.0.2.20"),
        ("b", "ns2:wseTopic", None),
        ("c", "widget:other", "http://192.0.2.20"),
    ]
    await client.unsubscribe(identifier)


@pytest.mark.parametrize("body", ["", "<wsnt:NotificationMessage/>"])
async def test_a_notify_without_a_message(gateway: Running, body: str) -> None:
    notify = f'<wsnt:Notify xmlns:wsnt="{IBM}">{body}</wsnt:Notify>'
    answer = await WsntClient(gateway).call(f"{IBM}/Notify", notify)
    assert answer.status == 500 and answer.fault.text


# Deliveries, for each combination of protocols.


async def test_what_its_consumers_are_sent(gateway: Running, consumer: Consumers) -> None:
    client, url, topic = WsntClient(gateway), consumer.fresh(), fresh_topic()
    await client.subscribe(url, topic)
    await client.publish(topic, EVENT)
    received = await consumer.next(url)
    names = [header.tag.rpartition("}")[2] for header in received.message.headers]
    assert names == ["Action", "MessageID", "To"]  # No topic header.
    assert received.message.wsa("Action") == f"{IBM}/Notify" and received.message.wsa("MessageID")
    [message] = received.message.body[0]
    assert [child.tag for child in message] == [
        f"{{{IBM}}}Topic", f"{{{IBM}}}ProducerReference", f"{{{IBM}}}Message",
    ]  # fmt: skip
    assert message[0].text == f"widget:{topic}" and message[0].get("Dialect") == IBM_SIMPLE
    assert message[0].nsmap["widget"] == "http://widgets.com"


async def test_from_wse_to_wsnt(gateway: Running, consumer: Consumers) -> None:
    url, topic = consumer.fresh(), fresh_topic()
    await WsntClient(gateway).subscribe(url, topic)
    await WseClient(gateway).publish(topic, EVENT)
    await WseClient(gateway).publish(None, EVENT, path=f"{EVENTING}/topic/{topic}")
    for text in (f"widget:{topic}", f"ns2:{topic}"):
        received = await consumer.next(url)
        assert received.message.wsa("Action") == f"{IBM}/Notify"
        [message] = received.message.body[0]
        assert [child.tag.rpartition("}")[2] for child in message] == ["Topic", "Message"]
        assert message[0].text == text


async def test_from_wsnt_to_wse(gateway: Running, consumer: Consumers) -> None:
    """The bare event, with the action of Notify and the publisher's topic; no producer."""
    url, topic = consumer.fresh(), fresh_topic()
    await WseClient(gateway).subscribe(url, topic)
    await WsntClient(gateway).publish(topic, EVENT)
    received = await consumer.next(url)
    assert received.message.wsa("Action") == f"{IBM}/Notify"
    assert canonical(received.message.body[0]) == EVENT.encode()
    told = received.message.header("Topic", IBM)
    assert told is not None and told.text == f"widget:{topic}"
    assert b"192.0.2.20" not in received.body


async def test_from_wsnt_to_wsn_1_3_and_back(gateway: Running, consumer: Consumers) -> None:
    ours, theirs, topic = consumer.fresh(), consumer.fresh(), fresh_topic()
    await WsntClient(gateway).subscribe(ours, topic)
    await gateway.subscribe(Speaker(), Speaker().wsn_subscribe(theirs))
    await WsntClient(gateway).publish(topic, EVENT)
    assert (await consumer.next(theirs)).message.body[0].tag == f"{{{WSNT}}}Notify"
    assert canonical(brief(await consumer.next(ours))[0]) == EVENT.encode()


@pytest.mark.parametrize(
    ("xpath", "event", "match"),
    [
        ("/c/b", EVENT, True),
        ("/c/b", "<c xmlns='urn:default'><b/></c>", True),
        ("/p:c", "<p:c xmlns:p='urn:any'/>", True),
        ("/Notify", EVENT, False),
    ],
)
async def test_the_root_of_a_selector_is_the_event_and_names_are_lexical(
    gateway: Running, consumer: Consumers, xpath: str, event: str, match: bool
) -> None:
    client, url, topic = WsntClient(gateway), consumer.fresh(), fresh_topic()
    await client.subscribe(url, topic, xpath)
    await client.publish(topic, event)
    await gateway.quiet()
    assert consumer.waiting(url) == match


async def test_a_lexical_selector_is_shown_as_it_was_written(
    gateway: Running, consumer: Consumers
) -> None:
    client, url = WsntClient(gateway), consumer.fresh()
    await client.subscribe(url, fresh_topic(), "/c/b")
    found = await gateway.api("GET", f"/subscriptions?consumer={url}")
    [one] = json.loads(found.body)["subscriptions"]
    assert one["contents"] == ["/c/b"]
    management = "urn:dragoman:management:1"
    body = (
        f'<m:ListSubscriptions xmlns:m="{management}"><m:Selection><m:Consumer>{url}</m:Consumer>'
        "</m:Selection></m:ListSubscriptions>"
    )
    answer = await gateway.ask(Speaker(), body)
    [shown] = answer.message.root.iter(f"{{{WSNT}}}MessageContent")
    assert (shown.text, shown.get("Dialect")) == ("/c/b", XPATH)


async def test_paused_and_subscribed_after_a_restart(tmp_path: Path, consumer: Consumers) -> None:
    url = consumer.fresh()
    async with running(tmp_path, adapter="embedded:") as run:
        client = WsntClient(run)
        identifier = await client.subscribe(url, "t")
        assert (await client.manage("PauseSubsriptionRequest", identifier)).status == 200
    async with running(tmp_path, adapter="embedded:") as run:
        client = WsntClient(run)
        await client.publish("t", EVENT)
        await run.quiet()
        assert consumer.waiting(url) == 0
        assert (await client.manage("ResumeSubsriptionRequest", identifier)).status == 200
        await client.publish("t", EVENT)
        await consumer.next(url)


async def test_a_wse_subscription_is_paused_by_its_identifier(
    gateway: Running, consumer: Consumers
) -> None:
    url, topic = consumer.fresh(), fresh_topic()
    identifier = await WseClient(gateway).subscribe(url, topic)
    answer = await WsntClient(gateway).manage("PauseSubsriptionRequest", identifier)
    assert answer.status == 200
    await WseClient(gateway).publish(topic, EVENT, action=WSE_PUBLISH)
    await gateway.quiet()
    assert consumer.waiting(url) == 0
