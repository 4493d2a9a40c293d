"""WS-BaseNotification 1.3 and the WSRF operations of its resources: requests and answers."""

import itertools
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urljoin

import pytest
from lxml import etree

from filters import (
    EVERYTHING,
    Expression,
    Filter,
    Reason,
    Step,
    Topic,
    parse_expression,
    topic_dialects,
)
from mediation import names
from mediation.detect import read
from mediation.filtering import CHANGED_ONLY, read_topic_expression
from mediation.model.errors import MediationError
from mediation.model.expiry import NEVER, UNSPECIFIED
from mediation.model.messages import EndpointReference, Lease, Notification, Policy
from mediation.model.requests import (
    CurrentMessage,
    Destroy,
    Done,
    GetCurrentMessage,
    GetProperties,
    Operation,
    Properties,
    Rejected,
    Renew,
    Response,
    SetTerminationTime,
    Subscribe,
    Subscribed,
    TerminationTime,
)
from mediation.model.versions import Soap, Wsa
from mediation.notification.properties import (
    PRODUCER_DOCUMENT,
    SUBSCRIPTION_DOCUMENT,
    producer_properties,
    subscription_properties,
)
from mediation.responses import write_response
from tests.rigs.cases import for_each
from tests.rigs.mediation import (
    ARRIVAL,
    CONCRETE,
    FULL,
    IBM_SIMPLE,
    NOW,
    SIMPLE,
    WSNT,
    WSRF_RL,
    WSRF_RP,
    XSI,
    body,
    canonical,
    context,
    envelope,
    incoming,
    part,
    parts,
    refused,
    subscription,
    text,
    topic,
)
from tests.rigs.schemas import Validator

BW = "http://docs.oasis-open.org/wsn/bw-2"
RPW, RLW = "http://docs.oasis-open.org/wsrf/rpw-2", "http://docs.oasis-open.org/wsrf/rlw-2"
CONSUMER = "<wsnt:ConsumerReference><wsa:Address>urn:sink</wsa:Address></wsnt:ConsumerReference>"
FILTER = "<wsnt:Filter><wsnt:TopicExpression>a</wsnt:TopicExpression></wsnt:Filter>"
TIME = "<wsnt:InitialTerminationTime> PT1H </wsnt:InitialTerminationTime>"
POLICY = "<wsnt:SubscriptionPolicy><wsnt:UseRaw/></wsnt:SubscriptionPolicy>"
EXTENSION = '<x:Ext xmlns:x="urn:x"/>'


def subscribe(inner: str) -> Subscribe:
    request = incoming(envelope(f"<wsnt:Subscribe>{inner}</wsnt:Subscribe>")).request
    assert isinstance(request, Subscribe)
    return request


@for_each("children", list(itertools.permutations((CONSUMER, FILTER, TIME, POLICY, EXTENSION))))
def test_children_in_any_order(children: tuple[str, ...]) -> None:
    request = subscribe("\n".join(children))
    assert request.consumer.address == "urn:sink" and request.raw
    assert request.expires.duration is not None
    assert [expression.text for expression in request.filter.topics] == ["a"]
    assert request.dialect == SIMPLE


def test_the_least() -> None:
    request = subscribe(CONSUMER)
    assert (request.filter, request.expires, request.raw) == (EVERYTHING, UNSPECIFIED, False)
    assert not subscribe(CONSUMER + "<wsnt:SubscriptionPolicy/>").raw


