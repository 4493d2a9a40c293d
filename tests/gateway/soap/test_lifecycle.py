"""A subscription's life in each family, SOAP version and WS-Addressing version."""

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from lxml import etree

from mediation.model.versions import Wsa
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
    Message,
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
from tests.rigs.gateways import Running, manager_path

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEAKERS = [
    pytest.param(Speaker(soap, wsa), id=f"{soap.name}-{wsa.name if wsa else 'none'}")
    for soap, wsa in pairs((S11, S12), (*Wsa, None))
]
WSN_ACTION = f"{BW}/NotificationProducer/SubscribeRequest"
RPW = "http://docs.oasis-open.org/wsrf/rpw-2"
RLW = "http://docs.oasis-open.org/wsrf/rlw-2"
MANAGER = f"{BW}/SubscriptionManager"
PAUSABLE = f"{BW}/PausableSubscriptionManager"
EVENT = '<o:Storm xmlns:o="urn:test:weather">120</o:Storm>'


@dataclass
class Party:
    """A peer that asks for things and checks that it is answered in what it spoke."""

    run: Running
    speaker: Speaker

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


@dataclass
class Subscription(Party):
    """One that a peer holds."""

    url: str
    """Of its consumer."""
    topic: str
    response: Message

    @property
    def wsa(self) -> Wsa:
        """What notifications are addressed in."""
        return self.speaker.wsa or Wsa.V2005_08

    @property
    def path(self) -> str:
        """Of its manager."""
        return manager_path(self.response)

    async def publish(self) -> None:
        await self.run.publish(EVENT, path=f"/soap/topic/{self.topic}", action="urn:test:storm")


async def subscribe_wse(run: Running, consumer: Consumers, speaker: Speaker) -> Subscription:
    url, topic = consumer.fresh(), f"t{fresh_id()[-6:]}"
    body = speaker.wse_subscribe(
        url,
        filter=wse_filter(topic, "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple"),
        expires="PT1H",
        inner=speaker.parameters('<x:Box xmlns:x="urn:test:box" mode="a">7</x:Box>'),
    )
    answer = await Party(run, speaker).ask(f"{WSE}/Subscribe", body)
    return Subscription(run, speaker, url, topic, answer.message)


async def subscribe_wsn(
    run: Running, consumer: Consumers, speaker: Speaker, *, raw: bool = False
) -> Subscription:
    url, topic = consumer.fresh(), f"t{fresh_id()[-6:]}"
    body = speaker.wsn_subscribe(
        url,
        filter=topic_expression(topic),
        expires="PT1H",
        raw=raw,
        inner=speaker.parameters('<x:Box xmlns:x="urn:test:box">7</x:Box>'),
    )
    answer = await Party(run, speaker).ask(
        WSN_ACTION, body, answers=f"{BW}/NotificationProducer/SubscribeResponse"
    )
    return Subscription(run, speaker, url, topic, answer.message)


for_each_speaker = pytest.mark.parametrize("speaker", SPEAKERS)

# WS-Eventing.


