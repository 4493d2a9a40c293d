"""ONVIF's event service: requests and answers."""

import re
from datetime import timedelta

import pytest
from lxml import etree

from filters import EVERYTHING, Filter, FilterSet, Reason, Topic, compile
from filters.dialects import ITEM_FILTER, TOPIC_CONCRETE_SET, XPATH_1_0
from mediation.faults import write_fault
from mediation.filtering import CHANGED_ONLY
from mediation.mailboxes.kept import MAX_MOST
from mediation.model.errors import MediationError
from mediation.model.expiry import NEVER, UNSPECIFIED
from mediation.model.messages import Lease
from mediation.model.requests import (
    DescribeEvents,
    Done,
    Events,
    Operation,
    Response,
    Subscribed,
    SubscribePulling,
    Synchronize,
    Take,
    Taken,
)
from mediation.model.versions import Soap, Version, Wsa
from mediation.notification.onvif import MAX_WAIT
from mediation.rendering import filter_event_of
from mediation.responses import write_response
from tests.rigs.mediation import (
    CONCRETE,
    FULL,
    NOW,
    WSNT,
    body,
    context,
    envelope,
    events,
    headers,
    incoming,
    part,
    parts,
    refused,
    subscription,
    text,
    topic,
)
from tests.rigs.schemas import Validator

TEV = "http://www.onvif.org/ver10/events/wsdl"
EVENTS, PULLS = f"{TEV}/EventPortType", f"{TEV}/PullPointSubscription"
TNS1 = "http://www.onvif.org/ver10/topics"
TT = "http://www.onvif.org/ver10/schema"
MOTION = topic(f"{{{TNS1}}}VideoSource/MotionAlarm")
FILTER = (
    f'<tev:Filter><wsnt:TopicExpression xmlns:tns1="{TNS1}" Dialect="{TOPIC_CONCRETE_SET}">'
    "tns1:RuleEngine//.|tns1:VideoSource/MotionAlarm</wsnt:TopicExpression></tev:Filter>"
)
TIME = "<tev:InitialTerminationTime>PT600S</tev:InitialTerminationTime>"
NIL = '<tev:InitialTerminationTime xsi:nil="true"/>'
CHANGED = "<tev:SubscriptionPolicy><tev:ChangedOnly/></tev:SubscriptionPolicy>"


def request(name: str, inner: str = "", headers: str = "") -> bytes:
    return envelope(f'<tev:{name} xmlns:tev="{TEV}">{inner}</tev:{name}>', headers)


def pulling(inner: str) -> SubscribePulling:
    read = incoming(request("CreatePullPointSubscription", inner))
    assert read.context.operation is Operation.CREATE_PULL_POINT_SUBSCRIPTION
    assert isinstance(read.request, SubscribePulling)
    return read.request


def matches(filter_: Filter, payload: str, on: Topic = MOTION) -> bool:
    notify = (
        f'<wsnt:Notify xmlns:v="{on.steps[0].namespace}"><wsnt:NotificationMessage>'
        f'<wsnt:Topic Dialect="{CONCRETE}">v:{"/".join(step.name for step in on.steps)}'
        f"</wsnt:Topic><wsnt:Message>{payload}</wsnt:Message></wsnt:NotificationMessage>"
        "</wsnt:Notify>"
    )
    (one,) = events(envelope(notify))
    filters: FilterSet[int] = FilterSet()
    filters.add(1, filter_)
    return bool(filters.match(filter_event_of(one)))


# Requests.


