"""What peers really send, and what is read in it."""

from datetime import UTC, datetime, timedelta

import pytest

from filters import EVERYTHING, PAYLOAD, Expression, Filter, FilterError, compile
from filters.dialects import (
    ACTION_DPWS_1_0,
    ACTION_DPWS_1_1,
    EBRIM_QUERY,
    TOPIC_CONCRETE_SET,
    TOPIC_IBM_SIMPLE,
    TOPIC_SIMPLE,
    TOPIC_SYNAPSE,
    XPATH_1_0,
)
from mediation.filtering import envelope_view
from mediation.model.delivery_modes import DeliveryMode, Mode
from mediation.model.expiry import Duration, Expiry
from mediation.model.messages import EndpointReference
from mediation.model.requests import (
    CreateMailbox,
    DescribeEvents,
    Destroy,
    GetProperties,
    GetStatus,
    Operation,
    RegisterPublisher,
    Renew,
    SetTerminationTime,
    Subscribe,
    SubscribePulling,
    Take,
    Unsubscribe,
)
from mediation.model.versions import Soap, Version, Wsa
from mediation.soap.addressing import is_anonymous
from tests.rigs.cases import for_each
from tests.rigs.mediation import ENVELOPES, NOW, clark, events, incoming, stored

S11, S12 = Soap.V1_1, Soap.V1_2
WSE, WSN = Version.WSE_2004_08, Version.WSN_1_3


def lasting(**length: float) -> Expiry:
    return Expiry(duration=Duration(0, timedelta(**length)))


def until(*moment: int) -> Expiry:
    return Expiry(instant=datetime(*moment, tzinfo=UTC), as_duration=False)  # type: ignore[misc, arg-type]


def topics(text: str, dialect: str = TOPIC_SIMPLE) -> tuple[str, str]:
    return text, dialect


