"""The addresses that foreign clients build themselves, and what they find there: WS-Messenger's,
those of WS-Management, and ONVIF's device service."""

from importlib.metadata import version

import pytest
from lxml import etree

from filters import content_dialects, topic_dialects
from mediation import names
from mediation.model.versions import Wsa
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import IBM, IBM_SIMPLE, S11, S12, WSE, WSNT, Speaker, fresh_id
from tests.rigs.gateways import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVENTING, NOTIFYING = "/axis2/services/EventingService", "/axis2/services/NotificationService"
MESSENGER = Speaker(S11)
EVENT = "<c><b>1</b></c>"


def subscribing(url: str, topic: str = "", xpath: str = "") -> str:
    """As WS-Messenger's client writes it."""
    filter_ = f'<e:Filter Dialect="http://www.w3.org/TR/1999/REC-xpath-19991116">{xpath}</e:Filter>'
    if topic:
        filter_ = (
            f'<e:Filter xmlns:widget="http://widgets.com" Dialect="{IBM_SIMPLE}">widget:{topic}'
            "</e:Filter>"
        )
    return (
        f'<e:Subscribe xmlns:e="{WSE}"><e:Expires>259200000</e:Expires><e:Delivery><e:NotifyTo>'
        f"{MESSENGER.epr(url)}</e:NotifyTo></e:Delivery>{filter_}</e:Subscribe>"
    )


@pytest.mark.parametrize("slash", ["", "/"])
async def test_ws_messenger(gateway: Running, consumer: Consumers, slash: str) -> None:
    url, topic = consumer.fresh(), f"t{fresh_id()[-5:]}"
    path = EVENTING + slash
    answer = await gateway.ask(MESSENGER, subscribing(url, topic), path, action=f"{WSE}/Subscribe")
    assert answer.status == 200, answer.body
    [identifier] = answer.message.root.iter(f"{{{WSE}}}Identifier")
    header = (
        f'<n:Topic xmlns:n="{IBM}" xmlns:w="http://widgets.com" Dialect="{IBM_SIMPLE}">'
        f"w:{topic}</n:Topic>"
    )
    published = await gateway.ask(
        MESSENGER, EVENT, path, headers=header, action=names.WSE_NOTIFICATION
    )
    assert published.status == 200
    [response] = published.message.body
    assert (response.tag, bool(response.get("trackId"))) == (f"{{{WSE}}}cResponse", True)
    received = (await consumer.next(url)).message
    assert received.wsa("Action") == names.WSE_NOTIFICATION
    told = received.header("Topic", IBM)
    assert told is not None and told.text == f"w:{topic}" and "w" in told.nsmap
    # Its client ends a subscription at the address of the broker.
    answer = await gateway.ask(
        MESSENGER,
        f'<e:Unsubscribe xmlns:e="{WSE}"/>',
        path,
        headers=f'<e:Identifier xmlns:e="{WSE}">{identifier.text}</e:Identifier>',
        action=f"{WSE}/Unsubscribe",
    )
    assert (answer.status, answer.message.body) == (200, [])


@pytest.mark.parametrize("service", [EVENTING, NOTIFYING])
async def test_its_address_names_a_topic(
    gateway: Running, consumer: Consumers, service: str
) -> None:
    url, other = consumer.fresh(), consumer.fresh()
    topic = f"area/t{fresh_id()[-5:]}"
    await gateway.subscribe(MESSENGER, subscribing(url, topic))
    await gateway.subscribe(MESSENGER, subscribing(other, "elsewhere"))
    answer = await gateway.ask(
        MESSENGER, EVENT, f"{service}/topic/{topic}", action=names.WSE_NOTIFICATION
    )
    assert answer.status == 200, answer.body
    told = (await consumer.next(url)).message.header("Topic", IBM)
    assert told is not None and told.text == f"ns2:{topic}"
    await gateway.quiet()
    assert consumer.waiting(other) == 0


async def test_a_subscription_to_the_topic_of_an_address(
    gateway: Running, consumer: Consumers
) -> None:
    url, topic = consumer.fresh(), f"t{fresh_id()[-5:]}:x/y"
    path = f"{EVENTING}/topic/{topic}"
    await gateway.subscribe(MESSENGER, subscribing(url, xpath="/c/b"), path=path)
    for at in (EVENTING, path):
        answer = await gateway.ask(MESSENGER, EVENT, at, action=names.WSE_NOTIFICATION)
        assert answer.status == 200
    await consumer.next(url)
    await gateway.quiet()
    assert consumer.waiting(url) == 0


