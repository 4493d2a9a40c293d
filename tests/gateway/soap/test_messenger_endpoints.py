"""What WS-Messenger's clients and consumers (Apache Airavata 0.11) rely on at its addresses: URLs,
HTTP, lifetimes, topics, XPath, answers, deliveries."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from lxml import etree

from filters.dialects import TOPIC_CONCRETE as CONCRETE
from mediation.model.expiry import parse_date_time
from mediation.model.versions import Soap
from mediation.profiles import profiles_of
from tests.rigs.consumers import Consumers, status
from tests.rigs.envelopes import (
    IBM,
    IBM_SIMPLE,
    S11,
    S12,
    WSE,
    WSNT,
    XPATH,
    Speaker,
    canonical,
    fresh_id,
    notification_message,
    notify,
    wse_filter,
)
from tests.rigs.gateways import Running, exchange, running
from tests.rigs.messenger import (
    COMBINED,
    EVENTING,
    NOTIFICATION,
    WSE_PUBLISH,
    WseClient,
    by_hand,
    by_module,
    enveloped,
    http_post,
    plain_text,
    topic_header,
)
from tests.rigs.scripted_peers import consuming, read_request

pytestmark = pytest.mark.asyncio(loop_scope="module")

GATEWAY = {"adapter": "embedded:", "messenger_prefixes": ("/services", "/a/b", "")}
"""Settings of the module's gateway."""
EVENT = "<c><b>1</b></c>"
OLD = 'xmlns:old="http://schemas.xmlsoap.org/ws/2004/08/addressing"'
BOX = "http://org.apache.airavata/ws-messenger/msgbox/2011"


def fresh_topic() -> str:
    return f"t{fresh_id()[-6:]}"


# Addresses.


@pytest.mark.parametrize("prefix", ["/axis2/services", "/services", "/a/b", ""])
@pytest.mark.parametrize("slash", ["", "/"])
async def test_the_three_services_are_below_each_prefix(
    gateway: Running, consumer: Consumers, prefix: str, slash: str
) -> None:
    url, topic = consumer.fresh(), fresh_topic()
    client = WseClient(gateway, f"{prefix}/EventingService{slash}")
    identifier = await client.subscribe(url, topic)
    await client.publish(topic, EVENT)
    await client.publish(None, EVENT, path=f"{prefix}/EventingService/topic/{topic}")
    notification = WseClient(gateway, f"{prefix}/NotificationService{slash}")
    await notification.publish(topic, EVENT)
    for _ in range(3):
        await consumer.next(url)
    await client.unsubscribe(identifier)
    answer = await gateway.ask(
        Speaker(S11, None), f'<m:createMsgBox xmlns:m="{BOX}"/>', f"{prefix}/MsgBoxService{slash}"
    )
    key = answer.message.body[0][0].text
    box = f"{prefix}/MsgBoxService/clientid/{key}"
    await client.subscribe(f"{gateway.url}{box}", topic)
    await client.publish(topic, EVENT)
    await gateway.quiet()
    taken = await gateway.ask(Speaker(S11, None), f'<m:takeMessages xmlns:m="{BOX}"/>', box)
    assert canonical(taken.message.body[0][0][0]) == EVENT.encode()


async def test_other_paths_below_a_prefix_are_nothing(gateway: Running) -> None:
    for path in (
        "/services/Other",
        "/services",
        "/x/EventingService",
        "/services/EventingServiceX",
    ):
        assert (await gateway.post(enveloped(EVENT), path)).status == 404


@pytest.mark.parametrize(
    ("written", "topic"),
    [
        ("/topic/xyz", "xyz"),
        ("/topic/a/b", "a/b"),
        ("/topic/a%20b", "a b"),
        ("/topic/a%2520b", "a%20b"),
        ("/topic/a?b=c", "a?b=c"),
        ("/topic/ns:x:y", "x:y"),
    ],
)
async def test_the_url_names_the_topic(
    gateway: Running, consumer: Consumers, written: str, topic: str
) -> None:
    url, client = consumer.fresh(), WseClient(gateway)
    await client.subscribe(url, topic)
    await client.publish(None, EVENT, path=EVENTING + written)
    told = (await consumer.next(url)).message.header("Topic", IBM)
    assert told is not None and told.text == f"ns2:{topic}"


@pytest.mark.parametrize(
    ("written", "published"),
    [
        ("a%20b", "a b"),
        ("a/b", "a/b"),
        ("/lead", "/lead"),
        ("a|b", "a|b"),
        ("x*", "x*"),
        ("ns:x", "x"),
        ("%3E", "anything"),
    ],
)
async def test_the_url_names_the_topic_of_a_subscription(
    gateway: Running, consumer: Consumers, written: str, published: str
) -> None:
    """Subscribed there without a topic, as clients with an XPath alone do, it is the same text."""
    url, client, path = consumer.fresh(), WseClient(gateway), f"{EVENTING}/topic/{written}"
    identifier = await client.subscribe(url, None, "/c", path=path)
    await client.publish(published, EVENT)
    if written != "%3E":  # No event is on all topics.
        await client.publish(None, EVENT, path=path)
        await client.publish(f"{published}x", EVENT)
    await gateway.quiet()
    assert consumer.waiting(url) == (1 if written == "%3E" else 2)
    await client.unsubscribe(identifier)