@pytest.mark.parametrize("nil", ["true", "1", " true "])
def test_nil_is_never(nil: str) -> None:
    time = f'<wsnt:InitialTerminationTime xsi:nil="{nil}"/>'
    assert subscribe(CONSUMER + time).expires == NEVER
    renew = f'<wsnt:Renew><wsnt:TerminationTime xsi:nil="{nil}"/></wsnt:Renew>'
    assert incoming(envelope(renew)).request == Renew(NEVER)


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        ("", Reason.MESSAGE_INVALID),
        ("<wsnt:ConsumerReference/>", Reason.EPR_INVALID),
        (CONSUMER + "<wsnt:InitialTerminationTime/>", Reason.EXPIRY_INVALID),
        (CONSUMER + "<wsnt:InitialTerminationTime>60000</wsnt:InitialTerminationTime>",
         Reason.EXPIRY_INVALID),
        (CONSUMER + "<wsnt:InitialTerminationTime>*</wsnt:InitialTerminationTime>",
         Reason.EXPIRY_INVALID),
        (CONSUMER + '<wsnt:SubscriptionPolicy><x:Odd xmlns:x="urn:x"/></wsnt:SubscriptionPolicy>',
         Reason.POLICY_UNRECOGNIZED),
        (
            "<wsnt:ConsumerReference><wsa:Address>urn:a</wsa:Address><wsa:ReferenceParameters>"
            "<wsa:To>urn:victim</wsa:To></wsa:ReferenceParameters></wsnt:ConsumerReference>",
            Reason.EPR_INVALID,
        ),
    ],
)  # fmt: skip
def test_refused(inner: str, reason: Reason) -> None:
    rejected = refused(envelope(f"<wsnt:Subscribe>{inner}</wsnt:Subscribe>"))
    assert rejected.refused.reason is reason
    if reason is Reason.POLICY_UNRECOGNIZED:
        assert rejected.refused.names == ("{urn:x}Odd",)


@pytest.mark.parametrize(
    ("dialect", "expression", "reason"),
    [
        (SIMPLE, "w:a", None),
        (CONCRETE, "w:a/b", None),
        (FULL, "w:a/b", None),
        (FULL, "w:a/b/.", None),
        (IBM_SIMPLE, "x:a", None),
        (FULL, "w:a|w:b", Reason.TOPICS_SEVERAL),
        (FULL, "w:a/*", Reason.TOPICS_SEVERAL),
        (FULL, "w:a//.", Reason.TOPICS_SEVERAL),
        (SIMPLE, "w:a/b", Reason.TOPIC_INVALID),
        (SIMPLE, "", Reason.TOPIC_INVALID),
        (FULL, "a b", Reason.TOPIC_INVALID),
        ("urn:unknown", "a", Reason.TOPIC_DIALECT),
    ],
)
def test_get_current_message(dialect: str, expression: str, reason: Reason | None) -> None:
    octets = envelope(
        f'<wsnt:GetCurrentMessage xmlns:w="urn:w"><wsnt:Topic Dialect="{dialect}">{expression}'
        "</wsnt:Topic></wsnt:GetCurrentMessage>"
    )
    if reason is None:
        request = incoming(octets).request
        assert isinstance(request, GetCurrentMessage)
        assert str(request.topic).endswith(("a", "a/b"))
    else:
        assert refused(octets).refused.reason is reason


def test_get_current_message_of_nothing() -> None:
    assert refused(envelope("<wsnt:GetCurrentMessage/>")).refused.reason is Reason.MESSAGE_INVALID


