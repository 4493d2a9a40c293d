"""An event of any publisher reaches each subscriber in what that subscriber speaks."""

import gzip
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from lxml import etree

from filters import parse_clark
from gateway.egress import read_origin
from mediation.model.messages import Notification
from mediation.model.versions import Wsa
from tests.rigs.consumers import Consumers, Receipt
from tests.rigs.envelopes import (
    BW,
    CONCRETE,
    FULL,
    IBM,
    IBM_SIMPLE,
    S11,
    S12,
    SIMPLE,
    WSA10,
    WSNT,
    Speaker,
    canonical,
    children,
    fresh_id,
    message_content,
    notification_message,
    notify,
    pairs,
    topic_expression,
    wse_filter,
)
from tests.rigs.gateways import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")

XSI = "http://www.w3.org/2001/XMLSchema-instance"
SCOPE = {"q": "urn:test:q", "xsi": XSI}
"""Prefixes that publishers declare on the envelope, far from the payload."""
PAYLOAD = (
    '<p:Event xmlns:p="urn:test:p" kind="q:Kind" wsnt="s:no-name">'
    '<q:inner xsi:type="p:Type">q:value</q:inner><plain xmlns=""/>'
    '<wsnt:mine xmlns:wsnt="urn:test:mine" xmlns:s="urn:test:s">&lt;&amp;]]&gt; ä€😀</wsnt:mine>'
    "</p:Event>"
)
DECLARED = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in SCOPE.items())
EXPECTED = canonical(PAYLOAD.replace("<p:Event", f"<p:Event{DECLARED}", 1).encode())


GATEWAY = {"adapter": "embedded:"}
"""Settings of the module's gateway."""


@dataclass(frozen=True)
class Publisher:
    """How events come in: as bare bodies, or wrapped; with or without an action of their own."""

    name: str
    wrapped: bool
    action: str

    def envelope(
        self,
        speaker: Speaker,
        payload: str,
        *,
        topic: str | None = None,
        headers: str = "",
        producer: str = "",
    ) -> bytes:
        """*topic*: the text for the message itself, where it is wrapped."""
        body = payload
        if self.wrapped:
            body = notify(notification_message(payload, topic, producer=producer))
        octets = speaker.envelope(body, action=self.action, message_id=fresh_id(), headers=headers)
        return octets.replace(b"<s:Envelope", b"<s:Envelope" + DECLARED.encode(), 1)


EVENT_ACTION = "urn:test:event-action"
PUBLISHERS = (
    Publisher("wrapped", True, f"{BW}/NotificationConsumer/Notify"),
    Publisher("raw", False, f"{BW}/NotificationConsumer/Notify"),
    Publisher("bare", False, EVENT_ACTION),
)
SOURCES = ("message", "header", "parameter", "property", "url", "percent", "none")


def arranged(publisher: Publisher, source: str, topic: str) -> tuple[str | None, str, str]:
    """The topic in the message, the headers and the path with which *source* names *topic*."""
    element = f'<h:Topic xmlns:h="{WSNT}" Dialect="{CONCRETE}"{{}}>{topic}</h:Topic>'
    if source == "message":
        return topic, "", "/soap"
    if source == "header":
        return None, element.format(""), "/soap"
    if source == "parameter":
        mark = f' xmlns:m="{WSA10}" m:IsReferenceParameter="true"'
        return None, element.format(mark), "/soap"
    if source == "property":  # WS-Messenger's, as its consumers got it from an older addressing
        return None, element.format("").replace(WSNT, IBM), "/soap"
    if source == "url":
        return None, "", f"/soap/topic/{topic}"
    if source == "percent":
        return None, "", "/soap/topic/" + "".join(f"%{ord(letter):02X}" for letter in topic)
    return None, "", "/soap"


CASES = [
    pytest.param(publisher, source, id=f"{publisher.name}-{source}")
    for publisher, source in pairs(PUBLISHERS, SOURCES)
    if publisher.wrapped or source != "message"
]