ANY = Expiry()
EBRIM = (
    '<rim:AdhocQuery xmlns:rim="urn:oasis:names:tc:ebxml-regrep:xsd:rim:3.0"'
    ' xmlns:wsnt="http://docs.oasis-open.org/wsn/b-2"'
    ' xmlns:s="http://www.w3.org/2003/05/soap-envelope"'
    ' xmlns:a="http://www.w3.org/2005/08/addressing"'
    ' id="urn:uuid:aa2332d0-f8fe-11e0-be50-0800200c9a66">\n          '
    '<rim:Slot name="$XDSDocumentEntryPatientId"><rim:ValueList><rim:Value>'
    "'P1^^^&amp;1.2.3&amp;ISO'</rim:Value></rim:ValueList></rim:Slot>\n        </rim:AdhocQuery>"
)
ENDLESS = Expiry(never=True, as_duration=False, best_effort=True)
SUBSCRIBES = [
    pytest.param(
        "cxf-wsn-1.3-subscribe", S11, None, WSN,
        "http://localhost:9001/MyConsumer", Wsa.V2005_08, ANY, [topics("myTopic")], False,
        id="CXF: no headers, no Dialect, empty Metadata",
    ),
    pytest.param(
        "openhab-wsn-1.3-subscribe", S12, Wsa.V2005_08, WSN,
        "http://192.0.2.5:8080/ipcamera/cam/OnvifEvent", Wsa.V2005_08, ANY, [], False,
        id="openHAB: a slash too many, the address in that namespace too",
    ),
    pytest.param(
        "tukdsub-wsn-1.3-subscribe", S12, Wsa.V2005_08, WSN,
        "http://recipient.example.org/notify", Wsa.V2005_08, until(2027, 1, 31),
        [topics("ihe:FullDocumentEntry")], False,
        id="tukdsub: undeclared ihe:, misspelt dialect, a message id that is no URI",
    ),
    pytest.param(
        "ihe-dsub-wsn-1.3-subscribe", S12, Wsa.V2005_08, WSN,
        "http://recipient.example.org/notify", Wsa.V2005_08, ANY,
        [topics("ihe:FullDocumentEntry"), (EBRIM, EBRIM_QUERY)], False,
        id="IHE: an ebXML query, as it was written",
    ),
    pytest.param(
        "servicemix-wsn-1.3-subscribe", S11, None, WSN,
        "http://www.consumer.org/ConsumerEndpoint", Wsa.V2005_08, Expiry(never=True),
        [topics("npex:SomeTopic"), ('boolean(ncex:Producer="15")', XPATH_1_0)], True,
        id="ServiceMix: padded texts, nil, raw",
    ),
    pytest.param(
        "muse-wsn-1.3-subscribe", S12, Wsa.V2005_08, WSN,
        "http://client.example.org/consumer", Wsa.V2005_08, ANY, [], False,
        id="Muse: an empty Filter, a misspelt anonymous address",
    ),
    pytest.param(
        "layer7-wsn-1.3-subscribe", S11, Wsa.V2005_08, WSN,
        "http://metrics.example.org/consumer", Wsa.V2005_08, ANY,
        [topics("muws:MetricsCapability")], False,
        id="Layer 7: an EndpointReference inside the reference",
    ),
    pytest.param(
        "agsh-wsn-1.3-subscribe", S12, Wsa.V2005_08, WSN,
        "http://192.0.2.9:8086/onvif", Wsa.V2005_08, lasting(seconds=120),
        [topics("tns1:RuleEngine//.", TOPIC_CONCRETE_SET)], False,
        id="agsh: the time before the filter, an unqualified mustUnderstand",
    ),
    pytest.param(
        "ws-nu-wsn-1.3-subscribe", S11, Wsa.V2005_08, WSN,
        "http://192.0.2.3:8081/", Wsa.V2005_08, until(2027, 1, 1),
        [topics("npex:test/testing", "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete")],
        False,
        id="WS-Nu: the policy before the filter, a time without a zone, an undeclared prefix",
    ),
    pytest.param(
        "cxf-wse-2011-03-subscribe", S11, Wsa.V2005_08, Version.WSE_2011_03,
        "http://sink.example.com/events", Wsa.V2005_08, ANY, [], True,
        id="CXF: WS-Eventing 2011/03",
    ),
    pytest.param(
        "savan-java-wse-2004-08-subscribe", S11, Wsa.V2005_08, WSE,
        "http://sink.example.com/services/listener", Wsa.V2004_08, until(2027, 6, 27, 5, 7),
        [("/", XPATH_1_0)], True,
        id="Savan for Java: headers 2005/08, references 2004/08",
    ),
    pytest.param(
        "savan-c-wse-2004-08-subscribe", S11, Wsa.V2005_08, WSE,
        "http://sink.example.com/services/listener", Wsa.V2004_08, ANY,
        [topics("weather/4", TOPIC_SYNAPSE)], True,
        id="Savan for C and Synapse: a topic filter",
    ),
    pytest.param(
        "gt4-wsn-1.2-subscribe-topic", S11, Wsa.V2004_03, Version.WSN_1_2,
        "http://client.example.org:8081/wsrf/services/NotificationConsumerService", Wsa.V2004_03,
        ENDLESS, [topics("ns1:Value")], False,
        id="Globus: a topic, the key of its consumer",
    ),
    pytest.param(
        "gt4-wsn-1.2-subscribe", S11, Wsa.V2004_03, Version.WSN_1_2,
        "http://client.example.org:8080/wsrf/services/NotificationConsumerService", Wsa.V2004_03,
        ENDLESS, [], False,
        id="Globus: WS-Addressing 2004/03, an action that is none",
    ),
    pytest.param(
        "sdc11073-wse-2004-08-subscribe", S12, Wsa.V2005_08, WSE,
        "http://198.51.100.7:53211/4b9a", Wsa.V2005_08, lasting(hours=1),
        [("http://ocean.example.org/ns/Reading http://ocean.example.org/ns/Alarm", ACTION_DPWS_1_1)],
        True,
        id="sdc11073: DPWS 1.1",
    ),
    pytest.param(
        "ws-messenger-wse-2004-08-subscribe", S11, Wsa.V2005_08, WSE,
        "http://sink.example.com:2222/axis2/services/ConsumerService", Wsa.V2005_08,
        Expiry(duration=Duration(0, timedelta(seconds=60)), as_duration=False),
        [topics("widget:stormTopic", TOPIC_IBM_SIMPLE), ("/c/b/a", XPATH_1_0)], True,
        id="WS-Messenger: milliseconds, both filters in one",
    ),
    pytest.param(
        "pywsd-wse-2004-08-subscribe", S12, Wsa.V2004_08, WSE,
        "http://192.0.2.5:6666/wsd", Wsa.V2004_08, lasting(hours=1),
        [("http://schemas.microsoft.com/windows/2006/08/wdp/scan/ScanAvailableEvent", ACTION_DPWS_1_0)],
        True,
        id="PyWSD: the filter before the time, an extension behind it",
    ),
    pytest.param(
        "netmf-wse-2004-08-subscribe", S12, Wsa.V2004_08, WSE,
        "http://192.0.2.8:8084/sink", Wsa.V2004_08, lasting(minutes=5),
        [("http://schemas.example.org/EventingService/SimpleEvent", ACTION_DPWS_1_0)], True,
        id=".NET Micro Framework",
    ),
]  # fmt: skip