@pytest.mark.parametrize(
    ("inner", "names"),
    [
        ("<rp:GetResourceProperty>rl:TerminationTime</rp:GetResourceProperty>",
         (f"{{{WSRF_RL}}}TerminationTime",)),
        ("<rp:GetResourceProperty> wsnt:Filter </rp:GetResourceProperty>", (f"{{{WSNT}}}Filter",)),
        ('<rp:GetResourceProperty xmlns="urn:d">a</rp:GetResourceProperty>', ("{urn:d}a",)),
        ("<rp:GetResourceProperty>a</rp:GetResourceProperty>", ("a",)),
        (
            "<rp:GetMultipleResourceProperties><rp:ResourceProperty>rl:CurrentTime"
            "</rp:ResourceProperty><rp:ResourceProperty>wsnt:Filter</rp:ResourceProperty>"
            "</rp:GetMultipleResourceProperties>",
            (f"{{{WSRF_RL}}}CurrentTime", f"{{{WSNT}}}Filter"),
        ),
    ],
)  # fmt: skip
def test_names_of_properties(inner: str, names: tuple[str, ...]) -> None:
    assert incoming(envelope(inner)).request == GetProperties(names)


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        ("<rp:GetResourceProperty/>", Reason.PROPERTY_UNKNOWN),
        ("<rp:GetResourceProperty>nowhere:a</rp:GetResourceProperty>", Reason.PROPERTY_UNKNOWN),
        ("<rp:GetMultipleResourceProperties/>", Reason.MESSAGE_INVALID),
        (
            "<rp:GetMultipleResourceProperties>"
            + "<rp:ResourceProperty>a</rp:ResourceProperty>" * 65
            + "</rp:GetMultipleResourceProperties>",
            Reason.MESSAGE_INVALID,
        ),
        ("<rl:SetTerminationTime/>", Reason.MESSAGE_INVALID),
        ("<rl:SetTerminationTime><rl:RequestedTerminationTime/></rl:SetTerminationTime>",
         Reason.EXPIRY_INVALID),
    ],
)  # fmt: skip
def test_refused_of_resources(inner: str, reason: Reason) -> None:
    assert refused(envelope(inner)).refused.reason is reason


def test_set_termination_time() -> None:
    def asked(inner: str) -> SetTerminationTime:
        request = incoming(
            envelope(f"<rl:SetTerminationTime>{inner}</rl:SetTerminationTime>")
        ).request
        assert isinstance(request, SetTerminationTime)
        return request

    assert asked('<rl:RequestedTerminationTime xsi:nil="true"/>').expires == NEVER
    at = "<rl:RequestedTerminationTime>2027-01-01T00:00:00Z</rl:RequestedTerminationTime>"
    assert asked(at).expires.instant == datetime.fromisoformat("2027-01-01T00:00:00+00:00")
    lasting = "<rl:RequestedLifetimeDuration>PT30M</rl:RequestedLifetimeDuration>"
    assert asked(lasting).expires.at(NOW) == NOW + timedelta(minutes=30)
    muse = "<rl:RequestedLifetimeDuration>2027-01-01T00:00:00Z</rl:RequestedLifetimeDuration>"
    assert asked(muse).expires.instant is not None
    assert incoming(envelope("<rl:Destroy/>")).request == Destroy()


READING = Notification("urn:1", "p", b'<R xmlns="urn:o"><n xmlns=""/></R>', NOW, topic=topic("a"))
FILTERED = Filter(
    (Expression("x:a//.", FULL, (("", "urn:d"), ("x", "urn:x"))),),
    (
        Expression("/w:W > 1 and 'a'=\"a\"", namespaces=(("n-", "urn:n"), ("w", "urn:w"))),
        CHANGED_ONLY,
    ),
)
FULL_ONE = subscription(
    filter=FILTERED,
    policy=Policy(raw=True),
    consumer=EndpointReference(
        "http://sink.example.com/?a&b",
        Wsa.V2005_08,
        (),
        (b'<k:Key xmlns:k="urn:k">1</k:Key>',),
        (
            b'<wsa:Metadata xmlns:wsa="http://www.w3.org/2005/08/addressing"><p:P xmlns:p="urn:p"/>'
            b"</wsa:Metadata>",
        ),
    ),
)
TOPICS = (
    topic("{urn:w}storms/tropical"),
    topic("{urn:w}storms"),
    topic("{http://www.onvif.org/ver10/topics}RuleEngine/{urn:v}Cell/Motion"),
    topic("plain"),
    topic("2024-orders"),
)