@pytest.mark.parametrize("inner", [FILTER + TIME + CHANGED, CHANGED + TIME + FILTER])
def test_children_in_any_order(inner: str) -> None:
    read = pulling(inner)
    assert read.expires.duration is not None
    assert read.expires.duration.seconds == timedelta(minutes=10)
    assert [expression.text for expression in read.filter.topics] == [
        "tns1:RuleEngine//.|tns1:VideoSource/MotionAlarm"
    ]
    assert read.filter.contents == (CHANGED_ONLY,)
    assert read.dialect == TOPIC_CONCRETE_SET


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("", SubscribePulling(EVERYTHING, UNSPECIFIED, TOPIC_CONCRETE_SET)),
        (NIL, SubscribePulling(EVERYTHING, NEVER, TOPIC_CONCRETE_SET)),
        ("<tev:Filter/><tev:SubscriptionPolicy/><x/>",
         SubscribePulling(EVERYTHING, UNSPECIFIED, TOPIC_CONCRETE_SET)),
    ],
)  # fmt: skip
def test_the_least(inner: str, expected: SubscribePulling) -> None:
    assert pulling(inner) == expected


@pytest.mark.parametrize(
    ("said", "dialect"),
    [("", TOPIC_CONCRETE_SET), (f'Dialect="{FULL}"', FULL), (f'dialect=" {CONCRETE} "', CONCRETE)],
)
def test_the_dialect_of_topics(said: str, dialect: str) -> None:
    content = f'<wsnt:MessageContent Dialect="{XPATH_1_0}">a</wsnt:MessageContent>'
    topic = f"<wsnt:TopicExpression {said}>a</wsnt:TopicExpression>"
    inner = f"<tev:Filter>{content}{topic}</tev:Filter>"
    assert pulling(inner).dialect == dialect


def test_children_in_the_namespace_of_ws_notification() -> None:
    inner = (
        (FILTER + TIME + CHANGED).replace("tev:", "wsnt:").replace("wsnt:Changed", "tev:Changed")
    )
    assert pulling(inner) == pulling(FILTER + TIME + CHANGED)


def test_item_filters_match() -> None:
    def filtering(text: str, dialect: str) -> Filter:
        return pulling(
            f'<tev:Filter><wsnt:MessageContent xmlns:tt="{TT}" Dialect="{dialect}">{text}'
            "</wsnt:MessageContent></tev:Filter>"
        ).filter

    text = (
        "boolean(//tt:SimpleItem[@Name=&quot;State&quot; and @Value=&quot;true&quot;]) and "
        "not(boolean(//tt:SimpleItem[@Name=&quot;Source&quot; and @Value=&quot;1&quot;]))"
    )
    filter_ = filtering(text, ITEM_FILTER)
    assert filter_ == filtering(text, XPATH_1_0)

    def message(source: int, state: str) -> str:
        return (
            f'<tt:Message xmlns:tt="{TT}"><tt:SimpleItem Name="Source" Value="{source}"/>'
            f'<tt:SimpleItem Name="State" Value="{state}"/></tt:Message>'
        )

    found = [matches(filter_, message(*one)) for one in ((0, "true"), (1, "true"), (0, "false"))]
    assert found == [True, False, False]


def test_changed_only() -> None:
    filter_ = pulling(CHANGED).filter
    sent = {
        operation: f'<tt:Message xmlns:tt="{TT}" PropertyOperation="{operation}"/>'
        for operation in ("Initialized", "Changed", "Deleted")
    }
    assert [matches(filter_, payload) for payload in sent.values()] == [False, True, False]


@pytest.mark.parametrize(
    ("inner", "reason", "names"),
    [
        ("<tev:SubscriptionPolicy><x/></tev:SubscriptionPolicy>", Reason.POLICY_UNRECOGNIZED,
         ("x",)),
        ("<tev:SubscriptionPolicy><wsnt:UseRaw/></tev:SubscriptionPolicy>",
         Reason.POLICY_UNSUPPORTED, (f"{{{WSNT}}}UseRaw",)),
        ("<tev:Filter><x/></tev:Filter>", Reason.FILTER_UNKNOWN, ("x",)),
        ("<tev:InitialTerminationTime/>", Reason.EXPIRY_INVALID, ()),
        ("<tev:InitialTerminationTime>soon</tev:InitialTerminationTime>", Reason.EXPIRY_INVALID, ()),
    ],
)  # fmt: skip
def test_what_is_refused(inner: str, reason: Reason, names: tuple[str, ...]) -> None:
    rejected = refused(request("CreatePullPointSubscription", inner))
    assert (rejected.refused.reason, rejected.refused.names) == (reason, names)
    assert rejected.context.operation is Operation.CREATE_PULL_POINT_SUBSCRIPTION
    assert rejected.context.version is Version.WSN_1_3


