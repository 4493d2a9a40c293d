"""WS-BaseNotification 1.2 as Globus Toolkit 4 and ServiceMix speak it; all that leaves is valid by
the schemas of the drafts."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filters import Expression, Filter, Reason, Topic, dialects, parse_clark, topic_dialects
from filters.topics import Step
from mediation import names
from mediation.client import (
    SPECS,
    read_granted,
    read_received,
    write_get_current_message,
    write_get_status,
    write_pause,
    write_publish,
    write_renew,
    write_resume,
    write_subscribe,
    write_unsubscribe,
)
from mediation.faults import fault_of, write_fault
from mediation.filtering import producer_view
from mediation.model.errors import MediationError
from mediation.model.expiry import NEVER
from mediation.model.messages import EndpointReference, Notification, Policy
from mediation.model.requests import (
    CurrentMessage,
    Destroy,
    Done,
    GetCurrentMessage,
    GetProperties,
    Operation,
    Pause,
    Properties,
    Request,
    Response,
    Resume,
    SetTerminationTime,
    Subscribe,
    Subscribed,
    TerminationTime,
)
from mediation.model.versions import Soap, Spec, Version, Wsa
from mediation.rendering import prepare, render
from mediation.responses import write_response
from mediation.specifications import SPECIFICATIONS, properties_in
from tests.rigs.cases import for_each
from tests.rigs.draft_schemas import PAYLOAD, DraftValidator
from tests.rigs.mediation import (
    NOW,
    body,
    canonical,
    context,
    envelope,
    events,
    headers,
    incoming,
    refused,
    stored,
    subscription,
    text,
)

VERSION = Version.WSN_1_2
WSNT, RP, RL = names.WSN_2004_06, names.WSRF_RP_2004_06, names.WSRF_RL_2004_06
WSBN = names.WSN_BR_2004_06
CORE = names.GLOBUS_CORE
ACTIONS = "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BaseNotification/"
RL_ACTIONS = "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceLifetime/"
RP_ACTIONS = "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceProperties/"
GT4 = Wsa.V2004_03
OLD = (Wsa.V2003_03, Wsa.V2004_03)
EVENT = f'<p:a xmlns:p="{PAYLOAD}">1</p:a>'.encode()
KEY = f'<k:NotificationConsumerKey xmlns:k="{CORE}">19a0c</k:NotificationConsumerKey>'
CONSUMER = EndpointReference(
    "http://client.example.org:8081/wsrf/services/NotificationConsumerService", GT4, (KEY.encode(),)
)
MANAGER = "http://gateway.example.org/subscriptions/22e8a584-0d18-4228-b2a8-3716fa2097fa"
BOTH_SOAPS = pytest.mark.parametrize("soap", Soap)
BOTH_WSAS = pytest.mark.parametrize("wsa", OLD)


@pytest.fixture(scope="module", params=["repository", "reference"])
def drafts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> DraftValidator:
    """The schemas of the repository, and those of the reference material."""
    reference = request.param == "reference"
    folder = request.getfixturevalue("shared") / "specs/schemas" if reference else None
    return DraftValidator(folder, tmp_path_factory.mktemp("drafts"))


def draft(name: str, inner: str = "", headers: str = "", *, soap: Soap = Soap.V1_1) -> bytes:
    return envelope(f'<n:{name} xmlns:n="{WSNT}">{inner}</n:{name}>', headers, soap=soap, wsa=GT4)


def test_the_schemas_refuse(drafts: DraftValidator) -> None:
    for bad in ("<n:Message/>", "<n:Topic/>", "<n:Topic/><n:Odd/><n:Message/>"):
        with pytest.raises(AssertionError):
            drafts.check(draft("Notify", f"<n:NotificationMessage>{bad}</n:NotificationMessage>"))


# Globus Toolkit 4 on the wire.


def test_gt4_subscribes() -> None:
    read = incoming(stored("gt4-wsn-1.2-subscribe-topic"))
    spoken = read.context
    assert (spoken.version, spoken.soap, spoken.wsa) == (VERSION, Soap.V1_1, GT4)
    request = read.request
    assert isinstance(request, Subscribe)
    assert (request.consumer.address, request.consumer.wsa) == (CONSUMER.address, GT4)
    [key] = map(etree.fromstring, request.consumer.properties)
    assert (key.tag, key.text) == (f"{{{CORE}}}NotificationConsumerKey", "19a0c")
    [topic] = request.filter.topics
    assert (topic.text, topic.dialect) == ("ns1:Value", dialects.TOPIC_SIMPLE)
    assert dict(topic.namespaces)["ns1"] == "http://counter.com"
    assert not request.raw and request.expires.never and request.expires.best_effort


def test_gt4_is_answered(drafts: DraftValidator) -> None:
    spoken = incoming(stored("gt4-wsn-1.2-subscribe-topic")).context
    granted = subscription(VERSION, soap=Soap.V1_1, wsa=GT4, consumer=CONSUMER)
    action, octets = write_response(Subscribed(granted, NOW), spoken, message_id="uuid:2")
    assert action == f"{ACTIONS}SubscribeResponse" == text(octets, "//wsa:Action")
    assert text(octets, "//wsa:RelatesTo") == "uuid:0f6b1d40-5a3c-11d9-8a1b-9f2b9f6f0001"
    assert text(octets, "//s:Header/wsa:To") == GT4.anonymous
    manager = read_granted(octets).manager
    assert manager is not None and (manager.address, manager.wsa) == (MANAGER, GT4)
    [key] = map(etree.fromstring, manager.properties)
    assert (key.tag, key.text) == (f"{{{CORE}}}SubscriptionKey", f"urn:uuid:{granted.key}")
    drafts.check(octets)


def test_gt4_is_notified(drafts: DraftValidator) -> None:
    """Its container finds the service by ``wsa:To``, and the resource by its own key."""
    topic = Topic((Step("http://counter.com", "Value"),))
    event = Notification("urn:1", "p", EVENT, NOW, topic=topic)
    octets = delivered(event, CONSUMER)
    drafts.check(octets)
    assert [block.tag for block in headers(octets)] == [
        f"{{{GT4.value}}}Action",
        f"{{{GT4.value}}}MessageID",
        f"{{{GT4.value}}}To",
        f"{{{CORE}}}NotificationConsumerKey",
    ]
    key = headers(octets)[-1]
    assert (key.text, key.keys()) == ("19a0c", [])
    assert text(octets, "//wsa:Action") == f"{ACTIONS}Notify"
    assert text(octets, "//wsa:To") == CONSUMER.address
    [message] = body(octets)[0]
    assert [etree.QName(part).localname for part in message] == [
        "Topic",
        "ProducerReference",
        "Message",
    ]
    found = message[0]
    assert found.get("Dialect") == dialects.TOPIC_SIMPLE_1_2
    prefix, _, local = (found.text or "").partition(":")
    assert (found.nsmap[prefix], local) == ("http://counter.com", "Value")
    [producer] = message[1]
    assert (producer.tag, producer.text) == (f"{{{GT4.value}}}Address", "http://g")


@pytest.mark.parametrize(
    ("name", "meant", "response", "action"),
    [
        ("setterminationtime", SetTerminationTime, TerminationTime(NOW, NOW),
         f"{RL_ACTIONS}SetTerminationTimeResponse"),
        ("destroy", Destroy, Done(), f"{RL_ACTIONS}DestroyResponse"),
        ("getresourceproperty", GetProperties, Properties({f"{{{RL}}}CurrentTime": b""},
         (f"{{{RL}}}CurrentTime",), ""), f"{RP_ACTIONS}GetResourcePropertyResponse"),
    ],
)  # fmt: skip
def test_gt4_manages(
    name: str, meant: type, response: Response, action: str, drafts: DraftValidator
) -> None:
    read = incoming(stored(f"gt4-wsn-1.2-{name}"))
    assert isinstance(read.request, meant)
    assert read.named.identifiers == ("urn:uuid:22e8a584-0d18-4228-b2a8-3716fa2097fa",)
    answered, octets = write_response(response, read.context, message_id="uuid:5")
    assert answered == action == text(octets, "//wsa:Action")
    drafts.check(octets)


# ServiceMix.


def test_servicemix_notifies() -> None:
    """WS-Addressing 2003/03 in SOAP 1.2, padded headers, an action of its own, a topic in IBM's
    dialect without the hyphen."""
    read = incoming(stored("servicemix-wsn-1.2-notify"))
    assert (read.context.version, read.context.soap) == (VERSION, Soap.V1_2)
    assert read.context.wsa is Wsa.V2003_03
    [event] = events(stored("servicemix-wsn-1.2-notify"))
    assert event.topic == Topic((Step(None, "Test"),))
    assert event.id == "uuid:d7c5726b-de29-4313-b4d4-b3425b200839"


def test_the_reference_samples(shared: Path) -> None:
    folder = shared / "specs/schemas/wsn/samples/servicemix-wsn-1.2-draft"
    [event] = events((folder / "notify.xml").read_bytes())
    assert str(event.topic) == "Test"
    wrapped = envelope(_body(folder / "wsn-notify.xml"), soap=Soap.V1_2, wsa=Wsa.V2003_03)
    [event] = events(wrapped)
    assert str(event.topic) == "SomeTopic"
    # Its consumer is a service of the bus, without an address.
    asked = envelope(_body(folder / "wsn-subscribe.xml"), soap=Soap.V1_2, wsa=Wsa.V2003_03)
    assert refused(asked).refused.reason is Reason.EPR_INVALID


def _body(path: Path) -> str:
    return path.read_text().partition("?>")[2]


# Subscribe.


def subscribe(inner: str) -> Subscribe:
    address = "<wsa:Address>http://c</wsa:Address>"
    reference = f"<n:ConsumerReference>{address}</n:ConsumerReference>"
    request = incoming(draft("Subscribe", reference + inner)).request
    assert isinstance(request, Subscribe)
    return request


@pytest.mark.parametrize(
    ("uri", "meant"),
    [
        (None, dialects.TOPIC_SIMPLE),
        (dialects.TOPIC_SIMPLE_1_2, dialects.TOPIC_SIMPLE),
        (dialects.TOPIC_CONCRETE_1_2, dialects.TOPIC_CONCRETE),
        (dialects.TOPIC_FULL_1_2, dialects.TOPIC_FULL),
        (dialects.TOPIC_FULL, dialects.TOPIC_FULL),
    ],
)
def test_topic_dialects(uri: str | None, meant: str) -> None:
    said = f' Dialect="{uri}"' if uri else ""
    request = subscribe(f"<n:TopicExpression{said}> a </n:TopicExpression>")
    [topic] = request.filter.topics
    assert (topic.text, topic.dialect, request.dialect) == ("a", meant, meant)


@pytest.mark.parametrize(
    ("inner", "at"),
    [
        ("<n:InitialTerminationTime>2026-01-31T11:00:00Z</n:InitialTerminationTime>", 3600),
        ("<n:InitialTerminationTime>PT1H</n:InitialTerminationTime>", 3600),
        ('<n:InitialTerminationTime xsi:nil="true"/>', None),
    ],
)
def test_termination_times(inner: str, at: int | None) -> None:
    expires = subscribe(inner).expires
    assert expires.at(NOW) == (None if at is None else NOW + timedelta(seconds=at))
    assert (expires == NEVER) is (at is None)


def test_a_policy_is_not_looked_at() -> None:
    policy = '<n:SubscriptionPolicy><r:x xmlns:r="urn:r"/>text</n:SubscriptionPolicy>'
    assert not subscribe(policy).raw


@pytest.mark.parametrize(
    ("name", "inner", "reason", "fault"),
    [
        ("Subscribe", "", Reason.MESSAGE_INVALID, "SubscribeCreationFailedFault"),
        ("Subscribe", "<n:ConsumerReference/>", Reason.EPR_INVALID, "SubscribeCreationFailedFault"),
        ("GetCurrentMessage", "", Reason.MESSAGE_INVALID, None),
        ("GetCurrentMessage", "<n:Topic>a b</n:Topic>", Reason.TOPIC_INVALID,
         "InvalidTopicExpressionFault"),
        ("GetCurrentMessage", f'<n:Topic Dialect="{dialects.TOPIC_FULL_1_2}">a//b</n:Topic>',
         Reason.TOPICS_SEVERAL, "InvalidTopicExpressionFault"),
        ("GetCurrentMessage", '<n:Topic Dialect="urn:odd">a</n:Topic>', Reason.TOPIC_DIALECT,
         "TopicPathDialectUnknownFault"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(name: str, inner: str, reason: Reason, fault: str | None) -> None:
    rejected = refused(draft(name, inner))
    spoken = rejected.context
    assert (rejected.refused.reason, spoken.version) == (reason, VERSION)
    named = fault_of(reason, spoken.operation, spoken.version).element
    assert named == (f"{{{WSNT}}}{fault}" if fault else "")


@pytest.mark.parametrize("name", ["Renew", "Unsubscribe", "CreatePullPoint", "SubscribeResponse"])
def test_what_the_draft_does_not_have(name: str) -> None:
    assert refused(draft(name)).refused.reason is Reason.ACTION_UNSUPPORTED


# What our clients write, in every version; and what they read.


def requests(spec: Spec) -> Iterator[tuple[tuple[str, bytes], Request | type]]:
    wsa = spec.wsa or GT4
    manager = EndpointReference(MANAGER, wsa, (KEY.encode(),))
    consumer = EndpointReference("http://c", wsa, (KEY.encode(),))
    at = "2027-01-01T00:00:00Z"
    topic = "{urn:t}a/b"
    for raw in (False, True):
        yield write_subscribe(
            spec, to="http://g", consumer=consumer, message_id="urn:m", topic=topic, xpath="/a",
            expires=at, raw=raw,
        ), Subscribe  # fmt: skip
    yield write_pause(spec, manager, message_id="urn:m"), Pause()
    yield write_resume(spec, manager, message_id="urn:m"), Resume()
    yield write_unsubscribe(spec, manager, message_id="urn:m"), Destroy()
    yield write_renew(spec, manager, at, message_id="urn:m"), SetTerminationTime
    yield write_renew(spec, manager, None, message_id="urn:m"), SetTerminationTime(NEVER)
    yield write_get_status(spec, manager, message_id="urn:m"), GetProperties
    yield (
        write_get_current_message(spec, to="http://g", topic=topic, message_id="urn:m"),
        GetCurrentMessage(parse_clark(topic)),
    )
    for name in (None, topic):
        yield write_publish(
            spec, to="http://g", payload=EVENT, message_id="urn:m", topic=name, producer=consumer
        ), type(incoming(draft("Notify", MESSAGE)).request)  # fmt: skip


MESSAGE = (
    "<n:NotificationMessage><n:Topic>a</n:Topic><n:Message><b/></n:Message></n:NotificationMessage>"
)


@BOTH_SOAPS
@BOTH_WSAS
def test_what_clients_write_is_valid(soap: Soap, wsa: Wsa, drafts: DraftValidator) -> None:
    spec = replace(SPECS[VERSION], form=soap, wsa=wsa)
    for (action, octets), meant in requests(spec):
        drafts.check(octets, wsa)
        read = incoming(octets)
        assert read.context.version is VERSION and read.context.headers.action == action
        assert isinstance(read.request, meant) if isinstance(meant, type) else read.request == meant


# What the gateway writes.


def delivered(
    event: Notification,
    consumer: EndpointReference,
    *,
    soap: Soap = Soap.V1_1,
    wsa: Wsa | None = GT4,
    raw: bool = False,
    dialect: str | None = None,
) -> bytes:
    policy = Policy(raw=raw, dialect=dialect)
    recipient = prepare(subscription(VERSION, soap=soap, wsa=wsa, consumer=consumer, policy=policy))
    return render(event, recipient.shape, "http://g").fill(recipient, "urn:m")


@BOTH_SOAPS
@BOTH_WSAS
def test_answers_are_valid(soap: Soap, wsa: Wsa, drafts: DraftValidator) -> None:
    consumer = EndpointReference("http://c", wsa, (KEY.encode(),))
    filter_ = Filter(
        (Expression("t:a", dialects.TOPIC_SIMPLE, (("t", "urn:t"), ("wsnt", "urn:mine"))),),
        (
            Expression("/a", namespaces=(("t", "urn:t"),)),
            Expression("//b", view=producer_view(VERSION)),
        ),
    )
    kept = subscription(VERSION, soap=soap, wsa=wsa, consumer=consumer, filter=filter_)
    own, producer = properties_in(VERSION), (parse_clark("{urn:t}a"), parse_clark("b/c"))
    values = {
        **own.of_subscription(kept, NOW).values,
        **own.of_producer(producer, topic_dialects()).values,
    }
    values.pop(f"{{{names.WSN_BR_2004_06}}}RequiresRegistration")
    every = Properties(values, tuple(values), "")
    event = Notification("urn:1", "p", EVENT, NOW)
    answers: list[tuple[Operation, Response]] = [
        (Operation.SUBSCRIBE, Subscribed(kept, NOW)),
        (Operation.PAUSE, Done()),
        (Operation.RESUME, Done()),
        (Operation.GET_CURRENT_MESSAGE, CurrentMessage(event)),
        (Operation.DESTROY, Done()),
        (Operation.SET_TERMINATION_TIME, TerminationTime(None, NOW)),
        (Operation.GET_RESOURCE_PROPERTY, every),
        (Operation.GET_MULTIPLE_RESOURCE_PROPERTIES, every),
    ]
    for operation, response in answers:
        spoken = context(operation, VERSION, soap=soap, wsa=wsa)
        action, octets = write_response(response, spoken, message_id="urn:r")
        assert action.endswith(f"/{operation.value}Response")
        drafts.check(octets, wsa)


def test_topics_that_no_path_can_have_are_not_told() -> None:
    topics = [Topic((Step(None, name),)) for name in ("a b", "/T1", "good")]
    told = {
        version: properties_in(version)
        .of_producer(topics, ())
        .values[f"{{{namespace}}}Topic"]
        .count(b"</wsnt:Topic>")
        for version, namespace in ((VERSION, names.WSN_2004_06), (Version.WSN_1_0, names.WSN_IBM))
    }
    assert told == {VERSION: 1, Version.WSN_1_0: 3}  # 1.0 takes any text behind a colon.


def test_the_document_of_a_subscription_is_in_the_order_of_the_schema(
    drafts: DraftValidator,
) -> None:
    """Nobody can ask for it whole; its properties are those of SubscriptionManagerRP."""
    topic = Expression("a", dialects.TOPIC_SIMPLE)
    kept = subscription(VERSION, wsa=GT4, consumer=CONSUMER, filter=Filter((topic,)))
    root, values = properties_in(VERSION).of_subscription(kept, NOW)
    assert root == f"{{{WSNT}}}SubscriptionManagerRP"
    inner = b"".join(values.values()).decode()
    drafts.check(draft("SubscriptionManagerRP", inner))


@BOTH_SOAPS
@BOTH_WSAS
@pytest.mark.parametrize("name", [None, "a", "{urn:t}a", "a/b", "{urn:t}a/b"])
def test_notifications_are_valid(
    soap: Soap, wsa: Wsa, name: str | None, drafts: DraftValidator
) -> None:
    topic = parse_clark(name) if name else None
    producer = EndpointReference("http://p", Wsa.V2005_08, (), (KEY.encode(),))
    event = Notification("urn:1", "p", EVENT, NOW, topic=topic, producer=producer)
    consumer = EndpointReference("http://c", wsa)
    octets = delivered(event, consumer, soap=soap, wsa=wsa)
    drafts.check(octets, wsa)
    [again] = events(octets)
    assert str(again.topic) == (name or "wseTopic")
    assert canonical(again.payload) == canonical(EVENT)
    raw = delivered(event, consumer, soap=soap, wsa=wsa, raw=True)
    drafts.check(raw, wsa)
    assert [canonical(part) for part in body(raw)] == [canonical(EVENT)]


@pytest.mark.parametrize(("action", "said"), [(None, f"{ACTIONS}Notify"), ("urn:own", "urn:own")])
def test_a_raw_notification_has_its_own_action_if_it_has_one(action: str | None, said: str) -> None:
    event = Notification("urn:1", "p", EVENT, NOW, action=action)
    assert text(delivered(event, CONSUMER, raw=True), "//wsa:Action") == said


@for_each("wsa", [None, *Wsa])
@for_each("epr", Wsa)
def test_mixed_addressing(wsa: Wsa | None, epr: Wsa) -> None:
    """Headers in the version of the request's, references in that of its references."""
    consumer = EndpointReference("http://c", epr, (KEY.encode(),))
    octets = delivered(Notification("urn:1", "p", EVENT, NOW), consumer, wsa=wsa)
    spoken = wsa or epr
    assert [block.tag for block in headers(octets)][:3] == [
        f"{{{spoken.value}}}{name}" for name in ("Action", "MessageID", "To")
    ]
    marked = headers(octets)[3].get(f"{{{Wsa.V2005_08.value}}}IsReferenceParameter")
    assert marked == ("true" if spoken is Wsa.V2005_08 else None)
    [address] = body(octets)[0].iter(f"{{{epr.value}}}Address")
    assert address.text == "http://g"