async def test_nobody_publishes_on_every_topic(gateway: Running) -> None:
    answer = await gateway.post(enveloped(EVENT), f"{EVENTING}/topic/%3E")
    assert answer.status == 500 and "all topics" in answer.fault.text


@pytest.mark.parametrize("path", ["", "/", "/topic", "/topic/"])
async def test_a_url_without_a_topic_is_the_reserved_one(
    gateway: Running, consumer: Consumers, path: str
) -> None:
    url, named, client = consumer.fresh(), consumer.fresh(), WseClient(gateway)
    await client.subscribe(url, "wseTopic")
    await client.subscribe(named, fresh_topic())
    await client.publish(None, EVENT, path=EVENTING + path)
    told = (await consumer.next(url)).message.header("Topic", IBM)
    assert told is not None
    assert (told.text, told.nsmap["ns2"]) == ("ns2:wseTopic", "http://tutorial.globus.org/auction")
    await gateway.quiet()
    assert consumer.waiting(named) == 0


async def test_a_segment_that_ends_in_topic_is_no_topic(gateway: Running) -> None:
    answer = await gateway.post(enveloped(EVENT), f"{EVENTING}/mytopic/x")
    assert answer.status == 404


async def test_the_header_comes_before_the_url(gateway: Running, consumer: Consumers) -> None:
    url, topic, client = consumer.fresh(), fresh_topic(), WseClient(gateway)
    await client.subscribe(url, topic)
    await client.publish(topic, EVENT, path=f"{EVENTING}/topic/other")
    await consumer.next(url)


@pytest.mark.parametrize("suffix", ["/", "user7", "/x%20y?z=%3a"])
async def test_the_address_of_a_consumer_goes_out_as_it_came(
    gateway: Running, consumer: Consumers, suffix: str
) -> None:
    url, client, topic = consumer.fresh() + suffix, WseClient(gateway), fresh_topic()
    await client.subscribe(url, topic)
    await client.publish(topic, EVENT)
    received = await consumer.next(url)
    assert url.endswith(received.path) and received.message.wsa("To") == url


# HTTP.


@pytest.mark.parametrize(("version", "chunked"), [("1.0", False), ("1.1", False), ("1.1", True)])
@pytest.mark.parametrize("action", [WSE_PUBLISH, "urn:anonOutInOp", "", None])
@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("modules", [False, True])
async def test_publications_as_axis2_sends_them(
    gateway: Running, version: str, chunked: bool, action: str | None, quoted: bool, modules: bool
) -> None:
    headers = (by_module if modules else by_hand)(WSE_PUBLISH, f"{gateway.url}{EVENTING}")
    octets = http_post(
        gateway.port,
        EVENTING,
        enveloped(EVENT, headers),
        action,
        version=version,
        chunked=chunked,
        quoted=quoted,
    )
    answer = await exchange(gateway.port, octets)
    assert answer.status == 200, answer.body
    [response] = answer.message.body
    assert response.tag == f"{{{WSE}}}cResponse" and response.get("trackId")


@pytest.mark.parametrize("action", ["urn:their-own", "urn:anonOutInOp", ""])
@pytest.mark.parametrize("addressed", [False, True])
async def test_any_action_publishes_and_is_answered_with_an_envelope(
    gateway: Running, consumer: Consumers, action: str, addressed: bool
) -> None:
    url, topic = consumer.fresh(), fresh_topic()
    await WseClient(gateway).subscribe(url, topic)
    more = by_hand(action, gateway.url) if addressed and action else ""
    octets = http_post(gateway.port, EVENTING, enveloped(EVENT, more + topic_header(topic)), action)
    answer = await exchange(gateway.port, octets)
    assert answer.status == 200, answer.body
    assert answer.message.body[0].tag == f"{{{WSE}}}cResponse"
    assert (answer.message.wsa("Action") is not None) is bool(more)
    received = await consumer.next(url)
    if action:  # Consumers get the publisher's action.
        assert received.message.wsa("Action") == action
        assert received.headers["soapaction"] == f'"{action}"'


@pytest.mark.parametrize("action", ["urn:their-own", ""])
async def test_the_notification_service_takes_no_unknown_event(
    gateway: Running, consumer: Consumers, action: str
) -> None:
    url = consumer.fresh()
    await WseClient(gateway).subscribe(url, ">")
    octets = http_post(gateway.port, NOTIFICATION, enveloped(EVENT), action)
    answer = await exchange(gateway.port, octets)
    assert answer.status == 500
    assert "is not an action of this service" in answer.fault.text
    await gateway.quiet()
    assert consumer.waiting(url) == 0