def pull(timeout: str | None, limit: str | None) -> bytes:
    said = "" if timeout is None else f"<tev:Timeout>{timeout}</tev:Timeout>"
    said += "" if limit is None else f"<tev:MessageLimit>{limit}</tev:MessageLimit>"
    return request("PullMessages", said)


@pytest.mark.parametrize(
    ("timeout", "limit", "expected"),
    [
        ("PT60S", "100", Take(100, 60.0)),
        (" PT1M ", " 1 ", Take(1, 60.0)),
        ("PT0.25S", "2", Take(2, 0.25)),
        ("PT0S", "2147483647", Take(MAX_MOST, 0.0)),
        ("PT5M", None, Take(None, 300.0)),
        ("P1D", "0", Take(None, MAX_WAIT)),
        ("P1M", "", Take(None, MAX_WAIT)),
        ("P99999999999999999999Y", None, Take(None, MAX_WAIT)),
        (None, None, Take(None, 0.0)),
        ("", None, Take(None, 0.0)),
    ],
)
def test_a_pull(timeout: str | None, limit: str | None, expected: Take) -> None:
    assert incoming(pull(timeout, limit)).request == expected


def test_a_pull_waits_for_a_minute_at_least_and_not_for_ever() -> None:
    assert 60 <= MAX_WAIT <= 300


@pytest.mark.parametrize(
    ("timeout", "limit"), [("60", "1"), ("-PT1S", "1"), ("PT1S", "-1"), ("PT1S", "all")]
)
def test_what_is_no_pull(timeout: str, limit: str) -> None:
    assert refused(pull(timeout, limit)).refused.reason is Reason.MESSAGE_INVALID


@pytest.mark.parametrize(
    ("port", "name", "expected"),
    [
        (EVENTS, "CreatePullPointSubscription",
         SubscribePulling(EVERYTHING, UNSPECIFIED, TOPIC_CONCRETE_SET)),
        (EVENTS, "GetServiceCapabilities", DescribeEvents()),
        (EVENTS, "GetEventProperties", DescribeEvents()),
        (PULLS, "PullMessages", Take()),
        (PULLS, "SetSynchronizationPoint", Synchronize()),
    ],
)  # fmt: skip
def test_a_body_or_an_action(port: str, name: str, expected: object) -> None:
    assert incoming(request(name)).request == expected
    read = incoming(envelope("", f"<wsa:Action>{port}/{name}Request</wsa:Action>"))
    assert (read.request, read.context.operation) == (expected, Operation(name))


@pytest.mark.parametrize("name", ["AddEventBroker", "PullMessagesResponse", "Subscribe"])
def test_what_is_not_offered(name: str) -> None:
    assert refused(request(name)).refused.reason is Reason.ACTION_UNSUPPORTED


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("wsa", [None, Wsa.V2005_08])
def test_seek(soap: Soap, wsa: Wsa | None, validator: Validator) -> None:
    rejected = refused(request("Seek", "<tev:UtcTime>2026-01-31T10:00:00Z</tev:UtcTime>"))
    asked = context(Operation.SEEK, soap=soap, wsa=wsa)
    assert isinstance(rejected.refused, MediationError)
    status, _, octets = write_fault(rejected.refused, asked, now=NOW, message_id="urn:m")
    validator.check(octets)
    assert (status, rejected.context.operation) == (500, Operation.SEEK)
    if soap is Soap.V1_2:
        assert text(octets, "//s:Code/s:Value") == "s:Receiver"
    code = part(octets, "//s:Subcode/s:Value" if soap is Soap.V1_2 else "//faultcode")
    prefix, _, name = (code.text or "").partition(":")
    assert (code.nsmap[prefix], name) == ("http://www.onvif.org/ver10/error", "ActionNotSupported")
    if wsa is not None:
        assert text(octets, "//wsa:Action") == f"{wsa.value}/soap/fault"