@pytest.mark.parametrize("uri", [dialects.TOPIC_CONCRETE, dialects.TOPIC_FULL])
def test_the_dialect_of_the_subscriber_is_used(uri: str) -> None:
    event = Notification("urn:1", "p", EVENT, NOW, topic=parse_clark("a/b"))
    octets = delivered(event, CONSUMER, dialect=uri)
    [topic] = body(octets)[0].iter(f"{{{WSNT}}}Topic")
    assert topic.get("Dialect") == uri.replace("t-1", "2004/06")


# Faults.

CREATION = f"{{{WSNT}}}SubscribeCreationFailedFault"
UNKNOWN = "ResourceUnknownFault"
FAULTS = [
    (Reason.SUBSCRIPTION_UNKNOWN, Operation.PAUSE, f"{{{WSNT}}}{UNKNOWN}"),
    (Reason.SUBSCRIPTION_UNKNOWN, Operation.RESUME, f"{{{WSNT}}}{UNKNOWN}"),
    (Reason.SUBSCRIPTION_UNKNOWN, Operation.DESTROY, f"{{{RL}}}{UNKNOWN}"),
    (Reason.SUBSCRIPTION_UNKNOWN, Operation.SET_TERMINATION_TIME, f"{{{RL}}}{UNKNOWN}"),
    (Reason.SUBSCRIPTION_UNKNOWN, Operation.GET_RESOURCE_PROPERTY, f"{{{RP}}}{UNKNOWN}"),
    (Reason.RESOURCE_UNKNOWN, Operation.DESTROY, f"{{{RL}}}{UNKNOWN}"),
    (Reason.PROPERTY_UNKNOWN, Operation.GET_RESOURCE_PROPERTY,
     f"{{{RP}}}InvalidResourcePropertyQNameFault"),
    (Reason.EXPIRY_INVALID, Operation.SET_TERMINATION_TIME,
     f"{{{RL}}}UnableToSetTerminationTimeFault"),
    (Reason.EXPIRY_TOO_LONG, Operation.SET_TERMINATION_TIME,
     f"{{{RL}}}TerminationTimeChangeRejectedFault"),
    (Reason.QUERY_INVALID, Operation.QUERY_RESOURCE_PROPERTIES,
     f"{{{RP}}}InvalidQueryExpressionFault"),
    (Reason.QUERY_DIALECT, Operation.QUERY_RESOURCE_PROPERTIES,
     f"{{{RP}}}UnknownQueryExpressionDialectFault"),
    (Reason.QUERY_FAILED, Operation.QUERY_RESOURCE_PROPERTIES,
     f"{{{RP}}}QueryEvaluationErrorFault"),
    (Reason.MESSAGE_INVALID, Operation.SET_RESOURCE_PROPERTIES,
     f"{{{RP}}}InvalidSetResourcePropertiesRequestContentFault"),
    (Reason.PROPERTY_READ_ONLY, Operation.SET_RESOURCE_PROPERTIES,
     f"{{{RP}}}UnableToModifyResourcePropertyFault"),
    (Reason.TOPIC_DIALECT, Operation.SUBSCRIBE, f"{{{WSNT}}}TopicPathDialectUnknownFault"),
    (Reason.TOPIC_INVALID, Operation.SUBSCRIBE, f"{{{WSNT}}}InvalidTopicExpressionFault"),
    (Reason.TOPIC_UNSUPPORTED, Operation.SUBSCRIBE, f"{{{WSNT}}}TopicNotSupportedFault"),
    (Reason.NO_CURRENT_MESSAGE, Operation.GET_CURRENT_MESSAGE,
     f"{{{WSNT}}}NoCurrentMessageOnTopicFault"),
    (Reason.TOPIC_INVALID, Operation.REGISTER_PUBLISHER,
     f"{{{WSBN}}}InvalidTopicExpressionFault"),
    (Reason.TOPIC_UNSUPPORTED, Operation.REGISTER_PUBLISHER, f"{{{WSBN}}}TopicNotSupportedFault"),
    (Reason.MESSAGE_INVALID, Operation.REGISTER_PUBLISHER,
     f"{{{WSBN}}}PublisherRegistrationFailedFault"),
    *(
        (reason, Operation.SUBSCRIBE, CREATION)
        for reason in (
            Reason.MESSAGE_INVALID, Reason.EPR_INVALID, Reason.CONSUMER_ADDRESS, Reason.QUOTA,
            Reason.EXPIRY_INVALID, Reason.EXPIRY_IN_THE_PAST, Reason.EXPIRY_TOO_LONG,
            Reason.PRODUCER_PROPERTIES, Reason.FILTER_DIALECT, Reason.FILTER_INVALID,
            Reason.FILTER_COSTLY, Reason.FILTER_UNKNOWN,
        )
    ),
]  # fmt: skip


