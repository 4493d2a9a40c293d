"""A subscription's life in each family, SOAP version and WS-Addressing version."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from lxml import etree

from mediation import Wsa
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    BW,
    RL,
    RP,
    S11,
    S12,
    WSE,
    WSNT,
    Answer,
    R,
    Speaker,
    children,
    fresh_id,
    notification_message,
    notify,
    pairs,
    topic_expression,
    wse_filter,
)
from tests.rigs.gateways import Running, manager_path, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEAKERS = [
    pytest.param(Speaker(soap, wsa), id=f"{soap.name}-{wsa.name if wsa else 'none'}")
    for soap, wsa in pairs((S11, S12), (*Wsa, None))
]
WSN_ACTION = f"{BW}/NotificationProducer/SubscribeRequest"
RPW = "http://docs.oasis-open.org/wsrf/rpw-2"
RLW = "http://docs.oasis-open.org/wsrf/rlw-2"
EVENT = '<o:Storm xmlns:o="urn:test:weather">120</o:Storm>'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    data: Path = tmp_path_factory.mktemp("lifecycle")
    async with running(data) as run:
        yield run


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def consumer() -> AsyncIterator[Consumers]:
    async with Consumers() as one:
        yield one


class Party:
    """A peer that asks for things and checks that it is answered in what it spoke."""

    def __init__(self, run: Running, speaker: Speaker) -> None:
        self.run = run
        self.speaker = speaker

    async def ask(
        self, action: str, body: str, path: str = "/soap", *, answers: str | None = None
    ) -> Answer:
        """*answers*: the action of the answer."""
        message_id = fresh_id()
        answer = await self.run.ask(self.speaker, body, path, action=action, message_id=message_id)
        assert answer.status == 200, answer.body
        message = answer.message
        assert message.soap is self.speaker.soap
        assert answer.type.startswith(f"{self.speaker.soap.media_type}; charset=utf-8")
        assert "soapaction" not in answer.headers
        wsa = self.speaker.wsa
        if wsa is None:
            assert message.headers == []
        else:
            assert message.wsa("RelatesTo", wsa) == message_id
            assert message.wsa("To", wsa) == wsa.anonymous
            assert re.fullmatch("urn:uuid:[0-9a-f-]{36}", message.wsa("MessageID", wsa) or "")
            said = message.wsa("Action", wsa)
            assert said == (answers or action + "Response")
            if message.soap is S12:
                assert answer.type.endswith(f'; action="{said}"')
            for block in message.headers:  # The first Address of an answer is in its body.
                assert children(block) == []
        return answer


@pytest.mark.parametrize("speaker", SPEAKERS)
async def test_ws_eventing(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    party, url, topic = Party(gateway, speaker), consumer.fresh(), f"t{fresh_id()[-6:]}"
    subscribe = speaker.wse_subscribe(
        url,
        filter=wse_filter(topic, "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple"),
        expires="PT1H",
        inner=speaker.parameters('<x:Box xmlns:x="urn:test:box" mode="a">7</x:Box>'),
    )
    answer = await party.ask(f"{WSE}/Subscribe", subscribe)
    message, path = answer.message, manager_path(answer.message)
    assert [child.tag for child in message.body[0]] == [
        f"{{{WSE}}}SubscriptionManager",
        f"{{{WSE}}}Expires",
    ]
    assert message.text(f"{{{WSE}}}SubscribeResponse/{{{WSE}}}Expires") == "PT1H"
    address = message.body[0][0][0]
    wsa = speaker.wsa or Wsa.V2005_08
    assert address.tag == f"{{{wsa.value}}}Address"
    assert (address.text or "").startswith(gateway.url + "/subscriptions/")
    [identifier] = list(message.body[0].iter("{*}Identifier"))
    assert identifier.text == f"urn:uuid:{path.rpartition('/')[2]}"

    await gateway.publish(EVENT, path=f"/soap/topic/{topic}", action="urn:test:storm")
    received = await consumer.next(url)
    delivered = received.message
    assert delivered.soap is speaker.soap
    assert delivered.wsa("Action", wsa) == "urn:test:storm"
    assert delivered.wsa("To", wsa) == url
    box = delivered.header("Box", "urn:test:box")
    assert box is not None and box.text == "7" and box.get("mode") == "a"
    mark = box.get(f"{{{Wsa.V2005_08.value}}}IsReferenceParameter")
    assert mark == ("true" if wsa is Wsa.V2005_08 else None)
    assert received.payload.tag == "{urn:test:weather}Storm"
    if speaker.soap is S11:
        assert received.headers["soapaction"] == '"urn:test:storm"'
        assert received.headers["content-type"] == "text/xml; charset=utf-8"
    else:
        assert "soapaction" not in received.headers
        assert received.headers["content-type"].endswith('charset=utf-8; action="urn:test:storm"')

    renew = f'<e:Renew xmlns:e="{WSE}"><e:Expires>PT2H</e:Expires></e:Renew>'
    answer = await party.ask(f"{WSE}/Renew", renew, path)
    assert answer.message.text(f"{{{WSE}}}RenewResponse/{{{WSE}}}Expires") == "PT2H"
    answer = await party.ask(f"{WSE}/GetStatus", f'<e:GetStatus xmlns:e="{WSE}"/>', path)
    left = answer.message.text(f"{{{WSE}}}GetStatusResponse/{{{WSE}}}Expires")
    assert re.fullmatch(r"PT(2H|1H59M5\dS)", left), left

    answer = await party.ask(f"{WSE}/Unsubscribe", f'<e:Unsubscribe xmlns:e="{WSE}"/>', path)
    assert answer.message.body == []
    again = await gateway.ask(speaker, f'<e:GetStatus xmlns:e="{WSE}"/>', path)
    assert again.fault.subcode == f"{{{WSE}}}InvalidMessage"
    await gateway.publish(EVENT, path=f"/soap/topic/{topic}")
    await gateway.quiet()
    assert consumer.waiting(url) == 0


@pytest.mark.parametrize("raw", [False, True], ids=["wrapped", "raw"])
@pytest.mark.parametrize("speaker", SPEAKERS)
async def test_ws_notification(
    gateway: Running, consumer: Consumers, speaker: Speaker, raw: bool
) -> None:
    party, url, topic = Party(gateway, speaker), consumer.fresh(), f"t{fresh_id()[-6:]}"
    expression = topic_expression(f"{topic}/storm")
    before = datetime.now(UTC).replace(microsecond=0)
    answer = await party.ask(
        WSN_ACTION,
        speaker.wsn_subscribe(
            url,
            filter=expression,
            expires="PT1H",
            raw=raw,
            inner=speaker.parameters('<x:Box xmlns:x="urn:test:box">7</x:Box>'),
        ),
        answers=f"{BW}/NotificationProducer/SubscribeResponse",
    )
    response, path = answer.message.body[0], manager_path(answer.message)
    assert [child.tag for child in response] == [
        f"{{{WSNT}}}{name}" for name in ("SubscriptionReference", "CurrentTime", "TerminationTime")
    ]
    now = instant(response[1].text)
    assert before <= now and instant(response[2].text) - now == timedelta(hours=1)

    async def publish() -> None:
        await gateway.publish(notify(notification_message(EVENT, f"{topic}/storm")))

    await publish()
    received = await consumer.next(url)
    wsa = speaker.wsa or Wsa.V2005_08
    delivered = received.message
    assert delivered.soap is speaker.soap
    assert delivered.wsa("Action", wsa) == f"{BW}/NotificationConsumer/Notify"
    assert delivered.wsa("To", wsa) == url
    assert delivered.header("Box", "urn:test:box") is not None
    if raw:
        assert delivered.body[0].tag == "{urn:test:weather}Storm"
    else:
        [inner] = delivered.body[0]
        assert [child.tag for child in inner] == [
            f"{{{WSNT}}}{name}"
            for name in ("SubscriptionReference", "Topic", "ProducerReference", "Message")
        ]
        assert inner[0][0].tag == f"{{{wsa.value}}}Address"
        assert inner[0][0].text == gateway.url + path
        assert inner[1].text == f"{topic}/storm"
        assert inner[2][0].text == f"{gateway.url}/soap"

    manager = f"{BW}/SubscriptionManager"
    renew = f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>PT2H</n:TerminationTime></n:Renew>'
    answer = await party.ask(
        f"{manager}/RenewRequest", renew, path, answers=f"{manager}/RenewResponse"
    )
    renewed = answer.message.body[0]
    assert [child.tag for child in renewed] == [
        f"{{{WSNT}}}TerminationTime",
        f"{{{WSNT}}}CurrentTime",
    ]
    assert instant(renewed[0].text) - instant(renewed[1].text) == timedelta(hours=2)

    pausable = f"{BW}/PausableSubscriptionManager"
    for operation in ("PauseSubscription", "PauseSubscription"):  # Again is no error.
        answer = await party.ask(
            f"{pausable}/{operation}Request",
            f'<n:{operation} xmlns:n="{WSNT}"/>',
            path,
            answers=f"{pausable}/{operation}Response",
        )
        assert answer.message.body[0].tag == f"{{{WSNT}}}{operation}Response"
    skipped = (await gateway.gateway.dispatchers.conservation()).totals.skipped
    await publish()
    await gateway.quiet()
    assert consumer.waiting(url) == 0
    for operation in ("ResumeSubscription", "ResumeSubscription"):
        await party.ask(
            f"{pausable}/{operation}Request",
            f'<n:{operation} xmlns:n="{WSNT}"/>',
            path,
            answers=f"{pausable}/{operation}Response",
        )
    await publish()
    await consumer.next(url)
    await gateway.quiet()
    assert consumer.waiting(url) == 0
    assert (await gateway.gateway.dispatchers.conservation()).totals.skipped == skipped + 1

    answer = await party.ask(
        f"{BW}/NotificationProducer/GetCurrentMessageRequest",
        f'<n:GetCurrentMessage xmlns:n="{WSNT}"><n:Topic Dialect="http://docs.oasis-open.org/wsn/'
        f't-1/TopicExpression/Concrete">{topic}/storm</n:Topic></n:GetCurrentMessage>',
        answers=f"{BW}/NotificationProducer/GetCurrentMessageResponse",
    )
    [current] = answer.message.body[0]
    assert current.tag == "{urn:test:weather}Storm"
    answer = await party.ask(
        f"{manager}/UnsubscribeRequest",
        f'<n:Unsubscribe xmlns:n="{WSNT}"/>',
        path,
        answers=f"{manager}/UnsubscribeResponse",
    )
    assert answer.message.body[0].tag == f"{{{WSNT}}}UnsubscribeResponse"
    again = await gateway.ask(speaker, f'<n:Unsubscribe xmlns:n="{WSNT}"/>', path)
    assert again.fault.element == f"{{{R}}}ResourceUnknownFault"


@pytest.mark.parametrize("speaker", SPEAKERS)
async def test_ws_resource(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    party, url = Party(gateway, speaker), consumer.fresh()
    body = speaker.wsn_subscribe(
        url, filter=topic_expression("w:storms", scope='xmlns:w="urn:test:weather"'), expires="PT1H"
    )
    path = await gateway.subscribe(speaker, body, action=WSN_ACTION)

    def request(name: str, inner: str = "", namespace: str = RP) -> str:
        return (
            f'<r:{name} xmlns:r="{namespace}" xmlns:n="{WSNT}" xmlns:rl="{RL}">{inner}</r:{name}>'
        )

    base = f"{RPW}/GetResourceProperty/GetResourceProperty"
    answer = await party.ask(
        f"{base}Request",
        request("GetResourceProperty", "rl:TerminationTime"),
        path,
        answers=f"{base}Response",
    )
    [time] = answer.message.body[0]
    assert time.tag == f"{{{RL}}}TerminationTime"
    assert instant(time.text) > datetime.now(UTC)

    base = f"{RPW}/GetMultipleResourceProperties/GetMultipleResourceProperties"
    names = ("n:ConsumerReference", "rl:CurrentTime", "n:Filter")
    answer = await party.ask(
        f"{base}Request",
        request(
            "GetMultipleResourceProperties",
            "".join(f"<r:ResourceProperty>{name}</r:ResourceProperty>" for name in names),
        ),
        path,
        answers=f"{base}Response",
    )
    properties = list(answer.message.body[0])
    assert [one.tag for one in properties] == [
        f"{{{WSNT}}}ConsumerReference",
        f"{{{RL}}}CurrentTime",
        f"{{{WSNT}}}Filter",
    ]
    assert properties[0][0].text == url
    [expression] = properties[2]
    assert expression.nsmap["w"] == "urn:test:weather" and expression.text == "w:storms"

    base = f"{RPW}/GetResourcePropertyDocument/GetResourcePropertyDocument"
    answer = await party.ask(
        f"{base}Request", request("GetResourcePropertyDocument"), path, answers=f"{base}Response"
    )
    [document] = answer.message.body[0]
    assert document.tag == f"{{{WSNT}}}SubscriptionManagerRP"
    assert [etag.tag for etag in document] == [
        f"{{{WSNT}}}ConsumerReference",
        f"{{{WSNT}}}Filter",
        f"{{{WSNT}}}CreationTime",
        f"{{{RL}}}CurrentTime",
        f"{{{RL}}}TerminationTime",
    ]

    base = f"{RLW}/ScheduledResourceTermination/SetTerminationTime"
    answer = await party.ask(
        f"{base}Request",
        request(
            "SetTerminationTime",
            "<r:RequestedLifetimeDuration>PT3H</r:RequestedLifetimeDuration>",
            RL,
        ),
        path,
        answers=f"{base}Response",
    )
    new, now = answer.message.body[0]
    assert new.tag == f"{{{RL}}}NewTerminationTime" and now.tag == f"{{{RL}}}CurrentTime"
    assert instant(new.text) - instant(now.text) == timedelta(hours=3)

    base = f"{RLW}/ImmediateResourceTermination/Destroy"
    await party.ask(f"{base}Request", request("Destroy", "", RL), path, answers=f"{base}Response")
    gone = await gateway.ask(speaker, request("Destroy", "", RL), path)
    assert gone.fault.element == f"{{{R}}}ResourceUnknownFault"


async def test_a_termination_time_that_is_over_ends_at_once(
    gateway: Running, consumer: Consumers
) -> None:
    speaker = Speaker()
    path = await gateway.subscribe(speaker, speaker.wsn_subscribe(consumer.fresh()))
    body = (
        f'<r:SetTerminationTime xmlns:r="{RL}"><r:RequestedTerminationTime>2001-01-01T00:00:00Z'
        "</r:RequestedTerminationTime></r:SetTerminationTime>"
    )
    answer = await gateway.ask(speaker, body, path)
    assert answer.status == 200
    assert (await gateway.ask(speaker, body, path)).fault.element.endswith("ResourceUnknownFault")


async def test_the_producer_is_a_resource_too(gateway: Running) -> None:
    await gateway.publish(notify(notification_message("<a/>", "properties/seen")))
    for path in ("/soap", "/soap/"):
        answer = await gateway.ask(
            Speaker(), f'<r:GetResourcePropertyDocument xmlns:r="{RP}"/>', path
        )
        [document] = answer.message.body[0]
        assert document.tag == "{http://docs.oasis-open.org/wsn/br-2}NotificationBrokerRP"
        topics = [one.text for one in document.findall(f"{{{WSNT}}}TopicExpression")]
        assert "properties/seen" in topics
        assert document.findtext(f"{{{WSNT}}}FixedTopicSet") == "false"


async def test_nothing_relates_to_a_request_without_an_id(
    gateway: Running, consumer: Consumers
) -> None:
    for speaker in (Speaker(), Speaker(S11, Wsa.V2004_08)):
        body = speaker.wse_subscribe(consumer.fresh())
        answer = await gateway.post(speaker.envelope(body, action=f"{WSE}/Subscribe"))
        assert speaker.wsa is not None
        assert answer.status == 200
        assert answer.message.header("RelatesTo", speaker.wsa.value) is None
        answer = await gateway.post(speaker.envelope(f'<e:Renew xmlns:e="{WSE}"/>', action="x"))
        assert answer.message.header("RelatesTo", speaker.wsa.value) is None


async def test_a_message_id_is_echoed_as_it_came(gateway: Running, consumer: Consumers) -> None:
    speaker = Speaker()
    for message_id in ("no uri at all", "URN:UUID:ABC", "uuid:ä&amp;&lt;b"):
        answer = await gateway.ask(
            speaker, speaker.wse_subscribe(consumer.fresh()), message_id=message_id
        )
        expected = message_id.replace("&lt;", "<").replace("&amp;", "&")
        assert answer.message.wsa("RelatesTo") == expected


async def test_the_envelope_says_which_soap_it_is(gateway: Running, consumer: Consumers) -> None:
    for soap, wrong in ((S11, "application/soap+xml"), (S12, "text/xml"), (S12, "application/xml")):
        speaker = Speaker(soap)
        octets = speaker.envelope(speaker.wse_subscribe(consumer.fresh()))
        answer = await gateway.post(octets, type=wrong)
        assert answer.status == 200 and answer.message.soap is soap
        assert answer.type.startswith(soap.media_type)
        bad = await gateway.post(speaker.envelope(f'<e:Renew xmlns:e="{WSE}"/>'), type=wrong)
        assert (bad.status, bad.message.soap) == (400 if soap is S12 else 500, soap)


async def test_an_empty_body_is_known_by_its_action(gateway: Running, consumer: Consumers) -> None:
    speaker = Speaker()
    path = await gateway.subscribe(speaker, speaker.wse_subscribe(consumer.fresh()))
    answer = await gateway.ask(speaker, "", path, action=f"{WSE}/Unsubscribe")
    assert answer.status == 200
    answer = await gateway.ask(speaker, "", "/soap", action="urn:test:unknown")
    assert answer.status == 400


async def test_a_manager_port_type_is_answered_as_it_asked(
    gateway: Running, consumer: Consumers
) -> None:
    speaker = Speaker()
    path = await gateway.subscribe(speaker, speaker.wsn_subscribe(consumer.fresh()))
    for port_type in ("SubscriptionManager", "PausableSubscriptionManager"):
        answer = await gateway.ask(
            speaker,
            f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>PT1H</n:TerminationTime></n:Renew>',
            path,
            action=f"{BW}/{port_type}/RenewRequest",
        )
        assert answer.message.wsa("Action") == f"{BW}/{port_type}/RenewResponse"


async def test_references_are_of_their_own_version(gateway: Running, consumer: Consumers) -> None:
    """Savan and Synapse: headers of WS-Addressing 1.0, references of 2004/08."""
    headers, references = Speaker(S11, Wsa.V2005_08), Speaker(S11, Wsa.V2004_08)
    url, box = consumer.fresh(), '<x:Box xmlns:x="urn:test:box">7</x:Box>'
    body = references.wse_subscribe(
        url,
        inner=references.parameters(box).replace("ReferenceParameters", "ReferenceProperties")
        + references.parameters(box.replace("Box", "Other")),
    )
    answer = await gateway.ask(headers, body, action=f"{WSE}/Subscribe")
    assert answer.message.wsa("Action") == f"{WSE}/SubscribeResponse"
    manager = answer.message.body[0][0]
    assert {etree.QName(child).namespace for child in manager} == {Wsa.V2004_08.value}
    await gateway.publish("<a/>")
    message = (await consumer.next(url)).message
    assert message.wsa("To") == url
    for name in ("Box", "Other"):
        block = message.header(name, "urn:test:box")
        assert block is not None
        assert block.get(f"{{{Wsa.V2005_08.value}}}IsReferenceParameter") == "true"


async def test_ws_management_filters_the_payload(gateway: Running, consumer: Consumers) -> None:
    wsman = "http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"
    resource = f'<w:ResourceURI xmlns:w="{wsman}">urn:test:resource</w:ResourceURI>'
    speaker, url = Speaker(S12, Wsa.V2004_08), consumer.fresh()
    filter_ = wse_filter("o:Reading = 7", scope='xmlns:o="urn:o"').replace("e:Filter", "w:Filter")
    filter_ = filter_.replace(f'xmlns:e="{WSE}"', f'xmlns:w="{wsman}"')
    await gateway.subscribe(speaker, speaker.wse_subscribe(url, filter=filter_), headers=resource)
    for text in ("7", "8"):
        payload = f'<o:All xmlns:o="urn:o"><o:Reading>{text}</o:Reading></o:All>'
        await gateway.publish(payload)
    await gateway.quiet()
    assert (await consumer.next(url)).payload[0].text == "7"
    assert consumer.waiting(url) == 0
    answer = await gateway.ask(speaker, f'<e:Renew xmlns:e="{WSE}"/>', headers=resource)
    assert answer.message.wsa("Action", Wsa.V2004_08) == f"{WSE}/fault"


async def test_requests_at_the_same_time(gateway: Running, consumer: Consumers) -> None:
    """Of many that end one subscription, one does."""
    speaker = Speaker()
    path = await gateway.subscribe(speaker, speaker.wsn_subscribe(consumer.fresh()))
    bodies = [f'<n:{name} xmlns:n="{WSNT}"/>' for name in ("Unsubscribe", "Renew") * 8]
    answers = await asyncio.gather(*(gateway.ask(speaker, body, path) for body in bodies))
    ended = [answer.status for answer in answers[::2]]
    assert sorted(ended) == [200] + [400] * 7
    for answer in answers:
        if answer.status != 200:
            assert answer.fault.element == f"{{{R}}}ResourceUnknownFault"


async def test_changes_at_the_same_time(gateway: Running, consumer: Consumers) -> None:
    """None undoes another: what was paused stays paused, whoever renews meanwhile."""
    speaker, url = Speaker(), consumer.fresh()
    path = await gateway.subscribe(speaker, speaker.wsn_subscribe(url))
    [entry] = [one for one in gateway.gateway.subscriptions.entries if one.target.url == url]
    renew = f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>PT{{}}H</n:TerminationTime></n:Renew>'
    for hours in range(2, 22):
        bodies = [renew.format(1)] * 3
        bodies += [f'<n:PauseSubscription xmlns:n="{WSNT}"/>', *[renew.format(hours)] * 8]
        answers = await asyncio.gather(*(gateway.ask(speaker, body, path) for body in bodies))
        assert {answer.status for answer in answers} == {200}
        assert entry.subscription.policy.paused
        resume = f'<n:ResumeSubscription xmlns:n="{WSNT}"/>'
        assert (await gateway.ask(speaker, resume, path)).status == 200
        assert not entry.subscription.policy.paused


def instant(text: str | None) -> datetime:
    """An xsd:dateTime in UTC, in whole seconds."""
    assert text is not None and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text), text
    return datetime.fromisoformat(text)
