"""The other side: what we write as subscriber and publisher is read as meant, and is valid; what
producers answer and send is read, whoever they are."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest
from lxml import etree

from filters import Reason, Refused, dialects
from filters.dialects import XPATH_1_0
from mediation import names
from mediation.client import (
    SPECS,
    AnsweredFault,
    Ended,
    Granted,
    Received,
    expiry_text,
    read_answer,
    read_granted,
    read_received,
    write_destroy,
    write_get_current_message,
    write_get_resource_property,
    write_get_status,
    write_pause,
    write_publish,
    write_renew,
    write_resume,
    write_set_termination_time,
    write_subscribe,
    write_unsubscribe,
)
from mediation.faults import write_fault
from mediation.model.errors import MediationError
from mediation.model.expiry import NEVER, Duration, parse_expiry
from mediation.model.messages import End, EndpointReference, Notification, Policy
from mediation.model.requests import (
    Destroy,
    Done,
    GetCurrentMessage,
    GetProperties,
    GetStatus,
    Incoming,
    Operation,
    Pause,
    Renew,
    Resume,
    SetTerminationTime,
    Subscribe,
    Subscribed,
    TerminationTime,
    Unsubscribe,
)
from mediation.model.versions import Soap, Spec, Version, Wsa
from mediation.rendering import delivery_id, prepare, render, shape_of, write_subscription_end
from mediation.responses import write_response
from tests.rigs.cases import for_each
from tests.rigs.mediation import (
    NOW,
    WSE,
    WSNT,
    WSRF_RL,
    canonical,
    clark,
    context,
    envelope,
    events,
    headers,
    incoming,
    parts,
    stored,
    subscription,
    text,
    topic,
)
from tests.rigs.schemas import Validator

TO = "http://gateway.example.org/soap"
WSE_VERSION, WSN_VERSION = Version.WSE_2004_08, Version.WSN_1_3
WSE11_VERSION = Version.WSE_2011_03
EVENTING = (WSE_VERSION, WSE11_VERSION)
FINAL_ADDRESSING = (WSE11_VERSION, WSN_VERSION)
"""Versions whose schemas have references of WS-Addressing 1.0 alone."""
DRAFTS = {Version.WSN_1_2: names.WSRF_RL_2004_06, Version.WSN_1_0: names.WSRF_RL_IBM}
"""The namespaces of their WS-ResourceLifetime."""
EVERY_SPEC = [
    Spec(version, soap, wsa) for version in SPECS for soap in Soap for wsa in (None, *Wsa)
]
CONSUMER = EndpointReference(
    "http://sink.example.com/?a&b", Wsa.V2005_08, (), (b'<k:Key xmlns:k="urn:k">1</k:Key>',)
)
MANAGER = EndpointReference(
    "http://gateway.example.org/subscriptions/k",
    Wsa.V2005_08,
    (),
    (f'<wse:Identifier xmlns:wse="{WSE}">urn:uuid:k</wse:Identifier>'.encode(),),
)


def check(validator: Validator, octets: bytes) -> Incoming:
    # The schema of wse:Identifier allows no attribute, which WS-Addressing 1.0 asks for.
    mark = rb' xmlns:wsa="[^"]*" wsa:IsReferenceParameter="true"'
    validator.check(re.sub(mark, b"", octets))
    return incoming(octets)


def bare(epr: EndpointReference | None) -> EndpointReference | None:
    """*epr* without what was in scope around its parameters."""
    if epr is None:
        return None
    return replace(
        epr,
        properties=tuple(map(canonical, epr.properties)),
        parameters=tuple(map(canonical, epr.parameters)),
    )


def valid_for(spec: Spec) -> EndpointReference:
    """A consumer in the version of references that the schema of *spec* has."""
    if spec.version in DRAFTS:
        return EndpointReference(CONSUMER.address, Wsa.V2004_03, CONSUMER.parameters)
    wsa = Wsa.V2005_08 if spec.version in FINAL_ADDRESSING else spec.wsa or Wsa.V2004_08
    if wsa in (Wsa.V2003_03, Wsa.V2004_03):
        wsa = Wsa.V2004_08
    return EndpointReference(CONSUMER.address, wsa, (), CONSUMER.parameters)


@pytest.mark.parametrize("spec", EVERY_SPEC, ids=str)
def test_subscribe(spec: Spec, validator: Validator) -> None:
    consumer = valid_for(spec)
    expires = expiry_text(spec, timedelta(hours=1), NOW)
    action, octets = write_subscribe(
        spec, to=TO, consumer=consumer, message_id="urn:m", expires=expires, end_to=consumer
    )
    read = check(validator, octets)
    assert (read.context.version, read.context.soap, read.context.wsa) == (
        spec.version,
        spec.soap,
        spec.wsa,
    )
    assert isinstance(read.request, Subscribe)
    assert bare(read.request.consumer) == consumer
    assert read.request.expires.at(NOW) == NOW + timedelta(hours=1)
    assert (read.request.expires.duration is None) is (spec.version in DRAFTS)
    wse = spec.version in EVENTING
    assert bare(read.request.end_to) == (consumer if wse else None)
    assert read.request.expires.best_effort is (spec.version is WSE11_VERSION)
    if spec.wsa is not None:
        assert read.context.headers.action == action
        assert (read.context.headers.to, read.context.headers.message_id) == (TO, "urn:m")
        assert read.context.headers.reply_to == EndpointReference(spec.wsa.anonymous, spec.wsa)


SCOPE = {"w": "urn:w", "wsnt": "urn:mine", "wse": "urn:too", "t0": "urn:t0"}


@pytest.mark.parametrize("version", SPECS)
@pytest.mark.parametrize(
    ("asked", "meant", "dialect"),
    [
        ("storms", "storms", dialects.TOPIC_SIMPLE),
        ("storms/tropical", "storms/tropical", dialects.TOPIC_CONCRETE),
        ("w:storms/tropical", "{urn:w}storms/tropical", dialects.TOPIC_CONCRETE),
        ("{urn:w}storms", "{urn:w}storms", dialects.TOPIC_SIMPLE),
        ("{urn:new}a/{urn:t0}b", "{urn:new}a/{urn:t0}b", dialects.TOPIC_CONCRETE),
        ("{urn:new}a//.", None, dialects.TOPIC_FULL),
        ("w:a/*", None, dialects.TOPIC_FULL),
        ("a|b", None, dialects.TOPIC_FULL),
    ],
)
@pytest.mark.parametrize("xpath", [None, "/w:W > 1 and /w:W != '&<'"])
def test_filters(
    version: Version,
    asked: str,
    meant: str | None,
    dialect: str,
    xpath: str | None,
    validator: Validator,
) -> None:
    spec = SPECS[version]
    _, octets = write_subscribe(
        spec, to=TO, consumer=valid_for(spec), message_id="urn:m", topic=asked, xpath=xpath,
        namespaces=SCOPE,
    )  # fmt: skip
    request = check(validator, octets).request
    assert isinstance(request, Subscribe)
    (expression,) = request.filter.topics
    if version is Version.WSN_1_0 and dialect == dialects.TOPIC_SIMPLE:
        # IBM's does not look at namespaces.
        blind, path = dialects.TOPIC_IBM_SIMPLE, dialects.TOPIC_CONCRETE
        dialect = blind if asked == "storms" else path
    assert expression.dialect == dialect
    scope = dict(expression.namespaces)
    for prefix, uri in SCOPE.items():
        assert scope[prefix] == uri
    if meant is not None:
        _, asking = write_get_current_message(
            SPECS[WSN_VERSION], to=TO, topic=meant, message_id="urn:m"
        )
        wanted = check(validator, asking).request
        assert isinstance(wanted, GetCurrentMessage) and clark(wanted.topic) == meant
        steps = [step.partition(":") for step in expression.text.split("/")]
        expanded = [
            f"{{{scope[prefix]}}}{name}" if colon else prefix for prefix, colon, name in steps
        ]
        assert "/".join(expanded) == meant
    contents = [(content.text, content.dialect) for content in request.filter.contents]
    assert contents == ([(xpath, XPATH_1_0)] if xpath else [])


def test_raw_and_content_alone(validator: Validator) -> None:
    spec = SPECS[WSN_VERSION]
    _, octets = write_subscribe(
        spec, to=TO, consumer=CONSUMER, message_id="urn:m", xpath="//a", raw=True
    )
    request = check(validator, octets).request
    assert isinstance(request, Subscribe) and request.raw and not request.filter.topics
    spec = SPECS[WSE_VERSION]
    _, octets = write_subscribe(
        spec, to=TO, consumer=valid_for(spec), message_id="urn:m", xpath="//w:a",
        namespaces={"w": "urn:w"},
    )  # fmt: skip
    request = check(validator, octets).request
    assert (
        isinstance(request, Subscribe) and ("w", "urn:w") in request.filter.contents[0].namespaces
    )


ACTIONS = ("http://example.org/device/Alarm", "urn:a?b&c")


@pytest.mark.parametrize("version", EVENTING)
def test_a_filter_of_actions(version: Version, validator: Validator) -> None:
    spec = SPECS[version]
    _, octets = write_subscribe(
        spec, to=TO, consumer=valid_for(spec), message_id="urn:m", actions=ACTIONS
    )
    request = check(validator, octets).request
    assert isinstance(request, Subscribe) and not request.filter.topics
    [expression] = request.filter.expressions
    assert expression.text.split() == list(ACTIONS)
    for path, xpath in (("a", None), (None, "/a")):
        with pytest.raises(MediationError, match="goes with no topic and no XPath"):
            write_subscribe(
                spec, to=TO, consumer=CONSUMER, message_id="urn:m", actions=ACTIONS, topic=path,
                xpath=xpath,
            )  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "dialect"),
    [
        pytest.param(
            Spec(Version.WSE_2004_08, Soap.V1_2, Wsa.V2004_08),
            dialects.ACTION_DPWS_1_0,
            id="DPWS 1.0",
        ),
        pytest.param(
            Spec(Version.WSE_2004_08, Soap.V1_2, Wsa.V2005_08),
            dialects.ACTION_DPWS_1_1,
            id="DPWS 1.1",
        ),
        pytest.param(
            Spec(Version.WSE_2004_08, Soap.V1_1, None),
            dialects.ACTION_DPWS_1_1,
            id="without addressing",
        ),
        pytest.param(SPECS[Version.WSE_2011_03], dialects.ACTION_DPWS_1_1, id="2011/03"),
    ],
)
def test_a_filter_of_actions_is_of_the_dpws_of_its_addressing(
    spec: Spec, dialect: str, validator: Validator
) -> None:
    _, octets = write_subscribe(
        spec, to=TO, consumer=valid_for(spec), message_id="urn:m", actions=ACTIONS
    )
    request = check(validator, octets).request
    assert isinstance(request, Subscribe)
    assert [one.dialect for one in request.filter.expressions] == [dialect]


@pytest.mark.parametrize("version", [version for version in SPECS if version not in EVENTING])
def test_a_filter_of_actions_is_one_of_eventing_alone(version: Version) -> None:
    with pytest.raises(MediationError) as refused:
        write_subscribe(
            SPECS[version], to=TO, consumer=CONSUMER, message_id="urn:m", actions=ACTIONS
        )
    assert refused.value.reason is Reason.FILTER_DIALECT


HOUR = Duration(0, timedelta(hours=1))
AT = "2027-01-01T00:00:00Z"


def test_durations_are_no_times_of_the_drafts() -> None:
    for version in DRAFTS:
        spec = SPECS[version]
        with pytest.raises(MediationError, match="takes a dateTime"):
            write_subscribe(spec, to=TO, consumer=CONSUMER, message_id="urn:m", expires="PT1H")
        with pytest.raises(MediationError, match="takes a dateTime"):
            write_renew(spec, MANAGER, "PT1H", message_id="urn:m")


@pytest.mark.parametrize("spec", [spec for spec in EVERY_SPEC if spec.version in DRAFTS], ids=str)
def test_requests_to_the_manager_of_a_draft(spec: Spec, validator: Validator) -> None:
    time = f"{{{DRAFTS[spec.version]}}}TerminationTime"
    at = SetTerminationTime(parse_expiry(AT))
    own = spec.version is Version.WSN_1_0
    written: list[tuple[tuple[str, bytes], object]] = [
        (write_unsubscribe(spec, MANAGER, message_id="urn:m"), Unsubscribe() if own else Destroy()),
        (write_destroy(spec, MANAGER, message_id="urn:m"), Destroy()),
        (write_renew(spec, MANAGER, AT, message_id="urn:m"), at),
        (write_set_termination_time(spec, MANAGER, AT, message_id="urn:m"), at),
        (write_renew(spec, MANAGER, None, message_id="urn:m"), SetTerminationTime(NEVER)),
        (write_get_status(spec, MANAGER, message_id="urn:m"), GetProperties((time,))),
        (write_get_resource_property(spec, MANAGER, time, message_id="m"), GetProperties((time,))),
        (write_pause(spec, MANAGER, message_id="urn:m"), Pause()),
        (write_resume(spec, MANAGER, message_id="urn:m"), Resume()),
    ]
    for (action, octets), meant in written:
        read = check(validator, octets)
        assert read.request == meant
        if spec.wsa is not None:
            assert read.context.headers.action == action
            assert read.named.identifiers == ("urn:uuid:k",)


@pytest.mark.parametrize(
    "spec", [spec for spec in EVERY_SPEC if spec.version not in DRAFTS], ids=str
)
def test_requests_to_the_manager(spec: Spec, validator: Validator) -> None:
    written: list[tuple[tuple[str, bytes], object]] = [
        (write_unsubscribe(spec, MANAGER, message_id="urn:m"), Unsubscribe()),
        (write_renew(spec, MANAGER, "PT1H", message_id="urn:m"), HOUR),
    ]
    if spec.version in EVENTING:
        written += [
            (write_get_status(spec, MANAGER, message_id="urn:m"), GetStatus()),
            (write_renew(spec, MANAGER, None, message_id="urn:m"), Renew()),
        ]
    else:
        time = f"{{{WSRF_RL}}}TerminationTime"
        at = "2027-01-01T00:00:00Z"
        written += [
            (write_get_status(spec, MANAGER, message_id="urn:m"), GetProperties((time,))),
            (write_renew(spec, MANAGER, None, message_id="urn:m"), Renew(NEVER)),
            (write_pause(spec, MANAGER, message_id="urn:m"), Pause()),
            (write_resume(spec, MANAGER, message_id="urn:m"), Resume()),
            (write_destroy(spec, MANAGER, message_id="urn:m"), Destroy()),
            (
                write_get_resource_property(spec, MANAGER, f"{{{WSNT}}}Filter", message_id="urn:m"),
                GetProperties((f"{{{WSNT}}}Filter",)),
            ),
            (write_set_termination_time(spec, MANAGER, "PT1H", message_id="urn:m"), HOUR),
            (write_set_termination_time(spec, MANAGER, at, message_id="urn:m"), at),
            (
                write_set_termination_time(spec, MANAGER, None, message_id="urn:m"),
                SetTerminationTime(NEVER),
            ),
        ]
    for (action, octets), meant in written:
        read = check(validator, octets)
        if meant is HOUR:
            assert cast(Renew, read.request).expires.duration == HOUR
        elif isinstance(meant, str):
            assert cast(SetTerminationTime, read.request).expires.instant is not None
        else:
            assert read.request == meant
        if spec.wsa is None:
            assert headers(octets) == []
            continue
        assert read.context.headers.action == action
        assert read.named.to == MANAGER.address
        assert read.named.identifiers == ("urn:uuid:k",)


@pytest.mark.parametrize("spec", EVERY_SPEC, ids=str)
@for_each("name", [None, "storms", "{urn:w}storms/tropical"])
def test_publish(spec: Spec, name: str | None, validator: Validator) -> None:
    payload = b'<?xml version="1.0"?>\n<!-- c --><W xmlns="urn:w" k="q:x" xmlns:q="urn:q"/>\n'
    action, octets = write_publish(
        spec, to=TO, payload=payload, message_id="urn:m", topic=name, producer=CONSUMER
    )
    validator.check(octets)
    (event,) = events(octets)
    blind = spec.version in DRAFTS and name is None
    assert clark(event.topic) == ("wseTopic" if blind else name)
    assert canonical(event.payload) == canonical(etree.fromstring(payload))
    if spec.wsa is not None:
        assert event.id == "urn:m"
        assert parts(octets, "//wsa:ReplyTo") == []
    if spec.version is WSE_VERSION:
        assert action == "urn:w/W"
        assert event.action == ("urn:w/W" if spec.wsa else None)
    elif spec.version is WSE11_VERSION:
        assert action.endswith("/WrappedSinkPortType/NotifyEvent") and event.action == "urn:w/W"
    else:
        assert bare(event.producer) == CONSUMER


def test_publish_with_an_action() -> None:
    action, _ = write_publish(
        SPECS[WSE_VERSION], to=TO, payload=b"<a/>", message_id="m", action="urn:own"
    )
    assert action == "urn:own"
    nameless, _ = write_publish(SPECS[WSE_VERSION], to=TO, payload=b"<a/>", message_id="m")
    assert nameless == "urn:dragoman:event:a"


@pytest.mark.parametrize("payload", [b"", b"text", b"<a>", b"<!DOCTYPE a><a/>", b"<a/><b/>"])
def test_what_cannot_be_published(payload: bytes) -> None:
    with pytest.raises(Refused):
        write_publish(SPECS[WSN_VERSION], to=TO, payload=payload, message_id="m")


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("wsa", [Wsa.V2004_08, Wsa.V2005_08])
def test_our_own_answers(soap: Soap, wsa: Wsa) -> None:
    for version, expires, current in (
        (WSE_VERSION, "PT1H", None),
        (WSE11_VERSION, "PT1H", None),
        (WSN_VERSION, "2026-01-31T11:00:00Z", "2026-01-31T10:00:00Z"),
    ):
        granted = subscription(version, soap=soap, wsa=wsa)
        for operation in (Operation.SUBSCRIBE, Operation.RENEW, Operation.GET_STATUS):
            spoken = context(operation, version, soap=soap, wsa=wsa)
            _, octets = write_response(Subscribed(granted, NOW), spoken, message_id="urn:m")
            answer = read_granted(octets)
            assert (answer.expires, answer.current_time) == (expires, current)
            if operation is Operation.SUBSCRIBE:
                assert answer.manager is not None
                assert answer.manager.address == granted.manager
                assert len(answer.manager.parameters) == (version in EVENTING)
            else:
                assert answer.manager is None
            read_answer(octets)
    spoken = context(Operation.SET_TERMINATION_TIME, soap=soap, wsa=wsa)
    _, octets = write_response(TerminationTime(None, NOW), spoken, message_id="urn:m")
    assert read_granted(octets) == Granted(None, None, "2026-01-31T10:00:00Z")
    spoken = context(Operation.UNSUBSCRIBE, WSE_VERSION, soap=soap, wsa=wsa)
    _, octets = write_response(Done(), spoken, message_id="urn:m")
    assert read_granted(octets) == Granted(None, None)


@pytest.mark.parametrize(
    ("inner", "granted"),
    [
        pytest.param(
            "<wse:SubscribeResponse><wse:Expires> 2026-01-31T11:00:00.000Z </wse:Expires>"
            "<wse:SubscriptionManager><wsa:Address> http://m </wsa:Address></wse:SubscriptionManager>"
            "</wse:SubscribeResponse>",
            Granted(EndpointReference("http://m", Wsa.V2005_08), "2026-01-31T11:00:00.000Z"),
            id="WS-Messenger: the time first",
        ),
        pytest.param(
            "<wse:RenewResponse><wse:Expires/></wse:RenewResponse>",
            Granted(None, None),
            id="Savan: an empty time",
        ),
        pytest.param(
            "<wse:GetStatusResponse><wse:Expires>*</wse:Expires></wse:GetStatusResponse>",
            Granted(None, "*"),
            id="Synapse: a star",
        ),
        pytest.param(
            "<wsnt:SubscribeResponse><wsnt:SubscriptionReference><wsa:EndpointReference><wsa:Address>"
            "\nhttp://m\n</wsa:Address></wsa:EndpointReference></wsnt:SubscriptionReference>"
            "</wsnt:SubscribeResponse>",
            Granted(EndpointReference("http://m", Wsa.V2005_08), None),
            id="Layer 7: nested",
        ),
    ],
)
def test_answers_of_others(inner: str, granted: Granted) -> None:
    assert read_granted(envelope(inner)) == granted


@pytest.mark.parametrize("version", SPECS)
@pytest.mark.parametrize("soap", Soap)
def test_faults_are_raised(version: Version, soap: Soap) -> None:
    refused = Refused(Reason.SUBSCRIPTION_UNKNOWN, "There is no such subscription.")
    spoken = context(Operation.RENEW, version, soap=soap)
    _, _, octets = write_fault(refused, spoken, now=NOW, message_id="urn:m")
    for reader in (read_granted, read_answer, read_received):
        with pytest.raises(AnsweredFault) as caught:
            reader(octets)
        assert "There is no such subscription." in caught.value.fault.reason


@pytest.mark.parametrize("octets", [b"", b"<html/>", b"not XML", b"<!DOCTYPE a><a/>"])
def test_what_is_no_answer(octets: bytes) -> None:
    with pytest.raises(Refused):
        read_granted(octets)
    with pytest.raises(Refused):
        read_received(octets)
    read_answer(octets)


EVENT = Notification(
    "urn:1", "p", b'<o:R xmlns:o="urn:o">1</o:R>', NOW, topic=topic("{urn:w}a/b"), action="urn:act"
)


@for_each("soap", Soap)
@for_each("wsa", Wsa)
@for_each(("version", "raw"), [(WSN_VERSION, False), (WSN_VERSION, True), (WSE_VERSION, True)])
def test_received(version: Version, raw: bool, soap: Soap, wsa: Wsa) -> None:
    one = subscription(version, soap=soap, wsa=wsa, policy=Policy(raw=raw))
    octets = render(EVENT, shape_of(one), TO).fill(prepare(one), delivery_id(EVENT, one.id))
    received = read_received(octets)
    assert isinstance(received, tuple)
    (one_,) = received
    wrapped = version is WSN_VERSION and not raw
    assert canonical(one_.payload) == canonical(EVENT.payload)
    assert one_.message_id == delivery_id(EVENT, one.id)
    assert one_.action == (text(octets, "//s:Header/wsa:Action"))
    assert clark(one_.topic) == (None if version is WSN_VERSION and raw else "{urn:w}a/b")
    assert one_.subscription == (one.manager if wrapped else None)


def test_received_of_others() -> None:
    octets = stored("onvif-camera-wsn-1.3-notify")
    received = cast(tuple[Received, ...], read_received(octets))
    assert [clark(one.topic) for one in received] == [
        "{http://www.onvif.org/ver10/topics}RuleEngine/CellMotionDetector/Motion",
        "{http://www.onvif.org/ver10/topics}VideoSource/MotionAlarm",
    ]
    (openwsman,) = cast(
        tuple[Received, ...], read_received(stored("openwsman-wse-2004-08-delivery"))
    )
    assert openwsman.action == "http://schemas.dmtf.org/wbem/wsman/1/wsman/Event"
    (synapse,) = cast(tuple[Received, ...], read_received(stored("synapse-wse-2004-08-publish")))
    assert clark(synapse.topic) == "synapse/event/test"


@pytest.mark.parametrize(
    ("octets", "expected"),
    [
        pytest.param(envelope(""), 0, id="an empty body"),
        pytest.param(envelope("<wsnt:Notify/>"), 0, id="an empty Notify"),
        pytest.param(
            envelope(
                "<wsnt:Notify><wsnt:NotificationMessage><wsnt:Topic Dialect='urn:x'>*</wsnt:Topic>"
                "<wsnt:SubscriptionReference/><wsnt:Message>text</wsnt:Message>"
                "</wsnt:NotificationMessage></wsnt:Notify>"
            ),
            1,
            id="a topic that is none, a reference that is none, text",
        ),
        pytest.param(
            envelope("<a/>", "<wsnt:Topic>*</wsnt:Topic>"), 1, id="a header that is no topic"
        ),
    ],
)
def test_a_notification_is_not_lost_for_what_is_around_it(octets: bytes, expected: int) -> None:
    received = cast(tuple[Received, ...], read_received(octets))
    assert len(received) == expected
    assert all(one.topic is None and one.subscription is None for one in received)


@pytest.mark.parametrize("end", End)
@pytest.mark.parametrize("version", EVENTING)
def test_our_own_subscription_end(version: Version, end: End) -> None:
    ended = subscription(version, end_to=CONSUMER)
    _, octets = write_subscription_end(ended, end, message_id="urn:m", reason="Because.")
    assert read_received(octets) == Ended(end.value.rpartition("/")[2], "Because.")


@pytest.mark.parametrize(
    ("inner", "status"),
    [
        (f"<wse:Status> {WSE}/SourceCanceling </wse:Status>", "SourceCanceling"),
        ("<wse:Status>SourceShuttingDown</wse:Status>", "SourceShuttingDown"),
        ("<wse:Code>wse:DeliveryFailure</wse:Code>", "DeliveryFailure"),
        (
            "<wse:SubscriptionManager><broken/></wse:SubscriptionManager><wse:Status>a</wse:Status>",
            "a",
        ),
        ("", ""),
    ],
)
def test_subscription_end_of_others(inner: str, status: str) -> None:
    octets = envelope(f"<wse:SubscriptionEnd>{inner}</wse:SubscriptionEnd>")
    assert read_received(octets) == Ended(status, "")


def test_the_validator_refuses(each_validator: Validator) -> None:
    """Else nothing that it passes would mean anything."""
    for wrong in (
        "<wse:Subscribe><wse:Expires>PT1H</wse:Expires></wse:Subscribe>",
        "<wsnt:Subscribe><wsnt:Filter/></wsnt:Subscribe>",
        "<wsnt:RenewResponse><wsnt:TerminationTime>soon</wsnt:TerminationTime></wsnt:RenewResponse>",
        "<rl:SetTerminationTime/>",
        "<s:Fault/>",
    ):
        with pytest.raises(AssertionError):
            each_validator.check(envelope(wrong))
    time = "<wsnt:TerminationTime>2026-11-23T00:00:00Z</wsnt:TerminationTime>"
    each_validator.check(envelope(f"<wsnt:RenewResponse>{time}</wsnt:RenewResponse>"))


@pytest.mark.parametrize(
    ("soap", "fault"),
    [
        (Soap.V1_1, "<faultcode>s:Client</faultcode>"),
        (Soap.V1_1, "<faultcode>no:Code</faultcode><faultstring>Why</faultstring>"),
        (Soap.V1_1, "<s:faultcode>s:Client</s:faultcode><s:faultstring>Why</s:faultstring>"),
        (Soap.V1_2, "<s:Code><s:Value>s:Sender</s:Value></s:Code>"),
        (
            Soap.V1_2,
            "<s:Code><s:Value>s:Sender</s:Value></s:Code><s:Reason><s:Text>Why</s:Text></s:Reason>",
        ),
        (
            Soap.V1_2,
            '<s:Reason><s:Text xml:lang="en">Why</s:Text></s:Reason>'
            "<s:Code><s:Value>s:Sender</s:Value></s:Code>",
        ),
    ],
)
def test_the_validator_refuses_faults(soap: Soap, fault: str, each_validator: Validator) -> None:
    with pytest.raises(AssertionError):
        each_validator.check(envelope(f"<s:Fault>{fault}</s:Fault>", soap=soap))
    with pytest.raises(AssertionError):
        each_validator.check(
            f'<s:Envelope xmlns:s="{soap.value}"><s:Header/></s:Envelope>'.encode()
        )