def answer(
    response: Response, operation: Operation, *, soap: Soap = Soap.V1_2, action: str | None = None
) -> tuple[str, bytes]:
    return write_response(
        response, context(operation, soap=soap, action=action), message_id="urn:m"
    )


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("epr", Wsa)
def test_subscribe_response(soap: Soap, epr: Wsa, validator: Validator) -> None:
    granted = subscription(soap=soap, consumer=EndpointReference("urn:sink", epr))
    action, octets = answer(Subscribed(granted, NOW), Operation.SUBSCRIBE, soap=soap)
    assert action == f"{BW}/NotificationProducer/SubscribeResponse"
    (element,) = body(octets)
    assert [etree.QName(child).localname for child in element] == [
        "SubscriptionReference", "CurrentTime", "TerminationTime",
    ]  # fmt: skip
    assert [child.tag for child in element[0]] == [f"{{{epr.value}}}Address"]
    assert [child.text for child in list(element)[1:]] == [
        "2026-01-31T10:00:00Z", "2026-01-31T11:00:00Z",
    ]  # fmt: skip
    first = next(etree.fromstring(octets).iter("{*}Address"))
    assert (first.text or "").startswith("http://gateway.example.org/subscriptions/")
    if epr is Wsa.V2005_08:
        validator.check(octets)


def test_renew_has_the_times_the_other_way_round(validator: Validator) -> None:
    for lease, times in (
        (Lease(NOW, NOW + timedelta(hours=1)), ["2026-01-31T11:00:00Z", "2026-01-31T10:00:00Z"]),
        (Lease(NOW, None), [None, "2026-01-31T10:00:00Z"]),
    ):
        _, octets = answer(Subscribed(subscription(lease=lease), NOW), Operation.RENEW)
        (element,) = body(octets)
        assert [etree.QName(child).localname for child in element] == [
            "TerminationTime", "CurrentTime",
        ]  # fmt: skip
        assert [child.text for child in element] == times
        assert (element[0].get(f"{{{XSI}}}nil") == "true") is (times[0] is None)
        validator.check(octets)


@pytest.mark.parametrize(
    ("operation", "action", "answered"),
    [
        (Operation.RENEW, f"{BW}/SubscriptionManager/RenewRequest", "SubscriptionManager/RenewResponse"),
        (Operation.RENEW, f"{BW}/PausableSubscriptionManager/RenewRequest",
         "PausableSubscriptionManager/RenewResponse"),
        (Operation.RENEW, None, "SubscriptionManager/RenewResponse"),
        (Operation.RENEW, "urn:wrong", "SubscriptionManager/RenewResponse"),
        (Operation.UNSUBSCRIBE, f"{BW}/PausableSubscriptionManager/UnsubscribeRequest",
         "PausableSubscriptionManager/UnsubscribeResponse"),
        (Operation.PAUSE, f"{BW}/SubscriptionManager/PauseSubscriptionRequest",
         "PausableSubscriptionManager/PauseSubscriptionResponse"),
        (Operation.RESUME, None, "PausableSubscriptionManager/ResumeSubscriptionResponse"),
        (Operation.SUBSCRIBE, "http://docs.oasis-open.org/wsn/brw-2/NotificationBroker/SubscribeRequest",
         "../brw-2/NotificationBroker/SubscribeResponse"),
        (Operation.GET_CURRENT_MESSAGE, None, "NotificationProducer/GetCurrentMessageResponse"),
    ],
)  # fmt: skip
def test_response_actions(operation: Operation, action: str | None, answered: str) -> None:
    responses: dict[Operation, Response] = {
        Operation.SUBSCRIBE: Subscribed(subscription(), NOW),
        Operation.RENEW: Subscribed(subscription(), NOW),
        Operation.GET_CURRENT_MESSAGE: CurrentMessage(READING),
    }
    written, _ = answer(responses.get(operation, Done()), operation, action=action)
    assert written == urljoin(f"{BW}/", answered)