@for_each_speaker
async def test_wse_subscribe(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    one = await subscribe_wse(gateway, consumer, speaker)
    [response] = one.response.body
    assert [child.tag for child in response] == [
        f"{{{WSE}}}SubscriptionManager",
        f"{{{WSE}}}Expires",
    ]
    assert response[1].text == "PT1H"
    address = response[0][0]
    assert address.tag == f"{{{one.wsa.value}}}Address"
    assert (address.text or "").startswith(gateway.url + "/subscriptions/")
    [identifier] = list(response.iter("{*}Identifier"))
    assert identifier.text == f"urn:uuid:{one.path.rpartition('/')[2]}"


@for_each_speaker
async def test_wse_notification(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    """It is addressed as the consumer's reference says, in the SOAP of the request."""
    one = await subscribe_wse(gateway, consumer, speaker)
    await one.publish()
    received = await consumer.next(one.url)
    delivered = received.message
    assert delivered.soap is speaker.soap
    assert delivered.wsa("Action", one.wsa) == "urn:test:storm"
    assert delivered.wsa("To", one.wsa) == one.url
    box = delivered.header("Box", "urn:test:box")
    assert box is not None and box.text == "7" and box.get("mode") == "a"
    mark = box.get(f"{{{Wsa.V2005_08.value}}}IsReferenceParameter")
    assert mark == ("true" if one.wsa is Wsa.V2005_08 else None)
    assert received.payload.tag == "{urn:test:weather}Storm"


@for_each_speaker
async def test_wse_http_headers(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    """SOAP 1.1 says the action in a header of its own, SOAP 1.2 in the media type."""
    one = await subscribe_wse(gateway, consumer, speaker)
    await one.publish()
    headers = (await consumer.next(one.url)).headers
    if speaker.soap is S11:
        assert headers["soapaction"] == '"urn:test:storm"'
        assert headers["content-type"] == "text/xml; charset=utf-8"
    else:
        assert "soapaction" not in headers
        assert headers["content-type"].endswith('charset=utf-8; action="urn:test:storm"')


@for_each_speaker
async def test_wse_renew(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    one = await subscribe_wse(gateway, consumer, speaker)
    renew = f'<e:Renew xmlns:e="{WSE}"><e:Expires>PT2H</e:Expires></e:Renew>'
    answer = await one.ask(f"{WSE}/Renew", renew, one.path)
    assert answer.message.text(f"{{{WSE}}}RenewResponse/{{{WSE}}}Expires") == "PT2H"
    answer = await one.ask(f"{WSE}/GetStatus", f'<e:GetStatus xmlns:e="{WSE}"/>', one.path)
    left = answer.message.text(f"{{{WSE}}}GetStatusResponse/{{{WSE}}}Expires")
    assert re.fullmatch(r"PT(2H|1H59M5\dS)", left), left


@for_each_speaker
async def test_wse_unsubscribe(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    one = await subscribe_wse(gateway, consumer, speaker)
    body = f'<e:Unsubscribe xmlns:e="{WSE}"/>'
    answer = await one.ask(f"{WSE}/Unsubscribe", body, one.path)
    assert answer.message.body == []
    again = await gateway.ask(speaker, f'<e:GetStatus xmlns:e="{WSE}"/>', one.path)
    assert again.fault.subcode == f"{{{WSE}}}InvalidMessage"
    await one.publish()
    await gateway.quiet()
    assert consumer.waiting(one.url) == 0


# WS-Notification.


@for_each_speaker
async def test_wsn_subscribe(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    response = (await subscribe_wsn(gateway, consumer, speaker)).response.body[0]
    assert [child.tag for child in response] == [
        f"{{{WSNT}}}{name}" for name in ("SubscriptionReference", "CurrentTime", "TerminationTime")
    ]
    now = instant(response[1].text)
    assert before <= now and instant(response[2].text) - now == timedelta(hours=1)


@pytest.mark.parametrize("raw", [False, True], ids=["wrapped", "raw"])
@for_each_speaker
async def test_wsn_notification_is_addressed(
    gateway: Running, consumer: Consumers, speaker: Speaker, raw: bool
) -> None:
    one = await subscribe_wsn(gateway, consumer, speaker, raw=raw)
    await one.publish()
    delivered = (await consumer.next(one.url)).message
    assert delivered.soap is speaker.soap
    assert delivered.wsa("Action", one.wsa) == (
        "urn:test:storm" if raw else f"{BW}/NotificationConsumer/Notify"
    )
    assert delivered.wsa("To", one.wsa) == one.url
    assert delivered.header("Box", "urn:test:box") is not None


@for_each_speaker
async def test_wsn_notification(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    one = await subscribe_wsn(gateway, consumer, speaker)
    await one.publish()
    [inner] = (await consumer.next(one.url)).message.body[0]
    assert [child.tag for child in inner] == [
        f"{{{WSNT}}}{name}"
        for name in ("SubscriptionReference", "Topic", "ProducerReference", "Message")
    ]
    assert inner[0][0].tag == f"{{{one.wsa.value}}}Address"
    assert inner[0][0].text == gateway.url + one.path
    assert inner[1].text == one.topic
    assert inner[2][0].text == f"{gateway.url}/soap"


@for_each_speaker
async def test_wsn_raw_notification(
    gateway: Running, consumer: Consumers, speaker: Speaker
) -> None:
    one = await subscribe_wsn(gateway, consumer, speaker, raw=True)
    await gateway.publish(notify(notification_message(EVENT, one.topic)))
    delivered = (await consumer.next(one.url)).message
    assert delivered.wsa("Action", one.wsa) == f"{BW}/NotificationConsumer/Notify"
    assert delivered.body[0].tag == "{urn:test:weather}Storm"


@for_each_speaker
async def test_wsn_renew(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    one = await subscribe_wsn(gateway, consumer, speaker)
    renew = f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>PT2H</n:TerminationTime></n:Renew>'
    answer = await one.ask(
        f"{MANAGER}/RenewRequest", renew, one.path, answers=f"{MANAGER}/RenewResponse"
    )
    renewed = answer.message.body[0]
    assert [child.tag for child in renewed] == [
        f"{{{WSNT}}}TerminationTime",
        f"{{{WSNT}}}CurrentTime",
    ]
    assert instant(renewed[0].text) - instant(renewed[1].text) == timedelta(hours=2)


async def change(one: Subscription, operation: str) -> None:
    """Pause or resume *one*, twice: again is no error."""
    for _ in range(2):
        answer = await one.ask(
            f"{PAUSABLE}/{operation}Request",
            f'<n:{operation} xmlns:n="{WSNT}"/>',
            one.path,
            answers=f"{PAUSABLE}/{operation}Response",
        )
        assert answer.message.body[0].tag == f"{{{WSNT}}}{operation}Response"


@for_each_speaker
async def test_wsn_pause(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    """What is published meanwhile is skipped, and counted; what comes after it has resumed is not."""
    one = await subscribe_wsn(gateway, consumer, speaker)
    skipped = (await gateway.gateway.dispatchers.conservation()).totals.skipped
    await change(one, "PauseSubscription")
    await one.publish()
    await gateway.quiet()
    assert consumer.waiting(one.url) == 0
    await change(one, "ResumeSubscription")
    await one.publish()
    await consumer.next(one.url)
    await gateway.quiet()
    assert consumer.waiting(one.url) == 0
    assert (await gateway.gateway.dispatchers.conservation()).totals.skipped == skipped + 1


@for_each_speaker
async def test_wsn_current_message(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    one = await subscribe_wsn(gateway, consumer, speaker)
    await one.publish()
    answer = await one.ask(
        f"{BW}/NotificationProducer/GetCurrentMessageRequest",
        f'<n:GetCurrentMessage xmlns:n="{WSNT}"><n:Topic Dialect="http://docs.oasis-open.org/wsn/'
        f't-1/TopicExpression/Concrete">{one.topic}</n:Topic></n:GetCurrentMessage>',
        answers=f"{BW}/NotificationProducer/GetCurrentMessageResponse",
    )
    [current] = answer.message.body[0]
    assert current.tag == "{urn:test:weather}Storm"


@for_each_speaker
async def test_wsn_unsubscribe(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    one = await subscribe_wsn(gateway, consumer, speaker)
    body = f'<n:Unsubscribe xmlns:n="{WSNT}"/>'
    answer = await one.ask(
        f"{MANAGER}/UnsubscribeRequest", body, one.path, answers=f"{MANAGER}/UnsubscribeResponse"
    )
    assert answer.message.body[0].tag == f"{{{WSNT}}}UnsubscribeResponse"
    again = await gateway.ask(speaker, body, one.path)
    assert again.fault.element == f"{{{R}}}ResourceUnknownFault"


# A subscription as a resource (WSRF).


def request(name: str, inner: str = "", namespace: str = RP) -> str:
    return f'<r:{name} xmlns:r="{namespace}" xmlns:n="{WSNT}" xmlns:rl="{RL}">{inner}</r:{name}>'


async def ask_resource(
    one: Subscription, base: str, inner: str = "", namespace: str = RP
) -> Answer:
    """Ask *one* for the operation that the end of *base*, an action, names."""
    body = request(base.rpartition("/")[2], inner, namespace)
    return await one.ask(f"{base}Request", body, one.path, answers=f"{base}Response")


@for_each_speaker
async def test_wsrf_property(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    one = await subscribe_wsn(gateway, consumer, speaker)
    base = f"{RPW}/GetResourceProperty/GetResourceProperty"
    [time] = (await ask_resource(one, base, "rl:TerminationTime")).message.body[0]
    assert time.tag == f"{{{RL}}}TerminationTime"
    assert instant(time.text) > datetime.now(UTC)


@for_each_speaker
async def test_wsrf_properties(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    """They are in the order asked for; an expression keeps its namespaces."""
    url = consumer.fresh()
    expression = topic_expression("w:storms", scope='xmlns:w="urn:test:weather"')
    body = speaker.wsn_subscribe(url, filter=expression, expires="PT1H")
    subscribed = await gateway.ask(speaker, body, action=WSN_ACTION)
    one = Subscription(gateway, speaker, url, "", subscribed.message)
    names = ("n:ConsumerReference", "rl:CurrentTime", "n:Filter")
    properties = "".join(f"<r:ResourceProperty>{name}</r:ResourceProperty>" for name in names)
    base = f"{RPW}/GetMultipleResourceProperties/GetMultipleResourceProperties"
    reference, time, filters = (await ask_resource(one, base, properties)).message.body[0]
    assert (reference.tag, reference[0].text) == (f"{{{WSNT}}}ConsumerReference", url)
    assert time.tag == f"{{{RL}}}CurrentTime"
    assert filters.tag == f"{{{WSNT}}}Filter"
    [kept] = filters
    assert kept.nsmap["w"] == "urn:test:weather" and kept.text == "w:storms"


@for_each_speaker
async def test_wsrf_document(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    one = await subscribe_wsn(gateway, consumer, speaker)
    base = f"{RPW}/GetResourcePropertyDocument/GetResourcePropertyDocument"
    [document] = (await ask_resource(one, base)).message.body[0]
    assert document.tag == f"{{{WSNT}}}SubscriptionManagerRP"
    assert [child.tag for child in document] == [
        f"{{{WSNT}}}ConsumerReference",
        f"{{{WSNT}}}Filter",
        f"{{{WSNT}}}CreationTime",
        f"{{{RL}}}CurrentTime",
        f"{{{RL}}}TerminationTime",
    ]


@for_each_speaker
async def test_wsrf_termination_time(
    gateway: Running, consumer: Consumers, speaker: Speaker
) -> None:
    one = await subscribe_wsn(gateway, consumer, speaker)
    base = f"{RLW}/ScheduledResourceTermination/SetTerminationTime"
    inner = "<r:RequestedLifetimeDuration>PT3H</r:RequestedLifetimeDuration>"
    new, now = (await ask_resource(one, base, inner, RL)).message.body[0]
    assert new.tag == f"{{{RL}}}NewTerminationTime" and now.tag == f"{{{RL}}}CurrentTime"
    assert instant(new.text) - instant(now.text) == timedelta(hours=3)


@for_each_speaker
async def test_wsrf_destroy(gateway: Running, consumer: Consumers, speaker: Speaker) -> None:
    one = await subscribe_wsn(gateway, consumer, speaker)
    await ask_resource(one, f"{RLW}/ImmediateResourceTermination/Destroy", "", RL)
    gone = await gateway.ask(speaker, request("Destroy", "", RL), one.path)
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