@BOTH_SOAPS
@BOTH_WSAS
@for_each(("reason", "operation", "element"), FAULTS)
def test_faults_are_those_of_the_draft(
    reason: Reason,
    operation: Operation,
    element: str,
    soap: Soap,
    wsa: Wsa,
    drafts: DraftValidator,
) -> None:
    spoken = context(operation, VERSION, soap=soap, wsa=wsa)
    error = MediationError(reason, "Because.", names=("{urn:x}y",))
    _, _, octets = write_fault(error, spoken, now=NOW, message_id="urn:f")
    root = etree.fromstring(octets)
    [found] = root.iter(element)
    assert [part.tag for part in found] == [
        f"{{{names.WSRF_BF_2004_06}}}Timestamp",
        f"{{{names.WSRF_BF_2004_06}}}Description",
    ]
    assert text(octets, "//wsa:Action") == wsa.fault_action
    drafts.check(octets, wsa)


@for_each("soap", Soap)
@for_each(("reason", "operation", "element"), FAULTS)
def test_those_of_1_0_are_the_same_in_its_own_names(
    reason: Reason, operation: Operation, element: str, soap: Soap
) -> None:
    ours = {
        WSNT: names.WSN_IBM,
        RP: names.WSRF_RP_IBM,
        RL: names.WSRF_RL_IBM,
        names.WSN_BR_2004_06: names.WSN_BR_IBM,
    }
    namespace, _, local = element[1:].partition("}")
    for wsa, action in (
        (Wsa.V2005_08, names.WSA_SOAP_FAULT),
        (Wsa.V2003_03, Wsa.V2003_03.fault_action),
    ):
        spoken = context(operation, Version.WSN_1_0, soap=soap, wsa=wsa)
        error = MediationError(reason, "Because.", names=("{urn:x}y",))
        _, _, octets = write_fault(error, spoken, now=NOW, message_id="urn:f")
        [found] = etree.fromstring(octets).iter(f"{{{ours[namespace]}}}{local}")
        assert found[0].tag == f"{{{names.WSRF_BF_IBM}}}Timestamp"
        assert text(octets, "//wsa:Action") == action