ACTIONS = [
    (EVENTING, f"{WSE}/Subscribe", "invalid subscription message - no subscribe element"),
    (EVENTING, f"{WSE}/Renew", "unable to process message"),
    (EVENTING, f"{WSE}/Unsubscribe", "unable to process message"),
    (EVENTING, f"{WSE}/SubscriptionEnd", "unable to process message"),
    (
        NOTIFICATION,
        f"{IBM}/SubscribeRequest",
        "invalid message context - unable to find Subscribe information",
    ),
    (NOTIFICATION, f"{IBM}/PauseSubsriptionRequest", "unable to process message"),
    (NOTIFICATION, f"{IBM}/Notify", "unable to process message"),
]
"""Actions of a service, and what the fault begins with for a message of another kind."""


@pytest.mark.parametrize(("service", "action", "text"), ACTIONS)
@pytest.mark.parametrize("addressed", [True, False], ids=["wsa:Action", "SOAPAction"])
@pytest.mark.parametrize(
    "body", [EVENT, f'<e:GetStatus xmlns:e="{WSE}"/>'], ids=["an event", "another request"]
)
async def test_an_action_of_the_service_needs_its_element(
    gateway: Running, consumer: Consumers, service: str, action: str, text: str,
    addressed: bool, body: str,
) -> None:  # fmt: skip
    url, client = consumer.fresh(), WseClient(gateway)
    identifier = await client.subscribe(url, ">")
    headers = by_hand(action, f"{gateway.url}{service}") if addressed else ""
    octets = http_post(gateway.port, service, enveloped(body, headers), action)
    answer = await exchange(gateway.port, octets)
    assert answer.status == 500
    assert text in answer.fault.text
    await gateway.quiet()
    assert consumer.waiting(url) == 0
    await client.unsubscribe(identifier)


@pytest.mark.parametrize(
    ("service", "action"), [(EVENTING, f"{WSE}/Subscribe"), (NOTIFICATION, f"{IBM}/Notify")]
)
async def test_an_action_that_wants_an_element_and_an_empty_body(
    gateway: Running, service: str, action: str
) -> None:
    octets = http_post(gateway.port, service, enveloped(""), action)
    answer = await exchange(gateway.port, octets)
    assert answer.status == 500 and "has no such element" in answer.fault.text


async def test_the_soap_action_alone_with_an_empty_body(
    gateway: Running, consumer: Consumers
) -> None:
    client = WseClient(gateway)
    identifier = await client.subscribe(consumer.fresh(), fresh_topic())
    headers = client.identifier_header(identifier)
    octets = http_post(gateway.port, EVENTING, enveloped("", headers), f"{WSE}/Unsubscribe")
    assert (await exchange(gateway.port, octets)).status == 200
    assert (await client.manage("Unsubscribe", identifier)).status == 500


async def test_any_action_that_is_no_request_s_publishes(
    gateway: Running, consumer: Consumers
) -> None:
    url, topic = consumer.fresh(), fresh_topic()
    await WseClient(gateway).subscribe(url, topic)
    await WseClient(gateway).publish(topic, EVENT, action=f"{IBM}/Anything")
    await consumer.next(url)


@pytest.mark.parametrize("service", [EVENTING, NOTIFICATION])
async def test_a_notify_of_oasis_is_answered_in_its_own_style(
    gateway: Running, consumer: Consumers, service: str
) -> None:
    url = consumer.fresh()
    await WseClient(gateway).subscribe(url, ">")
    answer = await gateway.ask(Speaker(), notify(notification_message(EVENT)), service)
    assert (answer.status, answer.body) == (202, b"")
    assert (await consumer.next(url)).payload.tag == "c"


@pytest.mark.parametrize("body", ["", "text alone"])
async def test_no_event_at_all(gateway: Running, body: str) -> None:
    headers = by_hand(WSE_PUBLISH, f"{gateway.url}{EVENTING}")
    octets = http_post(gateway.port, EVENTING, enveloped(body, headers), WSE_PUBLISH)
    answer = await exchange(gateway.port, octets)
    assert answer.status == 500 and answer.fault.text.startswith("unable to process message: ")


async def test_every_publication_has_a_track_id_of_its_own(gateway: Running) -> None:
    client = WseClient(gateway)
    tracks = [await client.publish(None, EVENT, chunked=bool(n % 2)) for n in range(4)]
    assert len(set(tracks)) == 4