@for_each(
    ("name", "soap", "wsa", "version", "address", "reference", "expires", "filters", "raw"),
    SUBSCRIBES,
)
def test_subscribe(
    name: str,
    soap: Soap,
    wsa: Wsa | None,
    version: Version,
    address: str,
    reference: Wsa,
    expires: Expiry,
    filters: list[tuple[str, str]],
    raw: bool,
) -> None:
    read = incoming(stored(name))
    assert (read.context.soap, read.context.wsa, read.context.version) == (soap, wsa, version)
    assert read.context.operation is Operation.SUBSCRIBE
    request = read.request
    assert isinstance(request, Subscribe)
    assert (request.consumer.address, request.consumer.wsa) == (address, reference)
    assert request.expires == expires
    assert [
        (expression.text, expression.dialect) for expression in request.filter.expressions
    ] == filters
    assert request.raw is raw
    if name == "ws-nu-wsn-1.3-subscribe":
        with pytest.raises(FilterError, match='the prefix "npex" of the topic expression is not'):
            compile(request.filter)
    else:
        compile(request.filter)


def test_every_stored_envelope_is_in_a_table() -> None:
    with_rows = "".join((ENVELOPES.parent / "mediation" / "test_envelopes.py").read_text())
    assert [
        path.stem for path in ENVELOPES.glob("*.xml") if f'"{path.stem}"' not in with_rows
    ] == []


def test_agsh_pulls() -> None:
    request = incoming(stored("agsh-onvif-createpullpoint")).request
    assert isinstance(request, SubscribePulling)
    assert request.expires == lasting(minutes=2)
    [expression] = request.filter.expressions
    assert (expression.text, expression.dialect) == ("tns1:RuleEngine//.", TOPIC_CONCRETE_SET)
    compile(request.filter)


def test_what_is_not_in_the_columns() -> None:
    savan = incoming(stored("savan-java-wse-2004-08-subscribe")).request
    assert isinstance(savan, Subscribe) and savan.end_to is not None
    key, parameter = savan.end_to.properties[0], savan.end_to.parameters[0]
    assert b">a<" in key and b">7<" in parameter
    assert savan.filter.contents[0].view == envelope_view(S11, Wsa.V2005_08)

    messenger = incoming(stored("ws-messenger-wse-2004-08-subscribe")).request
    assert isinstance(messenger, Subscribe)
    assert messenger.filter.contents[0].view == PAYLOAD
    assert messenger.dialect == TOPIC_IBM_SIMPLE

    sdc = incoming(stored("sdc11073-wse-2004-08-subscribe")).request
    assert isinstance(sdc, Subscribe) and sdc.end_to is not None
    assert sdc.end_to.wsa is Wsa.V2005_08 and b"MyClIdentifier" in sdc.end_to.parameters[0]

    layer7 = incoming(stored("layer7-wsn-1.3-subscribe")).request
    assert isinstance(layer7, Subscribe)
    assert [b"SubscriptionId" in octets for octets in layer7.consumer.parameters] == [True]

    muse = incoming(stored("muse-wsn-1.3-subscribe"))
    assert muse.context.headers.reply_to is not None
    assert is_anonymous(muse.context.headers.reply_to.address)

    agsh = incoming(stored("agsh-wsn-1.3-subscribe"))
    assert isinstance(agsh.request, Subscribe) and agsh.context.headers.reply_to is not None
    assert agsh.context.headers.reply_to.address == agsh.request.consumer.address

    pywsd = incoming(stored("pywsd-wse-2004-08-subscribe"))
    assert pywsd.context.headers.to == "http://gateway.example.org/soap"
    assert pywsd.context.headers.action == (
        "http://schemas.xmlsoap.org/ws/2004/08/eventing/Subscribe"
    )