@pytest.mark.parametrize("soap", Soap)
def test_every_response_is_valid(soap: Soap, validator: Validator) -> None:
    properties = subscription_properties(FULL_ONE, NOW)
    # A root of the ad hoc namespace has none; the schema has no place for it, WS-Topics has.
    produced = producer_properties(TOPICS[:3], topic_dialects())
    two = (f"{{{WSNT}}}Filter", f"{{{WSRF_RL}}}TerminationTime")
    responses: list[tuple[Operation, Response, str]] = [
        (Operation.SUBSCRIBE, Subscribed(FULL_ONE, NOW), ""),
        (Operation.RENEW, Subscribed(FULL_ONE, NOW), ""),
        (Operation.UNSUBSCRIBE, Done(), ""),
        (Operation.PAUSE, Done(), ""),
        (Operation.RESUME, Done(), ""),
        (Operation.GET_CURRENT_MESSAGE, CurrentMessage(READING), ""),
        (
            Operation.GET_RESOURCE_PROPERTY,
            Properties(properties, two[:1], SUBSCRIPTION_DOCUMENT),
            f"{RPW}/GetResourceProperty/GetResourcePropertyResponse",
        ),
        (
            Operation.GET_MULTIPLE_RESOURCE_PROPERTIES,
            Properties(properties, two, SUBSCRIPTION_DOCUMENT),
            f"{RPW}/GetMultipleResourceProperties/GetMultipleResourcePropertiesResponse",
        ),
        (
            Operation.GET_RESOURCE_PROPERTY_DOCUMENT,
            Properties(produced, None, PRODUCER_DOCUMENT),
            f"{RPW}/GetResourcePropertyDocument/GetResourcePropertyDocumentResponse",
        ),
        (
            Operation.SET_TERMINATION_TIME,
            TerminationTime(NOW, NOW),
            f"{RLW}/ScheduledResourceTermination/SetTerminationTimeResponse",
        ),
        (Operation.SET_TERMINATION_TIME, TerminationTime(None, NOW), ""),
        (
            Operation.DESTROY,
            Done(),
            f"{RLW}/ImmediateResourceTermination/DestroyResponse",
        ),
    ]
    for operation, response, action in responses:
        written, octets = answer(response, operation, soap=soap)
        assert written == text(octets, "//wsa:Action")
        assert not action or written == action
        (element,) = body(octets)
        assert etree.QName(element).localname == f"{operation.value}Response"
        validator.check(octets)


def test_the_current_message_is_not_wrapped() -> None:
    _, octets = answer(CurrentMessage(READING), Operation.GET_CURRENT_MESSAGE)
    ((payload,),) = body(octets)
    assert canonical(payload) == canonical(READING.payload)


def test_the_properties_of_a_subscription() -> None:
    properties = subscription_properties(FULL_ONE, NOW)
    everything = Properties(properties, None, SUBSCRIPTION_DOCUMENT)
    _, octets = answer(everything, Operation.GET_RESOURCE_PROPERTY_DOCUMENT)
    ((document,),) = body(octets)
    assert document.tag == SUBSCRIPTION_DOCUMENT
    assert [etree.QName(child).localname for child in document] == [
        "ConsumerReference", "Filter", "SubscriptionPolicy", "CreationTime", "CurrentTime",
        "TerminationTime",
    ]  # fmt: skip
    expression = part(octets, "//wsnt:TopicExpression")
    assert (expression.text, expression.nsmap["x"]) == ("x:a//.", "urn:x")
    content = part(octets, "//wsnt:MessageContent")
    assert (content.text, content.nsmap["w"]) == ("/w:W > 1 and 'a'=\"a\"", "urn:w")
    assert len(parts(octets, "//wsnt:UseRaw")) == 1
    assert b"ChangedOnly" in octets
    bare = subscription_properties(subscription(lease=Lease(NOW, None)), NOW)
    assert b"nil" in bare[f"{{{WSRF_RL}}}TerminationTime"]
    assert bare[f"{{{WSNT}}}Filter"] == bare[f"{{{WSNT}}}SubscriptionPolicy"] == b""