@pytest.mark.parametrize("version", [VERSION, Version.WSN_1_0])
def test_every_row_is_in_the_table(version: Version) -> None:
    rows = {fault.element for fault in SPECIFICATIONS[version].faults.values()}
    named = {element.partition("}")[2] for _, _, element in FAULTS}
    assert {element.partition("}")[2] for element in rows} == named


@pytest.mark.parametrize(
    "name", ["subscribe-topic", "setterminationtime", "destroy", "getresourceproperty"]
)
def test_what_must_be_understood_is(name: str) -> None:
    """All header blocks of Globus's, the key of a subscription too."""
    demanding = stored(f"gt4-wsn-1.2-{name}").replace(b'mustUnderstand="0"', b'mustUnderstand="1"')
    assert b'mustUnderstand="1"' in demanding
    assert incoming(demanding).context.version is VERSION


# A to B to A.

_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True)
_SPACES = st.sampled_from([None, "urn:t", "http://counter.com"])
_TOPICS = st.builds(
    lambda space, head, rest: Topic((Step(space, head), *(Step(None, each) for each in rest))),
    _SPACES,
    _NAMES,
    st.lists(_NAMES, max_size=3),
)
_PAYLOADS = st.sampled_from(
    [b"<a/>", EVENT, b'<a xmlns="urn:d"><b>t:x &lt; &amp;</b></a>', "<ä>Reykjavík</ä>".encode()]
)
_PATHS = st.sampled_from([(VERSION, None), (Version.WSN_1_0, dialects.TOPIC_CONCRETE)])


@given(_TOPICS, _PAYLOADS, _PATHS, st.sampled_from(list(Soap)), st.sampled_from(list(Wsa)))
def test_there_and_back(
    topic: Topic, payload: bytes, way: tuple[Version, str | None], soap: Soap, wsa: Wsa
) -> None:
    """From 1.3 to a draft and back to 1.3 payload and topic are the same."""
    event = Notification("urn:1", "p", payload, NOW, topic=topic)
    version, dialect = way
    for speaking, asked in ((version, dialect), (Version.WSN_1_3, None), (version, dialect)):
        consumer = EndpointReference("http://c", wsa)
        recipient = prepare(
            subscription(
                speaking, soap=soap, wsa=wsa, consumer=consumer, policy=Policy(dialect=asked)
            )
        )
        octets = render(event, recipient.shape, "http://g").fill(recipient, "urn:m")
        [event] = events(octets)
        assert event.topic == topic
        assert canonical(event.payload) == canonical(payload)
        received = read_received(octets)
        assert isinstance(received, tuple)
        [one] = received
        assert (one.topic, canonical(one.payload)) == (topic, canonical(payload))