@pytest.mark.parametrize(
    "answered", [(200, b""), (202, b""), (200, enveloped("")), (202, enveloped("<x/>"))]
)
async def test_200_and_202_are_deliveries(
    gateway: Running, consumer: Consumers, answered: tuple[int, bytes]
) -> None:
    code, body = answered
    url = consumer.add(status(code, body, Content_Type="text/xml")).url
    client, topic = WseClient(gateway), fresh_topic()
    await client.subscribe(url, topic)
    await client.publish(topic, EVENT)
    await consumer.next(url)
    await gateway.quiet()
    assert consumer.waiting(url) == 0


async def test_deliveries_have_a_length_and_http_1_0_for_those_who_want_it(
    tmp_path: Path,
) -> None:
    heads: asyncio.Queue[bytes] = asyncio.Queue()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heads.put_nowait(await read_request(reader))
            writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

    async with consuming(accept) as old, consuming(accept) as new:
        rows = [{"address": f"127.0.0.1:{old.port}", "http": "1.0"}]
        async with running(tmp_path, consumers=rows) as run:
            client = WseClient(run)
            for peer, version in ((old, b"HTTP/1.0"), (new, b"HTTP/1.1")):
                identifier = await client.subscribe(peer.url("/ConsumerService/"), "storms")
                await client.publish("storms", EVENT)
                head = (await asyncio.wait_for(heads.get(), 10)).partition(b"\r\n\r\n")[0]
                assert head.startswith(b"POST /ConsumerService/ " + version)
                assert b"content-length:" in head.lower()
                assert b"transfer-encoding" not in head.lower()
                await client.unsubscribe(identifier)


# SOAP and addressing.


async def test_it_is_answered_in_the_soap_of_the_request(gateway: Running) -> None:
    answer = await gateway.ask(Speaker(S12), EVENT, EVENTING, action=WSE_PUBLISH)
    assert answer.status == 200 and answer.message.soap is S12


async def test_unknown_headers_are_ignored(gateway: Running) -> None:
    client = WseClient(gateway)
    header = '<x:Security xmlns:x="urn:x">a</x:Security>'
    answer = await client.ask(WSE_PUBLISH, EVENT, header)
    assert answer.message.wsa("RelatesTo")


async def test_bindings_of_the_envelope_reach_the_consumer(
    gateway: Running, consumer: Consumers
) -> None:
    url, topic = consumer.fresh(), fresh_topic()
    await WseClient(gateway).subscribe(url, topic)
    envelope = enveloped('<c xsi:type="q:kind"/>', topic_header(topic)).replace(
        b"<soapenv:Envelope ",
        b'<soapenv:Envelope xmlns:q="urn:q" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" ',
    )
    answer = await exchange(gateway.port, http_post(gateway.port, EVENTING, envelope, WSE_PUBLISH))
    assert answer.status == 200
    assert (await consumer.next(url)).payload.nsmap["q"] == "urn:q"


async def test_reference_parameters_of_the_consumer_become_headers(
    gateway: Running, consumer: Consumers
) -> None:
    url, topic, client = consumer.fresh(), fresh_topic(), WseClient(gateway)
    inner = '<wsa:ReferenceParameters><k:Key xmlns:k="urn:k">7</k:Key></wsa:ReferenceParameters>'
    await client.ask(f"{WSE}/Subscribe", client.subscribe_body(url, topic, inner=inner))
    await client.publish(topic, EVENT)
    key = (await consumer.next(url)).message.header("Key", "urn:k")
    assert key is not None and key.text == "7"


# Subscriptions.


def expires_in(answer: etree._Element) -> timedelta | None:
    """The lifetime that is told, from now; None: for ever."""
    text = answer.findtext(f"{{{WSE}}}Expires")
    return None if text is None else parse_date_time(text) - datetime.now(UTC)


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        ("259200000", timedelta(hours=72)),
        ("60000", timedelta(minutes=1)),
        ("-1", None),
        (None, None),
    ],
)
async def test_milliseconds(
    gateway: Running, consumer: Consumers, asked: str | None, granted: timedelta | None
) -> None:
    client = WseClient(gateway)
    body = client.subscribe_body(consumer.fresh(), fresh_topic(), expires=asked)
    answer = await client.ask(f"{WSE}/Subscribe", body)
    [response] = answer.message.body
    told = expires_in(response)
    assert told == granted or (told and granted and abs(told - granted) < timedelta(seconds=30))
    # Renew and GetStatus tell the same.
    identifier = client.read_identifier(response.find(f"{{{WSE}}}SubscriptionManager"))
    renewed = await client.manage("Renew", identifier, "<wse:Expires>7200000</wse:Expires>")
    for later in (renewed, await client.manage("GetStatus", identifier)):
        told = expires_in(later.message.body[0])
        assert told and abs(told - timedelta(hours=2)) < timedelta(seconds=30)


async def test_durations_are_answered_with_durations(gateway: Running, consumer: Consumers) -> None:
    client = WseClient(gateway)
    body = client.subscribe_body(consumer.fresh(), fresh_topic(), expires="PT1H")
    answer = await client.ask(f"{WSE}/Subscribe", body)
    assert answer.message.body[0].findtext(f"{{{WSE}}}Expires", "").startswith("PT")