GT4_KEY = "urn:uuid:22e8a584-0d18-4228-b2a8-3716fa2097fa"
GT4_MANAGER = "http://gateway.example.org/subscriptions/22e8a584-0d18-4228-b2a8-3716fa2097fa"
MANAGED = [
    pytest.param(
        "reolink-wsn-1.3-renew", Renew(lasting(minutes=15)), (),
        "http://gateway.example.org/subscriptions/5f0c", None,
        id="reolink_aio: wsa:To only, security that must be understood",
    ),
    pytest.param(
        "tukdsub-wsn-1.3-unsubscribe", Unsubscribe(), (),
        "http://gateway.example.org/subscriptions/5f0c", None,
        id="tukdsub: wsa:To, mustUnderstand on all",
    ),
    pytest.param(
        "servicemix-wsn-1.3-unsubscribe", Unsubscribe(), (), None,
        "http://gateway.example.org/subscriptions/5f0c",
        id="ServiceMix: an address in the body, in the namespace of faults",
    ),
    pytest.param(
        "oscars-wsn-1.3-renew", Renew(until(2027, 1, 31, 10)), (), None,
        "urn:uuid:7b1a3c52-0d3e-4b0f-9b51-0f6f3f6f6a01",
        id="OSCARS: a urn in the body",
    ),
    pytest.param(
        "agsh-wsn-1.3-getstatus", GetStatus(), ("2",), "http://gateway.example.org/soap", None,
        id="agsh: GetStatus, Axis's parameter",
    ),
    pytest.param(
        "savan-c-wse-2004-08-renew", Renew(until(2027, 2, 12)),
        ("urn:uuid:22e8a584-0d18-4228-b2a8-3716fa2097fa",), "http://gateway.example.org/soap", None,
        id="Savan for C: an unmarked identifier with white space",
    ),
    pytest.param(
        "openwsman-wse-2004-08-getstatus", GetStatus(),
        ("uuid:22e8a584-0d18-4228-b2a8-3716fa2097fa",), "http://gateway.example.org/soap", None,
        id="openwsman: an empty body and a misspelt action",
    ),
    pytest.param(
        "reolink-onvif-pullmessages", Take(100, 300.0), (),
        "http://gateway.example.org/subscriptions/5f0c", None,
        id="reolink_aio: white space before the envelope",
    ),
    pytest.param(
        "openhab-onvif-pullmessages", Take(1, 8.0), (), "http://192.0.2.7/subscriptions/5f0c", None,
        id="openHAB: a pull without an action",
    ),
    pytest.param(
        "openhab-onvif-getservicecapabilities", DescribeEvents(), (), None, None,
        id="openHAB: ONVIF's operation in WS-Notification's namespace, misspelt",
    ),
    pytest.param(
        "onvif-createpullpoint", SubscribePulling(dialect=TOPIC_CONCRETE_SET), (), None, None,
        id="ONVIF: nothing but the operation",
    ),
    pytest.param(
        "cxf-wsn-1.3-createpullpoint", CreateMailbox(), (), None, None,
        id="CXF: a name for the queue",
    ),
    pytest.param(
        "52n-ses-wsn-1.3-registerpublisher", RegisterPublisher(), (),
        "http://gateway.example.org/soap", None, id="52 North's SES: no topic",
    ),
    pytest.param(
        "servicemix-wsn-1.3-getmessages", Take(10), (), "http://gateway.example.org/pullpoints/91ab",
        None,
        id="ServiceMix: wsa:To, white space around the number",
    ),
    pytest.param(
        "gt4-wsn-1.2-destroy", Destroy(), (GT4_KEY,), GT4_MANAGER, None,
        id="Globus: the key of the subscription",
    ),
    pytest.param(
        "gt4-wsn-1.2-setterminationtime", SetTerminationTime(until(2026, 2, 1)), (GT4_KEY,),
        GT4_MANAGER, None,
        id="Globus: renewing",
    ),
    pytest.param(
        "gt4-wsn-1.2-getresourceproperty",
        GetProperties(
            ("{http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceLifetime-1.2-draft-01.xsd}"
             "TerminationTime",)
        ),
        (GT4_KEY,), GT4_MANAGER, None,
        id="Globus: until when",
    ),
]  # fmt: skip


@for_each(("name", "request_", "identifiers", "to", "body"), MANAGED)
def test_requests_to_the_manager(
    name: str,
    request_: object,
    identifiers: tuple[str, ...],
    to: str | None,
    body: str | None,
) -> None:
    read = incoming(stored(name))
    assert read.request == request_
    assert (read.named.identifiers, read.named.to, read.named.body) == (identifiers, to, body)