async def test_notify_of_1_0(gateway: Running, consumer: Consumers) -> None:
    url = consumer.fresh()
    await gateway.subscribe(Speaker(), Speaker().wsn_subscribe(url))
    body = (
        f'<n:Notify xmlns:n="{IBM}"><n:NotificationMessage><n:Message>{EVENT}</n:Message>'
        "</n:NotificationMessage></n:Notify>"
    )
    answer = await gateway.ask(MESSENGER, body, NOTIFYING, action=f"{IBM}/Notify")
    assert answer.status == 200, answer.body
    [response] = answer.message.body
    assert response.tag == f"{{{IBM}}}NotifyResponse" and response.get("trackId")
    assert answer.message.wsa("Action") == f"{IBM}/NotifyResponse"
    assert (await consumer.next(url)).payload.tag == "c"


async def test_a_publication_is_answered_nowhere_else(
    gateway: Running, consumer: Consumers
) -> None:
    """Else a publisher could have anybody sent what it likes."""
    url = consumer.fresh()
    reply = f'<a:ReplyTo xmlns:a="{Wsa.V2005_08.value}">{MESSENGER.epr(url)}</a:ReplyTo>'
    answer = await gateway.ask(
        MESSENGER, EVENT, EVENTING, headers=reply, action=names.WSE_NOTIFICATION
    )
    assert (answer.status, answer.body) == (202, b"")
    await gateway.quiet()
    assert consumer.waiting(url) == 0


@pytest.mark.parametrize("path", ["/wsman", "/soap"])
async def test_others_publish_there_as_everywhere(
    gateway: Running, consumer: Consumers, path: str
) -> None:
    url = consumer.fresh()
    await gateway.subscribe(Speaker(), Speaker().wsn_subscribe(url))
    await gateway.publish(EVENT, path=path, action="urn:x")
    assert (await consumer.next(url)).payload.tag == "c"


@pytest.mark.parametrize("path", ["/soap", "/wsman", "/wsman/"])
@pytest.mark.parametrize("soap", [S11, S12])
async def test_identify(gateway: Running, consumer: Consumers, path: str, soap: object) -> None:
    """The first that tools of WS-Management ask; it was an event once."""
    url = consumer.fresh()
    speaker = Speaker(S11 if soap is S11 else S12, None)
    await gateway.subscribe(Speaker(), Speaker().wsn_subscribe(url))
    answer = await gateway.ask(speaker, f'<i:Identify xmlns:i="{names.WSMAN_IDENTITY}"/>', path)
    assert answer.status == 200, answer.body
    [response] = answer.message.body
    said = {etree.QName(child).localname: child.text for child in response}
    assert said == {
        "ProtocolVersion": names.WSMAN,
        "ProductVendor": "Dragoman",
        "ProductVersion": version("dragoman"),
    }
    await gateway.quiet()
    assert consumer.waiting(url) == 0


async def test_ws_management(gateway: Running, consumer: Consumers) -> None:
    """Mode Push, with the header that each of its requests must have."""
    managed, url = Speaker(S12, Wsa.V2004_08), consumer.fresh()
    header = (
        f'<m:ResourceURI xmlns:m="{names.WSMAN}" s:mustUnderstand="true">urn:all</m:ResourceURI>'
    )
    xpath = f'<m:Filter xmlns:m="{names.WSMAN}">/c/b</m:Filter>'
    body = managed.wse_subscribe(url, filter=xpath, expires="PT3600.000000S")
    answer = await gateway.ask(managed, body, "/wsman", headers=header, action=f"{WSE}/Subscribe")
    assert answer.status == 200, answer.body
    [identifier] = answer.message.root.iter(f"{{{WSE}}}Identifier")
    for event in ("<c/>", EVENT):
        await gateway.publish(event)
    assert (await consumer.next(url)).payload.tag == "c"
    await gateway.quiet()
    assert consumer.waiting(url) == 0
    named = header + f'<e:Identifier xmlns:e="{WSE}">{identifier.text}</e:Identifier>'
    for name, inner in (("Renew", "<e:Expires>PT1H</e:Expires>"), ("Unsubscribe", "")):
        request = f'<e:{name} xmlns:e="{WSE}">{inner}</e:{name}>'
        answer = await gateway.ask(
            managed, request, "/wsman", headers=named, action=f"{WSE}/{name}"
        )
        assert answer.status == 200, answer.body
    refused = body.replace(
        "</e:Delivery>", f'<m:Auth xmlns:m="{names.WSMAN}" Profile="urn:x"/></e:Delivery>'
    )
    answer = await gateway.ask(managed, refused, "/wsman", headers=header)
    assert answer.status == 400
    assert answer.fault.subcode == f"{{{names.WSMAN}}}UnsupportedFeature"
    assert answer.fault.detail is not None
    assert answer.fault.detail.text == names.WSMAN_FAULT_DETAIL + "AuthorizationMode"