async def test_what_is_no_lifetime(gateway: Running, consumer: Consumers) -> None:
    client = WseClient(gateway)
    body = client.subscribe_body(consumer.fresh(), fresh_topic(), expires="tomorrow")
    assert (await client.call(f"{WSE}/Subscribe", body)).status == 500


async def test_a_subscription_without_a_filter_gets_all(
    gateway: Running, consumer: Consumers
) -> None:
    url, client = consumer.fresh(), WseClient(gateway)
    await gateway.subscribe(Speaker(S11), Speaker(S11).wse_subscribe(url), path=EVENTING)
    await client.publish("any", EVENT)
    await client.publish(None, EVENT)
    await consumer.next(url)
    await consumer.next(url)


async def test_another_mode_is_refused(gateway: Running, consumer: Consumers) -> None:
    client = WseClient(gateway)
    body = client.subscribe_body(consumer.fresh(), "t").replace(
        "<wse:Delivery>", '<wse:Delivery Mode="urn:pull">'
    )
    answer = await client.call(f"{WSE}/Subscribe", body)
    assert answer.status == 500
    assert answer.fault.subcode == f"{{{WSE}}}DeliveryModeRequestedUnavailable"
    assert answer.fault.text.startswith("Only Push delivery Mode (NotifyTo) is supported in WSE")


MANAGEMENT = "http://schemas.dmtf.org/wbem/wsman/1/wsman"


@pytest.mark.parametrize("mode", ["Events", "PushWithAck", "Pull"])
async def test_the_modes_of_management_are_those_of_other_addresses(
    gateway: Running, consumer: Consumers, mode: str
) -> None:
    client = WseClient(gateway)
    body = client.subscribe_body(consumer.fresh(), "t").replace(
        "<wse:Delivery>", f'<wse:Delivery Mode="{MANAGEMENT}/{mode}">'
    )
    answer = await client.call(f"{WSE}/Subscribe", body)
    assert answer.status == 500
    assert answer.fault.subcode == f"{{{WSE}}}DeliveryModeRequestedUnavailable"
    assert answer.fault.text.endswith(f"offered: {WSE}/DeliveryModes/Push")
    pushed = body.replace(f"{MANAGEMENT}/{mode}", f"{WSE}/DeliveryModes/Push")
    assert (await client.call(f"{WSE}/Subscribe", pushed)).status == 200


@pytest.mark.parametrize("xpath", [None, "/c/b"])
async def test_the_same_subscribe_again_renews(
    gateway: Running, consumer: Consumers, xpath: str | None
) -> None:
    url, other, topic, client = (
        consumer.fresh(),
        consumer.fresh(),
        fresh_topic(),
        WseClient(gateway),
    )
    first = await client.subscribe(url, topic, xpath, expires="60000")
    assert await client.subscribe(url, topic, xpath, expires="7200000") == first
    status = await client.manage("GetStatus", first)
    told = expires_in(status.message.body[0])
    assert told and told > timedelta(hours=1)
    different = [
        await client.subscribe(url, topic, "/c"),
        await client.subscribe(url, f"{topic}x", xpath),
        await client.subscribe(other, topic, xpath),
    ]
    assert len({first, *different}) == 4
    await client.publish(topic, EVENT)
    await gateway.quiet()
    assert (consumer.waiting(url), consumer.waiting(other)) == (2, 1)
    await client.unsubscribe(first)
    assert await client.subscribe(url, topic, xpath) != first


async def test_a_subscribe_of_others_makes_another(gateway: Running, consumer: Consumers) -> None:
    body = Speaker().wsn_subscribe(consumer.fresh())
    assert await gateway.subscribe(Speaker(), body) != await gateway.subscribe(Speaker(), body)


async def test_strangers_behind_one_address_get_subscriptions_of_their_own(
    tmp_path: Path, consumer: Consumers
) -> None:
    async with running(tmp_path, trusted="10.0.0.0/8") as run:
        url, client = consumer.fresh(), WseClient(run)
        assert await client.subscribe(url, "t") != await client.subscribe(url, "t")


async def test_the_same_subscribe_after_a_restart(tmp_path: Path, consumer: Consumers) -> None:
    url = consumer.fresh()
    async with running(tmp_path) as run:
        first = await WseClient(run).subscribe(url, "t")
    async with running(tmp_path) as run:
        assert await WseClient(run).subscribe(url, "t") == first


@pytest.mark.parametrize("identifier", ["Tsub9@1764750000000", fresh_id()[9:], "<&>", "x" * 300])
async def test_an_unknown_subscription(gateway: Running, identifier: str) -> None:
    answer = await WseClient(gateway).manage("Unsubscribe", escape(identifier))
    assert answer.status == 500
    told = identifier if len(identifier) <= 100 else f"{identifier[:100]}..."
    assert answer.fault.text.startswith(f"unknown subscription: {told} ")