@pytest.mark.parametrize(("publisher", "source"), CASES)
async def test_every_pair(
    gateway: Running, consumer: Consumers, publisher: Publisher, source: str
) -> None:
    topic = "wseTopic" if source == "none" else f"pairs/{publisher.name}/{source}"
    sending = Speaker(S11 if publisher.wrapped else S12)
    subscribers = {}
    for kind, soap, wsa in pairs(
        ("wrapped", "raw", "wse"), (S11, S12), (Wsa.V2004_08, Wsa.V2005_08)
    ):
        speaker, url = Speaker(soap, wsa), consumer.fresh()
        inner = speaker.parameters(
            f'<b:Box xmlns:b="urn:test:box" xmlns:q="urn:test:other" at="q:x">{kind}</b:Box>'
        )
        if kind == "wse":
            body = speaker.wse_subscribe(url, filter=wse_filter(topic, CONCRETE), inner=inner)
        else:
            body = speaker.wsn_subscribe(
                url, filter=topic_expression(topic), raw=kind == "raw", inner=inner
            )
        subscribers[url] = (kind, speaker, await gateway.subscribe(speaker, body))
    in_message, headers, path = arranged(publisher, source, topic)
    envelope = publisher.envelope(
        sending,
        PAYLOAD,
        topic=in_message,
        headers=headers + '<t:Trace xmlns:t="urn:test:t">1</t:Trace>',
    )
    answer = await gateway.post(envelope, path)
    assert (answer.status, answer.body) == (202, b"")
    for url, (kind, speaker, manager) in subscribers.items():
        received = await consumer.next(url)
        check(gateway, received, kind, speaker, manager, publisher, topic)
        assert consumer.waiting(url) == 0
    for manager in (one[2] for one in subscribers.values()):
        await gateway.ask(Speaker(), f'<n:Unsubscribe xmlns:n="{WSNT}"/>', manager)


def check(
    gateway: Running,
    received: Receipt,
    kind: str,
    speaker: Speaker,
    manager: str,
    publisher: Publisher,
    topic: str,
) -> None:
    message, payload = received.message, received.payload
    assert message.soap is speaker.soap and speaker.wsa is not None
    assert canonical(payload) == EXPECTED
    for prefix, uri in SCOPE.items():
        assert payload.nsmap[prefix] == uri
        assert payload[0].nsmap[prefix] == uri
    assert payload.nsmap.get(None) is None
    action = message.wsa("Action", speaker.wsa)
    if kind == "wrapped":
        assert action == f"{BW}/NotificationConsumer/Notify"
        [inner] = children(message.body[0])
        reference = inner.findtext(
            f"{{{WSNT}}}SubscriptionReference/{{{speaker.wsa.value}}}Address"
        )
        assert reference == gateway.url + manager
        producer = inner.findtext(f"{{{WSNT}}}ProducerReference/{{{speaker.wsa.value}}}Address")
        assert producer == f"{gateway.url}/soap"
    elif publisher.action == EVENT_ACTION:
        assert action == EVENT_ACTION
    elif kind == "raw":
        assert action == f"{BW}/NotificationConsumer/Notify"
    else:
        assert action == "urn:test:p/Event"
    if kind == "raw":
        assert received.topic is None
    else:
        assert received.topic is not None and received.topic.text == topic
        assert received.topic.get("Dialect") in (CONCRETE, SIMPLE)
    box = message.header("Box", "urn:test:box")
    assert box is not None and box.text == kind and box.nsmap["q"] == "urn:test:other"
    trace = message.header("Trace", "urn:test:t")
    assert trace is not None