# Answers.


def answer(response: Response, operation: Operation, **peer: object) -> tuple[str, bytes]:
    return write_response(response, context(operation, **peer), message_id="urn:m")  # type: ignore[arg-type]


NOTIFY = envelope(
    f'<wsnt:Notify xmlns:tns1="{TNS1}"><wsnt:NotificationMessage>'
    f'<wsnt:Topic Dialect="{TOPIC_CONCRETE_SET}">tns1:VideoSource/MotionAlarm</wsnt:Topic>'
    f'<wsnt:Message><tt:Message xmlns:tt="{TT}"/></wsnt:Message></wsnt:NotificationMessage>'
    "</wsnt:Notify>"
)
SEEN = Events(
    (MOTION, topic(f"{{{TNS1}}}RuleEngine/CellMotionDetector/Motion")),
    (TOPIC_CONCRETE_SET, CONCRETE),
    20,
    timedelta(hours=1),
)


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize(
    ("response", "operation", "action", "children"),
    [
        (Subscribed(subscription(), NOW), Operation.CREATE_PULL_POINT_SUBSCRIPTION, EVENTS,
         ["SubscriptionReference", "CurrentTime", "TerminationTime"]),
        (Taken((), False, NOW, NOW), Operation.PULL_MESSAGES, PULLS,
         ["CurrentTime", "TerminationTime"]),
        (Taken((NOTIFY, NOTIFY), True, NOW, NOW), Operation.PULL_MESSAGES, PULLS,
         ["CurrentTime", "TerminationTime", "NotificationMessage", "NotificationMessage"]),
        (Done(), Operation.SET_SYNCHRONIZATION_POINT, PULLS, []),
        (SEEN, Operation.GET_SERVICE_CAPABILITIES, EVENTS, ["Capabilities"]),
        (SEEN, Operation.GET_EVENT_PROPERTIES, EVENTS,
         ["TopicNamespaceLocation", "FixedTopicSet", "TopicSet", "TopicExpressionDialect",
          "TopicExpressionDialect", "MessageContentFilterDialect", "MessageContentFilterDialect",
          "ProducerPropertiesFilterDialect", "MessageContentSchemaLocation"]),
    ],
)  # fmt: skip
def test_answers(
    response: Response,
    operation: Operation,
    action: str,
    children: list[str],
    soap: Soap,
    validator: Validator,
) -> None:
    written, octets = answer(response, operation, soap=soap)
    assert written == text(octets, "//wsa:Action") == f"{action}/{operation.value}Response"
    assert text(octets, "//wsa:RelatesTo") == "urn:uuid:request"
    (element,) = body(octets)
    assert element.tag == f"{{{TEV}}}{operation.value}Response"
    assert [etree.QName(child).localname for child in element] == children
    validator.check(octets)


def test_the_validator_knows_them(each_validator: Validator) -> None:
    with pytest.raises(AssertionError):
        each_validator.check(request("PullMessagesResponse"))


def test_times() -> None:
    pulled = Taken((), False, NOW, NOW + timedelta(minutes=10))
    _, octets = answer(pulled, Operation.PULL_MESSAGES)
    assert [child.text for child in body(octets)[0]] == [
        "2026-01-31T10:00:00Z", "2026-01-31T10:10:00Z",
    ]  # fmt: skip
    assert {etree.QName(child).namespace for child in body(octets)[0]} == {TEV}
    one = subscription(lease=Lease(NOW, NOW + timedelta(minutes=10)))
    _, octets = answer(Subscribed(one, NOW), Operation.CREATE_PULL_POINT_SUBSCRIPTION)
    assert text(octets, "//wsnt:CurrentTime") == "2026-01-31T10:00:00Z"
    assert text(octets, "//wsnt:TerminationTime") == "2026-01-31T10:10:00Z"