def test_the_properties_of_the_producer() -> None:
    produced = producer_properties(TOPICS, topic_dialects())
    _, octets = answer(
        Properties(produced, None, PRODUCER_DOCUMENT), Operation.GET_RESOURCE_PROPERTY_DOCUMENT
    )
    assert text(octets, "//wsnt:FixedTopicSet") == "false"
    assert [dialect.text for dialect in parts(octets, "//wsnt:TopicExpressionDialect")] == list(
        topic_dialects()
    )
    onvif = parts(octets, "//wsnt:TopicExpression")[2]
    assert onvif.text == "tns1:RuleEngine/t1:Cell/Motion"
    assert onvif.nsmap["t1"] == "urn:v"
    (topic_set,) = parts(octets, "//wstop:TopicSet")
    assert [etree.QName(child).localname for child in topic_set] == [
        "storms",
        "RuleEngine",
        "plain",
    ]
    marked = [str(node.tag) for node in topic_set.iter() if "true" in node.attrib.values()]
    assert marked == ["{urn:w}storms", "tropical", "Motion", "plain"]


def test_topics_that_no_expression_can_have() -> None:
    odd = [Topic((Step(None, name),)) for name in ("a b", "/T1", "a:b", "1st", "")]
    below = Topic((Step("urn:w", "a"), Step(None, "b c")))
    topics = [*odd, topic("{urn:w}caf\u00e9/b-1.c"), below]
    produced = producer_properties(topics, topic_dialects())
    octets = b"<a>" + produced[f"{{{WSNT}}}TopicExpression"] + b"</a>"
    [told] = etree.fromstring(octets)
    assert parse_expression(read_topic_expression(told)).matches(topics[-2])
    (named,) = etree.fromstring(produced[f"{{{names.WSTOP_1_3}}}TopicSet"])
    assert named.tag == "{urn:w}caf\u00e9"


@pytest.mark.parametrize("count", [2, 5])
def test_prefixes_of_many_namespaces_differ(count: int) -> None:
    many = topic(
        "/".join(f"{{urn:{n}}}a" for n in range(count)) + "/{http://www.onvif.org/ver10/topics}b"
    )
    (written, *_) = producer_properties((many,), ()).values()
    element = etree.fromstring(written)
    prefixes = [step.partition(":")[0] for step in (element.text or "").split("/")]
    assert [element.nsmap[prefix] for prefix in prefixes] == [
        *(f"urn:{n}" for n in range(count)), "http://www.onvif.org/ver10/topics",
    ]  # fmt: skip


def test_unknown_properties() -> None:
    asked = Properties({}, (f"{{{WSRF_RP}}}Nothing",), SUBSCRIPTION_DOCUMENT)
    with pytest.raises(MediationError) as caught:
        answer(asked, Operation.GET_RESOURCE_PROPERTY)
    assert caught.value.reason is Reason.PROPERTY_UNKNOWN


SERVICEMIX = {
    "subscribe-nil-itt": None,
    "subscribe-no-itt": None,
    "subscribe-raw": None,
    "subscribe-no-topic": None,
    "subscription-subscribe": None,
    "subscribe-abs-itt": None,  # Read here; the gateway says that it is in the past.
    "subscribe-epr": Reason.EPR_INVALID,  # An address of a bus that is not here.
    "subscribe-empty-itt": Reason.EXPIRY_INVALID,
    "subscribe-pp": Reason.PRODUCER_PROPERTIES,
}


@pytest.mark.parametrize(("name", "reason"), SERVICEMIX.items())
@pytest.mark.parametrize("soap", Soap)
def test_servicemix(material: Path, name: str, reason: Reason | None, soap: Soap) -> None:
    sample = material / f"specs/schemas/wsn/samples/servicemix-wsn2005/{name}.xml"
    element = etree.tostring(etree.parse(sample).getroot()).decode()
    octets = f'<s:Envelope xmlns:s="{soap.value}"><s:Body>{element}</s:Body></s:Envelope>'.encode()
    try:
        request = read(octets, ARRIVAL).request
    except Rejected as rejected:
        assert rejected.refused.reason is reason
        return
    assert reason is None and isinstance(request, Subscribe)
    assert request.consumer.address == request.consumer.address.strip() != ""
    if name == "subscribe-abs-itt":
        assert request.expires.at(NOW) is not None and request.expires.at(NOW) < NOW  # type: ignore[operator]
    if name == "subscribe-nil-itt":
        assert request.expires == NEVER
    assert request.raw is (name == "subscribe-raw")