async def test_the_topic_of_the_message_wins_over_header_and_url(
    gateway: Running, consumer: Consumers
) -> None:
    speaker = Speaker()
    urls = {}
    for name in ("in-message", "in-header", "in-url"):
        urls[name] = consumer.fresh()
        body = speaker.wsn_subscribe(urls[name], filter=topic_expression(name))
        await gateway.subscribe(speaker, body)
    header = f'<n:Topic xmlns:n="{WSNT}">in-header</n:Topic>'
    body = notify(notification_message("<a/>", "in-message"), notification_message("<b/>"))
    await gateway.publish(body, headers=header, path="/soap/topic/in-url")
    await gateway.publish("<c/>", headers=header, path="/soap/topic/in-url")
    await gateway.publish("<d/>", path="/soap/topic/in-url")
    assert (await consumer.next(urls["in-message"])).payload.tag == "a"
    assert (await consumer.next(urls["in-header"])).payload.tag == "b"
    assert (await consumer.next(urls["in-header"])).payload.tag == "c"
    assert (await consumer.next(urls["in-url"])).payload.tag == "d"
    await gateway.quiet()
    assert [consumer.waiting(url) for url in urls.values()] == [0, 0, 0]


TOPIC_LESS = {
    "no filter": ("", True),
    "wse no filter": (None, True),
    "content": (message_content("/a"), True),
    "content that fails": (message_content("/b"), False),
    "any root": (topic_expression("*", FULL), True),
    "anything": (topic_expression("//*", FULL), True),
    "the reserved topic": (topic_expression("wseTopic", SIMPLE), True),
    "WS-Messenger's wildcard": (topic_expression(">", IBM_SIMPLE), True),
    "another topic": (topic_expression("other", SIMPLE), False),
    "any child": (topic_expression("*/*", FULL), False),
    "below": (topic_expression("other//.", FULL), False),
    "another namespace": (topic_expression("p:*", FULL, 'xmlns:p="urn:test:p"'), False),
}


async def test_events_without_a_topic(gateway: Running, consumer: Consumers) -> None:
    speaker = Speaker()
    urls, managers = {}, []
    for name, (filter_, _) in TOPIC_LESS.items():
        url = urls[name] = consumer.fresh()
        body = (
            speaker.wse_subscribe(url)
            if filter_ is None
            else speaker.wsn_subscribe(url, filter=filter_)
        )
        managers.append(await gateway.subscribe(speaker, body))
    await gateway.publish("<a/>")
    await gateway.publish(notify(notification_message("<a/>")))
    await gateway.quiet()
    counts = {name: consumer.waiting(url) for name, url in urls.items()}
    assert counts == {name: 2 * expected for name, (_, expected) in TOPIC_LESS.items()}
    for manager in managers:
        await gateway.ask(speaker, f'<n:Unsubscribe xmlns:n="{WSNT}"/>', manager)


async def test_each_message_of_a_notify_is_an_event(gateway: Running, consumer: Consumers) -> None:
    speaker, wse, wrapped = Speaker(), consumer.fresh(), consumer.fresh()
    await gateway.subscribe(speaker, speaker.wse_subscribe(wse, filter=wse_filter("many//.", FULL)))
    filter_ = topic_expression("many/one|many/three", FULL)
    await gateway.subscribe(speaker, speaker.wsn_subscribe(wrapped, filter=filter_))
    messages = [
        notification_message(f"<m{number}/>", f"many/{topic}")
        for number, topic in enumerate(("one", "two", "three"))
    ]
    await gateway.publish(notify(*messages))
    ids = set()
    for number, topic in enumerate(("one", "two", "three")):
        received = await consumer.next(wse)
        assert received.payload.tag == f"m{number}"
        assert received.topic is not None and received.topic.text == f"many/{topic}"
        ids.add(received.message.wsa("MessageID"))
    assert len(ids) == 3
    assert [(await consumer.next(wrapped)).payload.tag for _ in range(2)] == ["m0", "m2"]


async def test_a_body_of_several_elements_is_one_event(
    gateway: Running, consumer: Consumers
) -> None:
    speaker, url = Speaker(), consumer.fresh()
    await gateway.subscribe(speaker, speaker.wsn_subscribe(url, filter=topic_expression("two")))
    await gateway.publish("<first/><!-- --><second/>", path="/soap/topic/two")
    assert [part.tag for part in (await consumer.next(url)).payload] == ["first", "second"]