def test_what_never_ends_has_a_time(validator: Validator) -> None:
    """Neither element may be nil, or is read where it is."""
    never = Subscribed(subscription(lease=Lease(NOW, None)), NOW)
    for response, operation in (
        (Taken((), False, NOW), Operation.PULL_MESSAGES),
        (never, Operation.CREATE_PULL_POINT_SUBSCRIPTION),
    ):
        _, octets = answer(response, operation)
        validator.check(octets)
        time = next(etree.fromstring(octets).iter("{*}TerminationTime"))
        assert time.text == "9999-12-31T23:59:59Z"


@pytest.mark.parametrize("wsa", [None, *Wsa])
def test_what_clients_search_for(wsa: Wsa | None) -> None:
    """OpenHAB looks for ``SubscriptionReference>``, behind it for ``Address>``, and reads up to
    the next tag; Reolink's clients take the first ``wsa:Address``, wherever it is."""
    one = subscription()
    _, octets = answer(Subscribed(one, NOW), Operation.CREATE_PULL_POINT_SUBSCRIPTION, wsa=wsa)
    answered = octets.decode()
    behind = answered.split("SubscriptionReference>")[1].split("Address>")[1]
    assert behind[: behind.index("<")] == one.manager
    (first, *others) = etree.fromstring(octets).iter("{*}Address")
    assert (first.text, others) == (one.manager, [])
    assert etree.QName(first).namespace == Wsa.V2005_08.value
    assert bool(headers(octets)) is (wsa is not None)


def test_what_openhab_reads_of_a_message() -> None:
    _, octets = answer(Taken((NOTIFY,), False, NOW, NOW), Operation.PULL_MESSAGES)
    behind = octets.decode().split("Topic", 1)[1].split("tns1:", 1)[1]
    assert behind[: behind.index("<")] == "VideoSource/MotionAlarm"


def test_what_openhab_looks_for_before_it_subscribes() -> None:
    for soap in Soap:
        _, octets = answer(SEEN, Operation.GET_SERVICE_CAPABILITIES, soap=soap, wsa=None)
        assert b"GetServiceCapabilitiesResponse" in octets
        assert b'WSSubscriptionPolicySupport="true"' in octets


def test_capabilities() -> None:
    _, octets = answer(SEEN, Operation.GET_SERVICE_CAPABILITIES)
    ((capabilities,),) = body(octets)
    assert {str(name): str(value) for name, value in capabilities.attrib.items()} == {
        "WSSubscriptionPolicySupport": "true",
        "WSPausableSubscriptionManagerInterfaceSupport": "true",
        "MaxPullPoints": "20",
        "PersistentNotificationStorage": "false",
    }


def test_properties() -> None:
    _, octets = answer(SEEN, Operation.GET_EVENT_PROPERTIES)
    assert text(octets, "//wsnt:FixedTopicSet") == "false"
    assert [dialect.text for dialect in parts(octets, "//wsnt:TopicExpressionDialect")] == [
        TOPIC_CONCRETE_SET,
        CONCRETE,
    ]
    found = {
        re.sub(r"\{[^}]*\}", "", "/".join(str(step.tag) for step in (*reversed(above), leaf)))
        for leaf in parts(octets, "//wstop:TopicSet//*[@wstop:topic='true']")
        for above in [list(leaf.iterancestors())[:-4]]
    }
    assert found == {"VideoSource/MotionAlarm", "RuleEngine/CellMotionDetector/Motion"}
    offered = [
        element.text
        for element in body(octets)[0]
        if etree.QName(element).localname == "MessageContentFilterDialect"
    ]
    assert offered == [ITEM_FILTER, XPATH_1_0]
    for dialect in offered:  # What is offered is taken.
        content = f'<wsnt:MessageContent Dialect="{dialect}">boolean(//a)</wsnt:MessageContent>'
        compile(pulling(f"<tev:Filter>{content}</tev:Filter>").filter)