@pytest.mark.parametrize("name", ["Unsubscribe", "Renew", "GetStatus"])
@pytest.mark.parametrize("blank", [None, "", " "])
async def test_no_identifier(gateway: Running, name: str, blank: str | None) -> None:
    client = WseClient(gateway)
    header = "" if blank is None else client.identifier_header(blank)
    answer = await client.call(f"{WSE}/{name}", f'<e:{name} xmlns:e="{WSE}"/>', header)
    assert answer.status == 500
    assert answer.fault.text.startswith("subscription identifier is not provided")


WITHOUT = {
    "Delivery": "invalid subscription - unable to find delivery tag",
    "NotifyTo": "invalid subscription - unable to find NotifyTo tag",
}
"""What the fault begins with where a part of Subscribe is missing."""


@pytest.mark.parametrize("name", WITHOUT)
async def test_a_part_of_subscribe_is_missing(
    gateway: Running, consumer: Consumers, name: str
) -> None:
    client = WseClient(gateway)
    body = client.subscribe_body(consumer.fresh(), "t").replace(name, "Other")
    answer = await client.call(f"{WSE}/Subscribe", body)
    assert answer.status == 500 and answer.fault.subcode == f"{{{WSE}}}InvalidMessage"
    assert answer.fault.text.startswith(WITHOUT[name])


async def test_a_box_without_its_id(gateway: Running) -> None:
    for inner in (f'<m:takeMessages xmlns:m="{BOX}"/>', EVENT):
        octets = enveloped(inner)
        answer = await gateway.post(octets, "/axis2/services/MsgBoxService")
        assert answer.status == 500, inner
        assert answer.fault.text.startswith("clientid cannot be found"), inner


# Topics.


@pytest.mark.parametrize(
    ("subscribed", "published", "match"),
    [
        ("x", "x", True),
        ("b:c", "b:c", True),  # After the first colon: of widget:b:c.
        ("/x", "/x", True),
        ("/x", "x", False),
        ("X", "x", False),
        (" x ", "x", True),
        (">", "anything", True),
        (">", None, True),
        ("", "anything", True),
        ("wseTopic", None, True),
        ("x", None, False),
        ("a.*", "a.b", False),
        ("a/b", "a", False),
    ],
)
async def test_topics_are_exact_strings(
    gateway: Running, consumer: Consumers, subscribed: str, published: str | None, match: bool
) -> None:
    url, client = consumer.fresh(), WseClient(gateway)
    identifier = await client.subscribe(url, subscribed)
    await client.publish(published, EVENT)
    await gateway.quiet()
    assert consumer.waiting(url) == match
    await client.unsubscribe(identifier)


async def test_prefixes_play_no_part(gateway: Running, consumer: Consumers) -> None:
    url, topic, client = consumer.fresh(), fresh_topic(), WseClient(gateway)
    body = client.subscribe_body(url, topic).replace("widget:", "").replace("xmlns:", "xmlns:z")
    await client.ask(f"{WSE}/Subscribe", body.replace("zwse", "wse"))
    await client.publish(topic, EVENT)
    await consumer.next(url)


COMBINED_CHILDREN = {
    "topic alone": ("<n:TopicExpression {n}>w:{t}</n:TopicExpression>", True),
    "topic with a dialect": (
        '<n:TopicExpression {n} Dialect="' + IBM_SIMPLE + '">w:{t}</n:TopicExpression>', True,
    ),
    "topic with another dialect": (
        '<n:TopicExpression {n} Dialect="urn:x">w:{t}</n:TopicExpression>', True,
    ),
    "topic with the dialect of paths": (
        '<n:TopicExpression {n} Dialect="' + CONCRETE + '">undeclared:{t}</n:TopicExpression>',
        True,
    ),
    "content with another dialect": (
        '<n:MessageContent {n} Dialect="urn:x">/c/b</n:MessageContent>', True,
    ),
    "content alone": ("<n:MessageContent {n}>/c/b</n:MessageContent>", True),
    "both": (
        "<n:TopicExpression {n}>w:{t}</n:TopicExpression>"
        '<n:MessageContent {n} Dialect="' + XPATH + '">/c/b[text()=1]</n:MessageContent>',
        True,
    ),
    "content that does not hold": (
        "<n:TopicExpression {n}>w:{t}</n:TopicExpression>"
        "<n:MessageContent {n}>/c/b[text()=2]</n:MessageContent>",
        False,
    ),
    "an empty content": (
        "<n:TopicExpression {n}>w:{t}</n:TopicExpression><n:MessageContent {n}/>", True,
    ),
    "another topic": ("<n:TopicExpression {n}>w:other</n:TopicExpression>", False),
    "nothing": ("", True),
}  # fmt: skip