async def test_a_producer_reference_is_kept(gateway: Running, consumer: Consumers) -> None:
    speaker, url = Speaker(S11, Wsa.V2004_08), consumer.fresh()
    body = speaker.wsn_subscribe(url, filter=topic_expression("produced"))
    manager = await gateway.subscribe(speaker, body)
    producer = (
        f'<a:Address xmlns:a="{WSA10}">http://producer.example.org/</a:Address>'
        f'<a:ReferenceParameters xmlns:a="{WSA10}"><x:P xmlns:x="urn:test:x">1</x:P>'
        "</a:ReferenceParameters>"
    )
    inner = notification_message("<a/>", "produced", producer=producer).replace(
        "<n:NotificationMessage>",
        "<n:NotificationMessage><n:SubscriptionReference><a:Address "
        f'xmlns:a="{WSA10}">http://other.example.org/s</a:Address></n:SubscriptionReference>',
    )
    await gateway.publish(notify(inner))
    [message] = children((await consumer.next(url)).message.body[0])
    old = Wsa.V2004_08.value
    reference = message.find(f"{{{WSNT}}}ProducerReference")
    assert reference is not None
    assert reference.findtext(f"{{{old}}}Address") == "http://producer.example.org/"
    assert reference.find(f"{{{old}}}ReferenceParameters/{{urn:test:x}}P") is not None
    ours = message.findtext(f"{{{WSNT}}}SubscriptionReference/{{{old}}}Address")
    assert ours == gateway.url + manager


async def test_topics_with_namespaces_keep_them(gateway: Running, consumer: Consumers) -> None:
    speaker, wrapped, wse = Speaker(), consumer.fresh(), consumer.fresh()
    scope = 'xmlns:w="urn:test:weather" xmlns:z="urn:test:zone"'
    filter_ = topic_expression("w:storms/z:north", CONCRETE, scope)
    await gateway.subscribe(speaker, speaker.wsn_subscribe(wrapped, filter=filter_))
    other = wse_filter("k:storms//.", FULL, 'xmlns:k="urn:test:weather"')
    await gateway.subscribe(speaker, speaker.wse_subscribe(wse, filter=other))
    message = notification_message("<a/>", "x:storms/y:north")
    await gateway.publish(
        notify(message, scope='xmlns:x="urn:test:weather" xmlns:y="urn:test:zone"')
    )
    await gateway.publish(notify(notification_message("<b/>", "storms/north")))
    for url in (wrapped, wse):
        received = await consumer.next(url)
        topic = received.topic
        assert received.payload.tag == "a" and topic is not None
        names = [
            (topic.nsmap[prefix], local)
            for prefix, local in (step.split(":") for step in (topic.text or "").split("/"))
        ]
        assert names == [("urn:test:weather", "storms"), ("urn:test:zone", "north")]
    await gateway.publish(
        "<c/>", path="/soap/topic/%7Burn:test:weather%7Dstorms/%7Burn:test:zone%7Dnorth"
    )
    assert (await consumer.next(wrapped)).payload.tag == "c"
    await gateway.quiet()
    assert consumer.waiting(wrapped) == 0