def test_openwsman_asks_for_batches_and_heartbeats() -> None:
    request = incoming(stored("openwsman-wse-2004-08-subscribe")).request
    assert isinstance(request, Subscribe)
    assert request.delivery == DeliveryMode(Mode.EVENTS, heartbeats=60.0, bookmarks=True)
    assert request.filter.contents[0].text == "SELECT * FROM CIM_ProcessIndication"


def test_openwec_asks_for_an_event_query() -> None:
    request = incoming(stored("openwec-wse-2004-08-subscribe")).request
    assert isinstance(request, Subscribe)
    assert request.consumer == EndpointReference(
        "HTTP://srv.example.org:5985/test",
        Wsa.V2004_08,
        request.consumer.properties,
        request.consumer.parameters,
    )
    assert [len(request.consumer.properties), len(request.consumer.parameters)] == [1, 2]
    assert request.consumer.parameters[0] == b"<Version>1</Version>"
    assert "<QueryList" in request.filter.contents[0].text
    assert request.filter != EVERYTHING and request.filter != Filter(contents=(Expression("*"),))


PUBLISHED = [
    pytest.param(
        "servicemix-wsn-1.2-notify", None,
        [("uuid:d7c5726b-de29-4313-b4d4-b3425b200839", "Test", b">up<")], 1,
        id="ServiceMix: 1.2, WS-Addressing 2003/03, everything padded",
    ),
    pytest.param(
        "openwsman-wse-2004-08-delivery", "http://schemas.dmtf.org/wbem/wsman/1/wsman/Event",
        [("uuid:cb2f7e2f-4d52-1d52-8003-2f2a7c9b1d07", None, b"65")], 0,
        id="openwsman: wsman:Action",
    ),
    pytest.param(
        "ws-messenger-wse-2004-08-publish", "http://org.apache.airavata/WseNotification",
        [("urn:uuid:5B2C0004", "stormTopic", b">1<")], 0,
        id="WS-Messenger: the topic as an echoed parameter",
    ),
    pytest.param(
        "synapse-wse-2004-08-publish", "urn:event",
        [("urn:uuid:51D9F9A2D07BF0B6D1243922334567", "synapse/event/test", b"172.2")], 1,
        id="Synapse: a topic header, and one of the application",
    ),
    pytest.param(
        "cxf-wsn-1.3-notify", None, [("urn:uuid:fresh", "myTopic", b'<bar xmlns="">1</bar>')], 0,
        id="CXF: no header at all",
    ),
    pytest.param(
        "oscars-wsn-1.3-notify", None,
        [
            ("urn:uuid:fresh#1", "{http://oscars.es.net/OSCARS}INFO", b"event-2"),
            ("urn:uuid:fresh#2", "{http://oscars.es.net/OSCARS}IDC", b"event-2"),
        ], 0,
        id="OSCARS: a union of topics, two elements in Message",
    ),
    pytest.param(
        "onvif-camera-wsn-1.3-notify", None,
        [
            (
                "urn:uuid:fresh#1",
                "{http://www.onvif.org/ver10/topics}RuleEngine/CellMotionDetector/Motion",
                b"IsMotion",
            ),
            (
                "urn:uuid:fresh#2",
                "{http://www.onvif.org/ver10/topics}VideoSource/MotionAlarm",
                b"xs:boolean",
            ),
        ], 0,
        id="an ONVIF camera: a misspelt dialect, a topic that ends in /.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "action", "expected", "headers"), PUBLISHED)
def test_published(
    name: str,
    action: str | None,
    expected: list[tuple[str, str | None, bytes]],
    headers: int,
) -> None:
    published = events(stored(name))
    assert [(event.id, clark(event.topic)) for event in published] == [
        (id_, topic) for id_, topic, _ in expected
    ]
    for event, (_, _, within) in zip(published, expected, strict=True):
        assert within in event.payload
        assert (event.action, event.source, event.time) == (action, "publisher", NOW)
        assert len(event.headers) == headers


def test_producers_are_kept() -> None:
    (cxf,) = events(stored("cxf-wsn-1.3-notify"))
    assert cxf.producer == EndpointReference("http://localhost:9002/MyPublisher", Wsa.V2005_08)
    (synapse,) = events(stored("synapse-wse-2004-08-publish"))
    assert b"mustUnderstand" not in synapse.headers[0] and b">t-1<" in synapse.headers[0]