@pytest.mark.parametrize("children", COMBINED_CHILDREN)
async def test_the_combined_dialect(gateway: Running, consumer: Consumers, children: str) -> None:
    url, topic, client = consumer.fresh(), fresh_topic(), WseClient(gateway)
    text, match = COMBINED_CHILDREN[children]
    inner = text.replace("{n}", f'xmlns:n="{IBM}" xmlns:w="urn:w"').replace("{t}", topic)
    body = client.subscribe_body(url, "-", "-")
    start, end = body.index("<wsnt:TopicExpression"), body.index("</wse:Filter>")
    await client.ask(f"{WSE}/Subscribe", body[:start] + inner + body[end:])
    await client.publish(topic, EVENT)
    await gateway.quiet()
    assert consumer.waiting(url) == match


async def test_an_unknown_dialect_is_refused(gateway: Running, consumer: Consumers) -> None:
    client = WseClient(gateway)
    body = client.subscribe_body(consumer.fresh(), "t").replace(IBM_SIMPLE, "urn:unknown")
    answer = await client.call(f"{WSE}/Subscribe", body)
    assert answer.status == 500
    assert answer.fault.subcode == f"{{{WSE}}}FilteringRequestedUnavailable"
    assert answer.fault.text.startswith("Unkown dialect: ")
    assert COMBINED in answer.fault.text  # The list of what is offered is whole.
    elsewhere = await gateway.post(enveloped(body), "/soap")
    assert not elsewhere.fault.text.startswith("Unkown")


# XPath.


@pytest.mark.parametrize(
    ("xpath", "event", "match"),
    [
        ("/c/b/a", "<c><b><a> 123 </a></b></c>", True),
        ("/c/b/a", "<a><b><c> 123 </c></b></a>", False),
        ("/c/b/a[text()=1]", "<c><b><a> 1.0 </a></b></c>", True),
        ("/c/b/a[text()=1]", "<c><b><a>2</a></b></c>", False),
        ("/foo/bar", "<foo><bar/></foo>", True),
        ("//src", "<msg><src/></msg>", True),
        ("/Envelope", "<foo/>", False),
        ("/c/b", "<c xmlns='urn:default'><b/></c>", True),
        ("/p:c", "<p:c xmlns:p='urn:any'/>", True),
        ("/p:c", "<q:c xmlns:q='urn:any'/>", False),
        ("/foo and not(/bar)", "<foo/>", True),
    ],
)
async def test_the_root_of_xpath_is_the_event_and_names_are_lexical(
    gateway: Running, consumer: Consumers, xpath: str, event: str, match: bool
) -> None:
    url, topic, client = consumer.fresh(), fresh_topic(), WseClient(gateway)
    await client.subscribe(url, topic, xpath)
    alone = consumer.fresh()
    identifier = await client.subscribe(alone, None, xpath)
    await client.publish(topic, event)
    await gateway.quiet()
    assert (consumer.waiting(url), consumer.waiting(alone)) == (match, match)
    await client.unsubscribe(identifier)


async def test_lexical_names_can_be_turned_off(tmp_path: Path, consumer: Consumers) -> None:
    url = consumer.fresh()
    async with running(tmp_path, messenger_lexical_names=False) as run:
        client = WseClient(run)
        await client.subscribe(url, "t", "/c")
        await client.publish("t", "<c xmlns='urn:default'/>")
        await client.publish("t", "<c/>")
        await run.quiet()
    assert consumer.waiting(url) == 1


async def test_at_other_addresses_names_have_namespaces(
    gateway: Running, consumer: Consumers
) -> None:
    url, client = consumer.fresh(), WseClient(gateway)
    body = Speaker(S11).wse_subscribe(url, filter=wse_filter("/*[local-name()='c']/b | /c"))
    await gateway.subscribe(Speaker(S11), body)
    other = consumer.fresh()
    await gateway.subscribe(
        Speaker(S11), Speaker(S11).wse_subscribe(other, filter=wse_filter("/c"))
    )
    await client.publish(None, "<c xmlns='urn:default'/>")
    await gateway.quiet()
    assert consumer.waiting(other) == 0


@pytest.mark.parametrize("xpath", ["/c[", "/c/b/", "", "//"])
async def test_an_invalid_expression_is_refused(
    gateway: Running, consumer: Consumers, xpath: str
) -> None:
    client = WseClient(gateway)
    answer = await client.call(
        f"{WSE}/Subscribe", client.subscribe_body(consumer.fresh(), None, xpath)
    )
    assert answer.status == 500
    assert answer.fault.subcode == f"{{{WSE}}}FilteringRequestedUnavailable"
    begin = "Invalid XPath expression: " if xpath else "xpath expression is not given"
    assert answer.fault.text.startswith(begin)


# Deliveries.