async def test_filters_see_what_their_family_says(gateway: Running, consumer: Consumers) -> None:
    """WS-Eventing 2004/08 evaluates over the envelope, WS-Notification over the payload."""
    speaker = Speaker(S12, Wsa.V2004_08)
    scope = f'xmlns:s="{S12.value}" xmlns:a="{Wsa.V2004_08.value}" xmlns:o="urn:test:o"'
    expressions = {
        "s:Body/o:Reading": True,
        "/s:Envelope/s:Body/o:Reading[. &gt; 5]": True,
        "s:Header/a:Action = 'urn:test:reading'": True,
        "/o:Reading": True,
        "not(//o:Other)": True,
        "//o:Reading": True,
        "s:Body/o:Other": False,
        "o:Reading": False,
    }
    urls = {}
    for expression in expressions:
        urls[expression] = consumer.fresh()
        filter_ = wse_filter(expression, scope=scope)
        await gateway.subscribe(speaker, speaker.wse_subscribe(urls[expression], filter=filter_))
    wsn = {"/o:Reading": True, "o:Reading": False, "//o:Reading": True, "/s:Envelope": False}
    for expression in wsn:
        urls["wsn " + expression] = consumer.fresh()
        filter_ = message_content(expression, scope)
        body = speaker.wsn_subscribe(urls["wsn " + expression], filter=filter_)
        await gateway.subscribe(speaker, body)
    await gateway.publish(
        '<o:Reading xmlns:o="urn:test:o">7</o:Reading>', action="urn:test:reading"
    )
    await gateway.quiet()
    counts = {expression: consumer.waiting(url) for expression, url in urls.items()}
    assert counts == {**expressions, **{"wsn " + one: here for one, here in wsn.items()}}


async def test_repeats_are_one_event(gateway: Running, consumer: Consumers) -> None:
    speaker, url = Speaker(), consumer.fresh()
    await gateway.subscribe(speaker, speaker.wse_subscribe(url, filter=wse_filter("rep", SIMPLE)))
    octets = speaker.envelope("<a/>", message_id=fresh_id(), action="urn:test:a")
    for _ in range(3):
        assert (await gateway.post(octets, "/soap/topic/rep")).status == 202
    await gateway.publish("<last/>", path="/soap/topic/rep")
    assert [(await consumer.next(url)).payload.tag for _ in range(2)] == ["a", "last"]


async def test_a_consumer_cannot_forge_headers(gateway: Running, consumer: Consumers) -> None:
    speaker, url = Speaker(), consumer.fresh()
    forged = speaker.parameters(
        f'<a:To xmlns:a="{WSA10}">urn:test:forged</a:To>',
        f'<h:Fine xmlns:h="urn:test:h" xmlns:s="{S12.value}" s:mustUnderstand="true">&#13;&#10;</h:Fine>',
    )
    await gateway.subscribe(speaker, speaker.wse_subscribe(url, inner=forged))
    answer = await gateway.ask(speaker, speaker.wsn_subscribe(url, inner=forged))
    assert answer.status == 400
    await gateway.publish("<a/>")
    message = (await consumer.next(url)).message
    assert message.wsa("To") == url
    assert message.header("Fine", "urn:test:h") is not None


