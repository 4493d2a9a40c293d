"""Pull points of WS-BaseNotification 1.3 through a running gateway."""

import asyncio
import re
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
from lxml import etree

from mediation import names
from mediation.model.versions import Soap, Wsa
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    BW,
    CONCRETE,
    RL,
    S11,
    S12,
    WSA10,
    WSE,
    WSNT,
    Answer,
    R,
    Speaker,
    canonical,
    children,
    fresh_id,
    next_number,
    notification_message,
    notify,
    pairs,
    topic_expression,
    wse_filter,
)
from tests.rigs.gateways import Running
from tests.rigs.processes import gateway_process
from tests.rigs.waiting import DEADLINE, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN = "00000000-0000-4000-8000-000000000000"
SPEAKERS = [
    pytest.param(Speaker(soap, wsa), id=f"{soap.name}-{wsa.name if wsa else 'none'}")
    for soap, wsa in pairs((S11, S12), (Wsa.V2005_08, Wsa.V2004_08, None))
]
_KEY = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Gateway(Protocol):
    """What a pull point needs of the gateway: one in this process has it, and one in another."""

    async def request(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> Answer: ...


class Event(NamedTuple):
    """What is told of one message: its topic as it is written, and its payload."""

    topic: str
    payload: str


def events_in(answer: Answer) -> list[Event]:
    """The messages of a GetMessagesResponse."""
    assert answer.status == 200, answer.body
    [response] = answer.message.body
    assert response.tag == f"{{{WSNT}}}GetMessagesResponse", answer.body
    assert {child.tag for child in children(response)} <= {f"{{{WSNT}}}NotificationMessage"}
    found = []
    for message in children(response):
        topic, content = message.find(f"{{{WSNT}}}Topic"), message.find(f"{{{WSNT}}}Message")
        assert topic is not None and content is not None
        [payload] = children(content)
        found.append(Event(topic.text or "", payload.text or ""))
    return found


class PullPoint:
    """A pull point as its maker knows it."""

    def __init__(self, run: Gateway, speaker: Speaker, answer: Answer) -> None:
        self.run = run
        self.speaker = speaker
        [response] = answer.message.body
        assert response.tag == f"{{{WSNT}}}CreatePullPointResponse", answer.body
        [self.epr] = children(response)
        assert self.epr.tag == f"{{{WSNT}}}PullPoint"
        first = children(self.epr)[0]
        assert first.tag == f"{{{(speaker.wsa or Wsa.V2005_08).value}}}Address"
        self.address = first.text or ""
        found = _KEY.search(self.address)
        assert found is not None
        self.key = found[0]
        self.path = self.address[self.address.index("/", 8) :]

    @classmethod
    async def create(cls, run: Gateway, speaker: Speaker | None = None) -> "PullPoint":
        speaker = speaker or Speaker()
        answer = await ask(run, speaker, "CreatePullPoint", "<q>name</q>")
        assert answer.status == 200, answer.body
        return cls(run, speaker, answer)

    async def get(self, most: int | None = None) -> list[Event]:
        inner = "" if most is None else f"<n:MaximumNumber>{most}</n:MaximumNumber>"
        return events_in(await ask(self.run, self.speaker, "GetMessages", inner, self.path))

    async def collect(self, number: int, most: int | None = None) -> list[Event]:
        """Get messages until there are *number*."""
        found: list[Event] = []

        async def all_are_there() -> bool:
            found.extend(await self.get(most) if len(found) < number else [])
            return len(found) >= number

        await until(all_are_there, 2 * DEADLINE)
        return found

    async def destroy(self) -> Answer:
        return await ask(self.run, self.speaker, "DestroyPullPoint", "", self.path)


async def ask(
    run: Gateway,
    speaker: Speaker,
    operation: str,
    inner: str = "",
    path: str = "/soap",
    *,
    to: str | None = None,
    headers: str = "",
) -> Answer:
    """Ask for an operation of pull points."""
    port_type = "CreatePullPoint" if operation == "CreatePullPoint" else "PullPoint"
    octets = speaker.envelope(
        f'<n:{operation} xmlns:n="{WSNT}">{inner}</n:{operation}>',
        action=f"{BW}/{port_type}/{operation}Request",
        message_id=fresh_id(),
        to=to,
        headers=headers,
    )
    return await run.request("POST", path, octets, content_type=speaker.type)


def event(number: object) -> str:
    return f'<e:Event xmlns:e="urn:test:events">{number}</e:Event>'


def fresh_topic() -> str:
    return f"pulled{next_number()}"


async def publish(run: Running, topic: str, *numbers: object) -> None:
    """Publish events in WS-Notification, one after the other."""
    for number in numbers:
        await run.publish(notify(notification_message(event(number), topic)))


# A pull point's life.


@pytest.mark.parametrize("speaker", SPEAKERS)
async def test_life(gateway: Running, speaker: Speaker) -> None:
    answer = await ask(gateway, speaker, "CreatePullPoint")
    assert answer.status == 200
    point = PullPoint(gateway, speaker, answer)
    assert point.address == f"{gateway.url}/pullpoints/{point.key}"
    if speaker.wsa is not None:
        assert answer.message.wsa("Action", speaker.wsa) == (
            f"{BW}/CreatePullPoint/CreatePullPointResponse"
        )
        assert answer.message.wsa("RelatesTo", speaker.wsa)
    assert await point.get() == []

    topic = fresh_topic()
    manager = await gateway.subscribe(
        speaker, speaker.wsn_subscribe(point.address, filter=topic_expression(topic))
    )
    await publish(gateway, topic, 1)
    await publish(gateway, fresh_topic(), "elsewhere")
    await publish(gateway, topic, 2)
    assert await point.collect(2) == [Event(topic, "1"), Event(topic, "2")]
    assert await point.get() == []

    await publish(gateway, topic, 3)
    answer = await ask(
        gateway, speaker, "GetMessages", "<n:MaximumNumber>0</n:MaximumNumber>", point.path
    )
    assert {event.payload for event in events_in(answer)} <= {"3"}
    if speaker.wsa is not None:
        assert answer.message.wsa("Action", speaker.wsa) == f"{BW}/PullPoint/GetMessagesResponse"

    answer = await point.destroy()
    assert answer.status == 200
    assert [child.tag for child in answer.message.body] == [f"{{{WSNT}}}DestroyPullPointResponse"]
    assert len(children(answer.message.body[0])) == 0
    for gone in (
        await point.destroy(),
        await ask(gateway, speaker, "GetMessages", "", point.path),
        await gateway.ask(speaker, f'<n:Renew xmlns:n="{WSNT}"/>', manager),
    ):
        assert gone.fault.element == f"{{{R}}}ResourceUnknownFault"


async def test_events_of_both_families_in_their_order(gateway: Running) -> None:
    point, topic = await PullPoint.create(gateway), fresh_topic()
    await gateway.subscribe(
        Speaker(), Speaker().wsn_subscribe(point.address, filter=topic_expression(topic))
    )
    eventing = Speaker(S11, Wsa.V2004_08)
    header = f'<n:Topic xmlns:n="{WSNT}" Dialect="{CONCRETE}">{topic}</n:Topic>'
    await publish(gateway, topic, 1)
    await gateway.publish(event(2), headers=header, speaker=eventing, action="urn:test:event")
    await gateway.publish(event(3), path=f"/soap/topic/{topic}", speaker=eventing)
    await gateway.publish(
        notify(notification_message(event(4), topic), notification_message(event(5), topic))
    )
    assert await point.collect(5) == [Event(topic, str(number)) for number in range(1, 6)]


async def test_what_is_told_of_a_message(gateway: Running) -> None:
    point, topic = await PullPoint.create(gateway), fresh_topic()
    manager = await gateway.subscribe(
        Speaker(), Speaker().wsn_subscribe(point.address, filter=topic_expression(topic))
    )
    payload = '<e:E xmlns:e="urn:e" xmlns:q="urn:q" kind="q:name">é<!-- as it is --><e:f/></e:E>'
    producer = f'<a:Address xmlns:a="{WSA10}">http://producer.example.org/</a:Address>'
    await gateway.publish(notify(notification_message(payload, topic, producer=producer)))
    async with asyncio.timeout(DEADLINE):
        while True:
            answer = await ask(gateway, Speaker(), "GetMessages", "", point.path)
            if b"NotificationMessage" in answer.body:
                break
    [message] = children(answer.message.body[0])
    parts = [etree.QName(child).localname for child in children(message)]
    assert parts == ["SubscriptionReference", "Topic", "ProducerReference", "Message"]
    reference, _, said, content = children(message)
    assert reference.findtext(f"{{{WSA10}}}Address") == gateway.url + manager
    assert said.findtext(f"{{{WSA10}}}Address") == "http://producer.example.org/"
    [told] = children(content)
    assert canonical(told) == canonical(payload.encode())
    assert told.nsmap["q"] == "urn:q"


@pytest.mark.parametrize("named", ["url", "to", "bare path", "parameter", "url at another door"])
async def test_a_pull_point_is_named_in_any_way(gateway: Running, named: str) -> None:
    point, speaker = await PullPoint.create(gateway), Speaker()
    path, to, headers = "/soap", None, ""
    match named:
        case "url":
            path = point.path
        case "to":
            to = point.address
        case "bare path":
            to = point.path
        case "parameter":
            [block] = point.epr.findall(f"{{{WSA10}}}ReferenceParameters/*")
            block.set(f"{{{WSA10}}}IsReferenceParameter", "true")
            to, headers = gateway.url + "/soap", etree.tostring(block).decode()
        case _:
            path = f"/subscriptions/{point.key}"
    topic = fresh_topic()
    await gateway.subscribe(
        speaker, speaker.wsn_subscribe(point.address, filter=topic_expression(topic))
    )
    await publish(gateway, topic, 1)
    found: list[Event] = []
    async with asyncio.timeout(DEADLINE):
        while not found:
            answer = await ask(gateway, speaker, "GetMessages", "", path, to=to, headers=headers)
            found = events_in(answer)
    assert found == [Event(topic, "1")]
    answer = await ask(gateway, speaker, "DestroyPullPoint", "", path, to=to, headers=headers)
    assert answer.status == 200
    assert (await point.destroy()).fault.element == f"{{{R}}}ResourceUnknownFault"


async def test_no_more_than_was_asked_for(gateway: Running) -> None:
    point, topic = await PullPoint.create(gateway), fresh_topic()
    await gateway.subscribe(
        Speaker(), Speaker().wsn_subscribe(point.address, filter=topic_expression(topic))
    )
    await publish(gateway, topic, *range(7))
    batches: list[list[Event]] = []
    async with asyncio.timeout(DEADLINE):
        while sum(map(len, batches)) < 7:
            batches.append(await point.get(3))
    assert max(map(len, batches)) <= 3
    got = [int(event.payload) for batch in batches for event in batch]
    assert got == list(range(7))
    assert await point.get(3) == []


async def test_several_subscriptions_fill_one_pull_point(gateway: Running) -> None:
    point, one, two = await PullPoint.create(gateway), fresh_topic(), fresh_topic()
    eventing, notification = Speaker(S11, Wsa.V2004_08), Speaker()
    managers = [
        await gateway.subscribe(
            eventing, eventing.wse_subscribe(point.address, filter=wse_filter(one, CONCRETE))
        ),
        await gateway.subscribe(
            notification,
            notification.wsn_subscribe(point.address, filter=topic_expression(two), raw=True),
        ),
        await gateway.subscribe(
            notification, notification.wsn_subscribe(point.address, filter=topic_expression(one))
        ),
    ]
    assert len(set(managers)) == 3
    await publish(gateway, one, 1)
    await publish(gateway, two, 2)
    await publish(gateway, one, 3)
    found = await point.collect(5)
    assert sorted(found) == [
        Event(one, "1"), Event(one, "1"), Event(one, "3"), Event(one, "3"),
        Event("wseTopic", "2"),  # What comes raw says no topic.
    ]  # fmt: skip
    assert [event.payload for event in found if event.topic == one] in (
        ["1", "1", "3", "3"],
        ["1", "3", "1", "3"],
    )
    unsubscribed = await gateway.ask(
        notification, f'<n:Unsubscribe xmlns:n="{WSNT}"/>', managers[2]
    )
    assert unsubscribed.status == 200
    await publish(gateway, one, 4)
    await publish(gateway, two, 5)
    assert sorted(event.payload for event in await point.collect(2)) == ["4", "5"]


async def test_with_a_pull_point_ends_what_fills_it(gateway: Running, consumer: Consumers) -> None:
    point, topic = await PullPoint.create(gateway), fresh_topic()
    eventing, notification = Speaker(S11, Wsa.V2004_08), Speaker()
    ends = consumer.fresh()
    first = await gateway.subscribe(
        eventing,
        eventing.wse_subscribe(point.address, filter=wse_filter(topic, CONCRETE), end_to=ends),
    )
    second = await gateway.subscribe(
        notification, notification.wsn_subscribe(point.address, filter=topic_expression(topic))
    )
    elsewhere = consumer.fresh()
    await gateway.subscribe(
        notification, notification.wsn_subscribe(elsewhere, filter=topic_expression(topic))
    )
    assert (await point.destroy()).status == 200
    ended = await consumer.next(ends)
    assert ended.message.text(f"{{{WSE}}}SubscriptionEnd/{{{WSE}}}Status") == (
        f"{WSE}/SourceCancelling"
    )
    status = await gateway.ask(eventing, f'<e:GetStatus xmlns:e="{WSE}"/>', first)
    assert status.fault.subcode == f"{{{WSE}}}InvalidMessage"
    destroyed = await gateway.ask(notification, f'<l:Destroy xmlns:l="{RL}"/>', second)
    assert destroyed.fault.element == f"{{{R}}}ResourceUnknownFault"
    await publish(gateway, topic, 1)
    assert (await consumer.next(elsewhere)).payload.text == "1"


async def test_a_pull_point_outlives_its_subscriptions(gateway: Running) -> None:
    point, topic = await PullPoint.create(gateway), fresh_topic()
    manager = await gateway.subscribe(
        Speaker(), Speaker().wsn_subscribe(point.address, filter=topic_expression(topic))
    )
    await publish(gateway, topic, 1)
    assert [event.payload for event in await point.collect(1)] == ["1"]
    await gateway.ask(Speaker(), f'<n:Unsubscribe xmlns:n="{WSNT}"/>', manager)
    await publish(gateway, topic, 2)
    assert await point.get() == []


# What others send there.


async def test_a_pull_point_is_a_consumer(gateway: Running) -> None:
    point = await PullPoint.create(gateway)
    sent = notify(*(notification_message(event(number), "sent") for number in (1, 2, 3)))
    answer = await gateway.ask(
        Speaker(), sent, point.path, action=f"{BW}/PullPoint/Notify", to=point.address
    )
    assert (answer.status, answer.body) == (202, b"")
    bare = Speaker(S11, Wsa.V2004_08)
    answer = await gateway.ask(bare, event(4), point.path, action="urn:test:event")
    assert (answer.status, answer.body) == (202, b"")
    # Each is a message of its own: none is handed over with more than was asked for.
    assert await point.get(1) == [Event("sent", "1")]
    assert await point.get(2) == [Event("sent", "2"), Event("sent", "3")]
    assert await point.get(1) == [Event("wseTopic", "4")]
    assert await point.get() == []


async def test_what_is_sent_there_is_not_published(gateway: Running, consumer: Consumers) -> None:
    point, topic, url = await PullPoint.create(gateway), fresh_topic(), consumer.fresh()
    await gateway.subscribe(Speaker(), Speaker().wsn_subscribe(url, filter=topic_expression(topic)))
    sent = notify(notification_message(event("private"), topic))
    assert (await gateway.ask(Speaker(), sent, point.path)).status == 202
    assert await point.get() == [Event(topic, "private")]
    await publish(gateway, topic, "public")
    assert (await consumer.next(url)).payload.text == "public"


async def test_a_message_that_comes_again_is_there_once(gateway: Running) -> None:
    point = await PullPoint.create(gateway)
    for name in ("urn:test:a", "urn:test:a", "urn:test:b", "urn:test:a"):
        sent = notify(notification_message(event(name), "sent"))
        name = f"{name}:{point.key}"
        answer = await gateway.ask(Speaker(), sent, point.path, message_id=name)
        assert answer.status == 202
    assert [event.payload for event in await point.get()] == ["urn:test:a", "urn:test:b"]


async def test_what_tells_nothing_is_skipped(gateway: Running) -> None:
    """An envelope that is no event lies there as well as any, and tells no reader of this kind."""
    point = await PullPoint.create(gateway)
    end = f'<e:SubscriptionEnd xmlns:e="{WSE}"/>'
    answer = await gateway.ask(Speaker(S11, Wsa.V2004_08), end, point.path)
    assert answer.status == 202, answer.body
    assert (await gateway.ask(Speaker(), event(1), point.path)).status == 202
    assert await point.get() == [Event("wseTopic", "1")]


# What cannot be.


@pytest.mark.parametrize("soap", [S11, S12])
@pytest.mark.parametrize("operation", ["GetMessages", "DestroyPullPoint"])
async def test_nobody_has_it(gateway: Running, soap: Soap, operation: str) -> None:
    speaker = Speaker(soap)
    for path, to in ((f"/pullpoints/{UNKNOWN}", None), ("/soap", None), ("/soap", "urn:nobody")):
        answer = await ask(gateway, speaker, operation, "", path, to=to)
        assert answer.status == (400 if speaker.soap is S12 else 500)
        assert answer.fault.element == f"{{{R}}}ResourceUnknownFault"
        assert answer.message.wsa("Action") == "http://docs.oasis-open.org/wsrf/fault"


async def test_messages_for_nobody(gateway: Running) -> None:
    sent = notify(notification_message(event(1), "sent"))
    answer = await gateway.ask(Speaker(), sent, f"/pullpoints/{UNKNOWN}")
    assert answer.status == 400
    assert answer.fault.code == f"{{{S12.value}}}Sender"
    consumer = f"{gateway.url}/pullpoints/{UNKNOWN}"
    refused = await gateway.ask(Speaker(), Speaker().wsn_subscribe(consumer))
    assert refused.fault.element == f"{{{WSNT}}}SubscribeCreationFailedFault"


@pytest.mark.parametrize(
    "asked",
    [
        f'<n:GetMessages xmlns:n="{WSNT}"><n:MaximumNumber>-1</n:MaximumNumber></n:GetMessages>',
        f'<t:PullMessages xmlns:t="{names.ONVIF_EVENTS}"><t:Timeout>1</t:Timeout></t:PullMessages>',
        f'<t:Seek xmlns:t="{names.ONVIF_EVENTS}"/>',
    ],
)
async def test_a_request_that_is_wrong_is_no_message(gateway: Running, asked: str) -> None:
    point = await PullPoint.create(gateway)
    answer = await gateway.ask(Speaker(), asked, point.path)
    assert answer.status in (400, 500)
    assert answer.fault.code
    assert await point.get() == []


async def test_much_is_handed_over_at_once(gateway: Running) -> None:
    point = await PullPoint.create(gateway)
    sent = notify(*(notification_message(event("x" * 3000), "sent") for _ in range(100)))
    assert (await gateway.ask(Speaker(), sent, point.path)).status == 202
    assert [len(event.payload) for event in await point.get()] == [3000] * 100


# What a crash leaves.


async def test_a_pull_point_survives_a_crash(tmp_path: Path) -> None:
    async with gateway_process(tmp_path / "data") as gateway:
        point = await PullPoint.create(gateway)
        other = await PullPoint.create(gateway)
        speaker = Speaker()
        subscribe = speaker.wsn_subscribe(point.address, filter=topic_expression("kept"))
        assert (await gateway.ask(subscribe)).status == 200

        async def publish(*numbers: int) -> None:
            for number in numbers:
                sent = notify(notification_message(event(number), "kept"))
                assert (await gateway.ask(sent)).status == 202

        await publish(*range(10))
        assert await point.collect(4, 4) == [Event("kept", str(number)) for number in range(4)]
        await publish(*range(10, 20))
        await gateway.kill()
        await gateway.start()
        await publish(*range(20, 25))
        found = [int(event.payload) for event in await point.collect(21)]
        assert found == list(range(4, 25))
        assert await point.get() == await other.get() == []
        assert (await point.destroy()).status == 200
        await gateway.kill()
        await gateway.start()
        gone = await ask(gateway, speaker, "GetMessages", "", point.path)
        assert gone.fault.element == f"{{{R}}}ResourceUnknownFault"
        assert await other.get() == []
        await gateway.at_rest()