@pytest.mark.parametrize("expires", ["PT5M", None])
@pytest.mark.parametrize("filtered", [True, False])
async def test_its_consumers_are_known_by_the_address(
    gateway: Running, consumer: Consumers, expires: str | None, filtered: bool
) -> None:
    """Neither milliseconds nor a topic of its dialect is needed."""
    url, topic, client = consumer.fresh(), fresh_topic(), WseClient(gateway)
    body = client.subscribe_body(url, None, "/c", expires=expires)
    if not filtered:
        body = re.sub("<wse:Filter.*</wse:Filter>", "", body)
    answer = await client.ask(f"{WSE}/Subscribe", body)
    manager = answer.message.body[0].find(f"{{{WSE}}}SubscriptionManager")
    identifier = client.read_identifier(manager)
    await client.publish(topic, EVENT)
    told = (await consumer.next(url)).message.header("Topic", IBM)
    assert told is not None and told.text == f"widget:{topic}"
    await client.unsubscribe(identifier)


@pytest.mark.parametrize("soap", [S11, S12])
async def test_its_consumers_may_speak_either_soap(
    gateway: Running, consumer: Consumers, soap: Soap
) -> None:
    url, topic, speaker = consumer.fresh(), fresh_topic(), Speaker(soap)
    answer = await gateway.ask(speaker, speaker.wse_subscribe(url), EVENTING)
    [identifier] = answer.message.root.iter(f"{{{WSE}}}Identifier")
    await WseClient(gateway).publish(topic, EVENT)
    received = (await consumer.next(url)).message
    assert received.soap is soap and received.header("Topic", IBM) is not None
    await WseClient(gateway).unsubscribe(identifier.text or "")


async def test_who_names_topics_of_oasis_gets_them(gateway: Running, consumer: Consumers) -> None:
    url, topic, client = consumer.fresh(), fresh_topic(), WseClient(gateway)
    body = client.subscribe_body(url, topic, expires="PT5M")
    body = body.replace(IBM_SIMPLE, CONCRETE).replace("widget:", "").replace("xmlns:", "xmlns:z")
    await client.ask(f"{WSE}/Subscribe", body.replace("zwse", "wse"))
    await client.publish(topic, EVENT)
    assert (await consumer.next(url)).message.header("Topic", WSNT) is not None


@pytest.mark.parametrize("properties", [False, True])
async def test_the_answer_is_in_the_addressing_of_the_request(
    gateway: Running, consumer: Consumers, properties: bool
) -> None:
    """With a consumer's reference of 2004/08, too, as its clients write them in headers of 1.0."""
    url, topic, client = consumer.fresh(), fresh_topic(), WseClient(gateway)
    kind = "ReferenceProperties" if properties else "ReferenceParameters"
    inner = f'<wsa:{kind}><k:Key xmlns:k="urn:k">7</k:Key></wsa:{kind}>'
    body = client.subscribe_body(url, topic, inner=inner)
    start, end = body.index("<NotifyTo"), body.index("</wse:Delivery>")
    old = body[start:end].replace("wsa:", "old:").replace("<NotifyTo", f"<NotifyTo {OLD}")
    answer = await client.ask(f"{WSE}/Subscribe", body[:start] + old + body[end:])
    manager = answer.message.body[0].find(f"{{{WSE}}}SubscriptionManager")
    identifier = client.read_identifier(manager)
    await client.publish(topic, EVENT)
    key = (await consumer.next(url)).message.header("Key", "urn:k")
    assert key is not None and key.text == "7"
    [entry] = [one for one in gateway.gateway.subscriptions.entries if one.target.url == url]
    assert "mixed-addressing" not in set(profiles_of(entry.subscription))
    await client.unsubscribe(identifier)


async def test_an_event_of_wsn_comes_with_its_topic(gateway: Running, consumer: Consumers) -> None:
    """The topic of WS-BaseNotification 1.3 becomes the header that its consumers look for."""
    url, topic, client = consumer.fresh(), fresh_topic(), WseClient(gateway)
    await client.subscribe(url, topic)
    await gateway.ask(Speaker(), notify(notification_message(EVENT, topic)))
    received = await consumer.next(url)
    told = received.message.header("Topic", IBM)
    assert told is not None and told.text == f"ns2:{topic}"
    assert [header.tag.rpartition("}")[2] for header in received.message.headers] == [
        "Action", "MessageID", "To", "Topic",
    ]  # fmt: skip


async def test_an_event_of_its_publisher_reaches_a_consumer_of_wsn(
    gateway: Running, consumer: Consumers
) -> None:
    url = consumer.fresh()
    await gateway.subscribe(Speaker(), Speaker().wsn_subscribe(url))
    await WseClient(gateway).publish("area", plain_text("hi"))
    received = await consumer.next(url)
    assert received.payload.text == "hi"
    assert received.topic is not None and (received.topic.text or "").endswith("area")
    assert received.message.body[0].tag == f"{{{WSNT}}}Notify"