def corpus(shared: Path, each: int) -> Mapping[str, list[str]]:
    """*each* documents of every family, spread over its file."""
    found = {}
    for file in sorted((shared / "corpus").glob("*/*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            documents = [json.loads(line)["xml"] for line in lines]
        step = max(1, len(documents) // each)
        found[file.parent.name] = list(itertools.islice(documents, 0, None, step))[:each]
    return found


async def test_real_messages_go_both_ways(
    gateway: Running, consumer: Consumers, material: Path
) -> None:
    documents = corpus(material, 12)
    assert len(documents) >= 3
    for family, texts in documents.items():
        urls = {}
        for kind, speaker in (("wse", Speaker(S11)), ("wrapped", Speaker()), ("raw", Speaker(S11))):
            urls[kind] = consumer.fresh()
            body = (
                speaker.wse_subscribe(urls[kind], filter=wse_filter(family, SIMPLE))
                if kind == "wse"
                else speaker.wsn_subscribe(
                    urls[kind], filter=topic_expression(family, SIMPLE), raw=kind == "raw"
                )
            )
            await gateway.subscribe(speaker, body)
        for number, text in enumerate(texts):
            expected = canonical(text.encode())
            await gateway.publish(
                notify(notification_message(text, family)) if number % 2 else text,
                path=f"/soap/topic/{family}",
                speaker=Speaker(S11 if number % 3 else S12),
            )
            for url in urls.values():
                payload = (await consumer.next(url)).payload
                assert canonical(payload) == expected, (family, number)
                assert prefixes(etree.fromstring(text.encode())) <= prefixes(payload)


def prefixes(element: etree._Element) -> set[tuple[str, str]]:
    return {(prefix or "", uri) for prefix, uri in element.nsmap.items()}


async def test_hops_are_counted(gateway: Running, consumer: Consumers) -> None:
    speaker, url = Speaker(), consumer.fresh()
    await gateway.subscribe(speaker, speaker.wse_subscribe(url, filter=wse_filter("hops", SIMPLE)))
    octets = speaker.envelope("<a/>")
    for sent, received in ((None, "1"), ("0", "1"), ("7", "8")):
        more = {} if sent is None else {"dragoman_hops": sent}
        assert (await gateway.post(octets, "/soap/topic/hops", **more)).status == 202
        assert (await consumer.next(url)).headers["dragoman-hops"] == received


async def test_hops_and_origins_that_a_native_program_wrote(
    gateway: Running, consumer: Consumers
) -> None:
    """Bad ones count as none, too many as the most there are."""
    speaker, url = Speaker(), consumer.fresh()
    filter_ = wse_filter("native", SIMPLE)
    await gateway.subscribe(speaker, speaker.wse_subscribe(url, filter=filter_))
    topic, now = parse_clark("native"), datetime.now(UTC)
    bad = ("x", "", "1e9", "-3", "+1", " 1", "\u0663", "7.0")
    sent = [(text, "1") for text in bad] + [("7", "8"), ("8", "9"), ("9" * 5000, "9")]
    for hops, expected in sent:
        own = {"dragoman_hops": hops, "dragoman_origin": f"{hops}\r\nX: y"}
        id_ = f"urn:uuid:{uuid4()}"
        await gateway.gateway.adapter.publish(
            [Notification(id_, "urn:native", b"<a/>", now, topic, properties=own)]
        )
        received = await consumer.next(url)
        assert received.headers["dragoman-hops"] == expected, hops
        assert "x" not in received.headers
        assert read_origin(received.headers["dragoman-origin"])


async def test_a_large_notify_keeps_its_order(gateway: Running, consumer: Consumers) -> None:
    speaker, url = Speaker(), consumer.fresh()
    await gateway.subscribe(
        speaker, speaker.wsn_subscribe(url, filter=topic_expression("large"), raw=True)
    )
    messages = (notification_message(f"<m{number}/>", "large") for number in range(256))
    await gateway.publish(notify(*messages))
    received = [(await consumer.next(url)).payload.tag for _ in range(256)]
    assert received == [f"m{number}" for number in range(256)]


@pytest.mark.holds_loop("40,000 elements of as many names are matched in one step: 45 to 67 ms")
async def test_a_large_event(gateway: Running, consumer: Consumers) -> None:
    speaker, url = Speaker(), consumer.fresh()
    await gateway.subscribe(speaker, speaker.wse_subscribe(url, filter=wse_filter("big", SIMPLE)))
    payload = "<a>" + "".join(f"<b{n}>{n}</b{n}>" for n in range(40_000)) + "</a>"
    await gateway.publish(payload, path="/soap/topic/big")
    assert canonical((await consumer.next(url)).payload) == payload.encode()


async def test_a_subscribe_at_a_topic_is_for_that_topic(
    gateway: Running, consumer: Consumers
) -> None:
    speaker, url = Speaker(S11), consumer.fresh()
    body = speaker.wse_subscribe(url, filter=wse_filter("//a"))
    await gateway.subscribe(speaker, body, path="/soap/topic/gr%C3%B6%C3%9Fe/x")
    for path in ("/soap/topic/gr%C3%B6%C3%9Fe", "/soap", "/soap/topic/gr%c3%b6%c3%9fe/x"):
        await gateway.publish("<a/>", path=path)
    await gateway.quiet()
    received = await consumer.next(url)
    assert received.topic is not None and received.topic.text == "größe/x"
    assert consumer.waiting(url) == 0