@pytest.mark.parametrize(
    ("element", "said"),
    [
        (
            '<r:CreateSequence xmlns:r="http://docs.oasis-open.org/ws-rx/wsrm/200702"/>',
            'WS-ReliableMessaging 1.1 is not offered ("CreateSequence" was asked for).',
        ),
        (
            '<r:Subscribe xmlns:r="http://www.w3.org/2009/09/ws-evt"/>',
            'WS-Eventing 2009/09 is not offered ("Subscribe" was asked for).',
        ),
        (
            '<r:Put xmlns:r="http://schemas.xmlsoap.org/ws/2004/09/transfer"/>',
            'WS-Transfer is not offered ("Put" was asked for).',
        ),
        (
            f'<n:Unknown xmlns:n="{WSNT}"/>',
            '"Unknown" is not implemented: no request of WS-BaseNotification 1.3',
        ),
    ],
)
async def test_a_refusal_names_what_was_asked_for(
    gateway: Running, element: str, said: str
) -> None:
    answer = await gateway.ask(Speaker(), element)
    assert said in answer.fault.text
    if "Offered" in answer.fault.text:
        for title in ("WS-Eventing 2004/08", "WS-Eventing 2011/03", "WS-BaseNotification 1.3"):
            assert title in answer.fault.text


async def test_a_filter_dialect_is_named_with_what_is_offered(gateway: Running) -> None:
    speaker = Speaker()
    filter_ = f'<e:Filter xmlns:e="{WSE}" Dialect="urn:wql">SELECT</e:Filter>'
    answer = await gateway.ask(
        speaker, speaker.wse_subscribe("http://127.0.0.1:1024/", filter=filter_)
    )
    assert answer.fault.text.startswith(
        'the filter dialect "urn:wql" is not offered; offered: http'
    )
    offered = answer.message.root.iter(f"{{{WSE}}}SupportedDialect")
    combined = "http://docs.oasis-open.org/wsn"
    assert {each.text for each in offered} == {*topic_dialects(), *content_dialects(), combined}


@pytest.mark.parametrize("path", ["/soap", "/soap/topic/npex:storms"])
async def test_an_event_on_a_topic_with_an_unknown_prefix_is_refused(
    gateway: Running, path: str
) -> None:
    """To take it would be to deliver it to nobody who asks for that topic, without a word."""
    header = f'<n:Topic xmlns:n="{WSNT}">npex:storms</n:Topic>' if path == "/soap" else ""
    answer = await gateway.ask(Speaker(), EVENT, path, headers=header)
    assert answer.status == 400
    assert '"npex"' in answer.fault.text


@pytest.mark.parametrize("declared", ["", ' xmlns:ihe="urn:ihe:iti:dsub:2009"'])
async def test_half_of_the_parties_of_dsub_declare_their_prefix(
    gateway: Running, consumer: Consumers, declared: str
) -> None:
    speaker, urls = Speaker(), [consumer.fresh(), consumer.fresh()]
    topic = "ihe:FullDocumentEntry"
    for url, scope in zip(urls, ("", ' xmlns:ihe="urn:ihe:iti:dsub:2009"'), strict=True):
        filter_ = f"<n:TopicExpression{scope}>{topic}</n:TopicExpression>"
        await gateway.subscribe(speaker, speaker.wsn_subscribe(url, filter=filter_))
    header = f'<n:Topic xmlns:n="{WSNT}"{declared}>{topic}</n:Topic>'
    await gateway.publish(EVENT, headers=header)
    for url in urls:
        told = (await consumer.next(url)).topic
        assert told is not None and told.text == topic
        assert told.nsmap["ihe"] == "urn:ihe:iti:dsub:2009"
