"""Faults: what each version calls what is wrong, in both versions of SOAP."""

import itertools
from collections.abc import Iterator
from datetime import datetime

import pytest
from lxml import etree

from filters import Reason, Refused, dialects, topic_dialects
from mediation import names
from mediation.faults import ADDRESSING, FAULTS, fault_of, write_fault
from mediation.model.requests import Operation
from mediation.model.specification import MAX_NAMES
from mediation.model.versions import Soap, Version, Wsa
from mediation.names import WSE_FILTER_COMBINED
from mediation.specifications import SPECIFICATIONS
from tests.rigs.cases import for_each
from tests.rigs.mediation import NOW, WSE, WSMAN, WSNT, body, context, headers, part, parts, text
from tests.rigs.schemas import Validator

S11, S12 = Soap.V1_1, Soap.V1_2
WSRF_R = "http://docs.oasis-open.org/wsrf/r-2"
WSRF_RL = "http://docs.oasis-open.org/wsrf/rl-2"
WSRF_RP = "http://docs.oasis-open.org/wsrf/rp-2"
WSN_FAULT = "http://docs.oasis-open.org/wsn/fault"
WSRF_FAULT = "http://docs.oasis-open.org/wsrf/fault"
SUBSCRIBE, RENEW = Operation.SUBSCRIBE, Operation.RENEW

WS_EVENTING = [
    pytest.param(Reason.DELIVERY_MODE, SUBSCRIBE, "Sender", "DeliveryModeRequestedUnavailable",
                 "", "SupportedDeliveryMode"),
    pytest.param(Reason.EXPIRY_IN_THE_PAST, SUBSCRIBE, "Sender", "InvalidExpirationTime",
                 "The expiration time requested is invalid.", None),
    pytest.param(Reason.EXPIRY_IN_THE_PAST, RENEW, "Sender", "InvalidExpirationTime",
                 "The expiration time requested is invalid.", None),
    pytest.param(Reason.FILTER_DIALECT, SUBSCRIBE, "Sender", "FilteringRequestedUnavailable",
                 "", "SupportedDialect"),
    pytest.param(Reason.FILTER_INVALID, SUBSCRIBE, "Sender", "FilteringRequestedUnavailable",
                 "", "SupportedDialect"),
    pytest.param(Reason.TOPIC_DIALECT, SUBSCRIBE, "Sender", "FilteringRequestedUnavailable",
                 "", "SupportedDialect"),
    pytest.param(Reason.QUOTA, SUBSCRIBE, "Receiver", "EventSourceUnableToProcess", "", None),
    pytest.param(Reason.QUOTA, RENEW, "Receiver", "UnableToRenew", "", None),
    pytest.param(Reason.MESSAGE_INVALID, SUBSCRIBE, "Sender", "InvalidMessage",
                 "The message is not valid and cannot be processed.", None),
    pytest.param(Reason.EXPIRY_INVALID, RENEW, "Sender", "InvalidMessage",
                 "The message is not valid and cannot be processed.", None),
    pytest.param(Reason.SUBSCRIPTION_UNKNOWN, RENEW, "Sender", "InvalidMessage",
                 "The message is not valid and cannot be processed.", None),
    pytest.param(Reason.CONSUMER_ADDRESS, SUBSCRIBE, "Sender", "InvalidMessage",
                 "The message is not valid and cannot be processed.", None),
]  # fmt: skip


@for_each("wsa", Wsa)
@for_each("soap", Soap)
@pytest.mark.parametrize(("reason", "operation", "code", "subcode", "said", "detail"), WS_EVENTING)
def test_ws_eventing(
    reason: Reason,
    operation: Operation,
    code: str,
    subcode: str,
    said: str,
    detail: str | None,
    soap: Soap,
    wsa: Wsa,
) -> None:
    refused = Refused(reason, "What was wrong.", names=("urn:one", "urn:two"))
    spoken = context(operation, Version.WSE_2004_08, soap=soap, wsa=wsa)
    status, _, answer = write_fault(refused, spoken, now=NOW, message_id="urn:m")
    assert text(answer, "//wsa:Action") == f"{wsa.value}/fault"
    assert text(answer, "//wsa:RelatesTo") == "urn:uuid:request"
    assert text(answer, "//wsa:To") == wsa.anonymous
    said = f"{said} What was wrong.".strip()
    offered: tuple[str, ...] = ("urn:one", "urn:two")
    if reason is Reason.FILTER_DIALECT:
        # A topic is a filter, too, and so are both together.
        offered = (*topic_dialects(), WSE_FILTER_COMBINED, *offered)
    if reason in (Reason.DELIVERY_MODE, Reason.FILTER_DIALECT, Reason.TOPIC_DIALECT):
        said = f"What was wrong; offered: {', '.join(offered)}"
    if soap is S11:
        assert status == 500
        fault = body(answer)[0]
        assert [child.tag for child in fault] == ["faultcode", "faultstring"]
        assert _expanded(fault[0]) == f"{{{WSE}}}{subcode}"
        assert fault[1].text == said
        return
    assert status == (400 if code == "Sender" else 500)
    assert text(answer, "//s:Code/s:Value") == f"s:{code}"
    assert _expanded(part(answer, "//s:Subcode/s:Value")) == f"{{{WSE}}}{subcode}"
    assert text(answer, "//s:Reason/s:Text") == said
    expected = [(f"{{{WSE}}}{detail}", name) for name in offered] if detail else []
    assert [(child.tag, child.text) for child in parts(answer, "//s:Detail/*")] == expected


DPWS = "http://docs.oasis-open.org/ws-dd/ns/dpws/2009/01"
DPWS_1_0 = "http://schemas.xmlsoap.org/ws/2006/02/devprof"


@pytest.mark.parametrize("namespace", [DPWS, DPWS_1_0])
@pytest.mark.parametrize("version", [Version.WSE_2004_08, Version.WSE_2011_03])
def test_a_filter_of_actions_that_is_none(version: Version, namespace: str) -> None:
    """The fault is that of the version of DPWS whose filter it is."""
    refused = Refused(
        Reason.FILTER_ACTIONS, "The filter lists no action.", names=(f"{namespace}/Action",)
    )
    status, _, answer = write_fault(
        refused, context(SUBSCRIBE, version), now=NOW, message_id="urn:m"
    )
    assert (status, text(answer, "//s:Code/s:Value")) == (400, "s:Sender")
    assert text(answer, "//wsa:Action") == f"{namespace}/fault"
    subcode = part(answer, "//s:Subcode/s:Value")
    assert _expanded(subcode) == f"{{{namespace}}}FilterActionNotSupported"
    assert text(answer, "//s:Reason/s:Text") == "The filter lists no action."
    assert not parts(answer, "//s:Detail/*")


@pytest.mark.parametrize(
    ("version", "beginning"),
    [
        (Version.WSN_1_2, "http://docs.oasis-open.org/wsn/2004/06/TopicExpression/"),
        (
            Version.WSN_1_0,
            "http://www.ibm.com/xmlns/stdwip/web-services/WS-Topics/TopicExpression/",
        ),
    ],
)
@pytest.mark.parametrize("operation", [SUBSCRIBE, Operation.REGISTER_PUBLISHER])
def test_a_draft_lists_topic_dialects_by_its_own_names(
    operation: Operation, version: Version, beginning: str
) -> None:
    refused = Refused(Reason.TOPIC_DIALECT, "It is not offered.", names=topic_dialects())
    _, _, answer = write_fault(refused, context(operation, version), now=NOW, message_id="urn:m")
    said = text(answer, "//s:Reason/s:Text")
    assert f"offered: {beginning}" in said
    assert not {dialects.TOPIC_SIMPLE, dialects.TOPIC_CONCRETE, dialects.TOPIC_FULL} & set(
        said.partition("offered: ")[2].split(", ")
    )


UNUSABLE = f"{names.WSMAN_FAULT_DETAIL}UnusableAddress"
WS_MANAGEMENT = [
    pytest.param(Reason.QUOTA, SUBSCRIBE, "EventSourceUnableToProcess", [], id="quota"),
    pytest.param(Reason.QUOTA, RENEW, "UnableToRenew", [], id="quota of Renew"),
    pytest.param(
        Reason.CONSUMER_ADDRESS, SUBSCRIBE, "EventSourceUnableToProcess", [UNUSABLE], id="address"
    ),
    pytest.param(Reason.MESSAGE_INVALID, SUBSCRIBE, "InvalidMessage", [], id="as in WS-Eventing"),
]


@pytest.mark.parametrize(("reason", "operation", "subcode", "details"), WS_MANAGEMENT)
def test_ws_eventing_to_peers_of_ws_management(
    reason: Reason, operation: Operation, subcode: str, details: list[str]
) -> None:
    """What WS-Eventing has as the receiver's faults are the sender's there."""
    refused = Refused(reason, "What was wrong.", names=("urn:one",))
    spoken = context(
        operation, Version.WSE_2004_08, wsa=Wsa.V2004_08, header_namespaces=frozenset({WSMAN})
    )
    status, _, answer = write_fault(refused, spoken, now=NOW, message_id="urn:m")
    assert (status, text(answer, "//s:Code/s:Value")) == (400, "s:Sender")
    assert text(answer, "//wsa:Action") == f"{WSE}/fault"
    assert _expanded(part(answer, "//s:Subcode/s:Value")) == f"{{{WSE}}}{subcode}"
    found = [(child.tag, child.text) for child in parts(answer, "//s:Detail/*")]
    assert found == [(f"{{{WSMAN}}}FaultDetail", detail) for detail in details]


def _expanded(element: etree._Element) -> str:
    prefix, _, local = (element.text or "").partition(":")
    return f"{{{element.nsmap[prefix]}}}{local}"


def wsnt(name: str) -> str:
    return f"{{{WSNT}}}{name}"


WS_NOTIFICATION = [
    (Reason.SUBSCRIPTION_UNKNOWN, RENEW, f"{{{WSRF_R}}}ResourceUnknownFault", []),
    (Reason.SUBSCRIPTION_UNKNOWN, Operation.PAUSE, f"{{{WSRF_R}}}ResourceUnknownFault", []),
    (Reason.FILTER_UNKNOWN, SUBSCRIBE, wsnt("InvalidFilterFault"), ["UnknownFilter"] * 2),
    (Reason.TOPIC_DIALECT, SUBSCRIBE, wsnt("TopicExpressionDialectUnknownFault"), []),
    (Reason.TOPIC_INVALID, SUBSCRIBE, wsnt("InvalidTopicExpressionFault"), []),
    (Reason.TOPIC_UNSUPPORTED, SUBSCRIBE, wsnt("TopicNotSupportedFault"), []),
    (
        Reason.TOPICS_SEVERAL, Operation.GET_CURRENT_MESSAGE,
        wsnt("MultipleTopicsSpecifiedFault"), [],
    ),
    (
        Reason.NO_CURRENT_MESSAGE, Operation.GET_CURRENT_MESSAGE,
        wsnt("NoCurrentMessageOnTopicFault"), [],
    ),
    (
        Reason.PRODUCER_PROPERTIES, SUBSCRIBE,
        wsnt("InvalidProducerPropertiesExpressionFault"), [],
    ),
    (Reason.FILTER_INVALID, SUBSCRIBE, wsnt("InvalidMessageContentExpressionFault"), []),
    (Reason.FILTER_DIALECT, SUBSCRIBE, wsnt("InvalidMessageContentExpressionFault"), []),
    (Reason.FILTER_COSTLY, SUBSCRIBE, wsnt("InvalidMessageContentExpressionFault"), []),
    (
        Reason.EXPIRY_IN_THE_PAST, SUBSCRIBE,
        wsnt("UnacceptableInitialTerminationTimeFault"), ["MinimumTime"],
    ),
    (
        Reason.EXPIRY_INVALID, SUBSCRIBE,
        wsnt("UnacceptableInitialTerminationTimeFault"), ["MinimumTime"],
    ),
    (Reason.EXPIRY_INVALID, RENEW, wsnt("UnacceptableTerminationTimeFault"), ["MinimumTime"]),
    (
        Reason.POLICY_UNRECOGNIZED, SUBSCRIBE,
        wsnt("UnrecognizedPolicyRequestFault"), ["UnrecognizedPolicy"] * 2,
    ),
    (
        Reason.POLICY_UNSUPPORTED, SUBSCRIBE,
        wsnt("UnsupportedPolicyRequestFault"), ["UnsupportedPolicy"] * 2,
    ),
    (Reason.MESSAGE_INVALID, SUBSCRIBE, wsnt("SubscribeCreationFailedFault"), []),
    (Reason.EPR_INVALID, SUBSCRIBE, wsnt("SubscribeCreationFailedFault"), []),
    (Reason.CONSUMER_ADDRESS, SUBSCRIBE, wsnt("SubscribeCreationFailedFault"), []),
    (Reason.QUOTA, SUBSCRIBE, wsnt("SubscribeCreationFailedFault"), []),
    (
        Reason.EXPIRY_INVALID, Operation.SET_TERMINATION_TIME,
        f"{{{WSRF_RL}}}UnableToSetTerminationTimeFault", [],
    ),
    (
        Reason.EXPIRY_TOO_LONG, Operation.SET_TERMINATION_TIME,
        f"{{{WSRF_RL}}}TerminationTimeChangeRejectedFault", [],
    ),
    (
        Reason.PROPERTY_UNKNOWN, Operation.GET_RESOURCE_PROPERTY,
        f"{{{WSRF_RP}}}InvalidResourcePropertyQNameFault", [],
    ),
]  # fmt: skip


@for_each("soap", Soap)
@for_each(("reason", "operation", "element", "further"), WS_NOTIFICATION)
def test_ws_notification(
    reason: Reason, operation: Operation, element: str, further: list[str], soap: Soap
) -> None:
    names = ("{urn:filters}Geo", "Plain") if "Time" not in "".join(further) else ()
    refused = Refused(reason, "What was wrong.", names=names)
    status, _, answer = write_fault(
        refused, context(operation, soap=soap), now=NOW, message_id="urn:m"
    )
    assert status == (500 if soap is S11 else 400)
    namespace = etree.QName(element).namespace
    assert text(answer, "//wsa:Action") == (WSN_FAULT if namespace == WSNT else WSRF_FAULT)
    code = "//faultcode" if soap is S11 else "//s:Code/s:Value"
    assert text(answer, code) == ("s:Client" if soap is S11 else "s:Sender")
    (detail,) = parts(answer, "//detail/*" if soap is S11 else "//s:Detail/*")
    assert detail.tag == element
    locals_ = [etree.QName(child).localname for child in detail]
    assert locals_ == ["Timestamp", "Description", *further]
    assert all(etree.QName(child).namespace == WSNT for child in list(detail)[2:])
    if "UnknownFilter" in further:
        assert _expanded(detail[2]) == "{urn:filters}Geo" and detail[3].text == "Plain"


def test_the_longest_time_is_named() -> None:
    refused = Refused(Reason.EXPIRY_TOO_LONG, "Too long.", names=("2026-02-01T10:00:00Z",))
    _, _, answer = write_fault(refused, context(), now=NOW, message_id="urn:m")
    assert text(answer, "//wsnt:MinimumTime") == "2026-01-31T10:00:00Z"
    assert text(answer, "//wsnt:MaximumTime") == "2026-02-01T10:00:00Z"


WS_ADDRESSING = [
    (Reason.HEADER_REPEATED, "InvalidAddressingHeader", "InvalidCardinality",
     "InvalidMessageInformationHeader"),
    (Reason.HEADER_INVALID, "InvalidAddressingHeader", None, "InvalidMessageInformationHeader"),
    (Reason.REPLY_ADDRESS, "InvalidAddressingHeader", "InvalidAddress", "DestinationUnreachable"),
    (Reason.ACTION_UNSUPPORTED, "ActionNotSupported", None, "ActionNotSupported"),
    (Reason.UNAVAILABLE, "EndpointUnavailable", None, "EndpointUnavailable"),
]  # fmt: skip


@for_each(
    "version", [None, *(version for version in Version if version is not Version.ONVIF_DEVICE)]
)
@for_each("wsa", Wsa)
@for_each("soap", Soap)
@pytest.mark.parametrize(("reason", "subcode", "inner", "before"), WS_ADDRESSING)
def test_ws_addressing(
    reason: Reason,
    subcode: str,
    inner: str | None,
    before: str,
    soap: Soap,
    wsa: Wsa,
    version: Version | None,
) -> None:
    final = wsa is Wsa.V2005_08
    refused = Refused(reason, "What was wrong.", names=("wsa:ReplyTo",))
    spoken = context(None, version, soap=soap, wsa=wsa)
    status, _, answer = write_fault(refused, spoken, now=NOW, message_id="urn:m", retry_after=2.5)
    assert text(answer, "/s:Envelope/s:Header/wsa:Action") == f"{wsa.value}/fault"
    name = subcode if final else before
    receiver = reason is Reason.UNAVAILABLE
    assert status == (503 if receiver else 500 if soap is S11 else 400)
    if soap is S11:
        assert text(answer, "//faultcode") == f"wsa:{name}"
        assert parts(answer, "//detail") == []
        details = parts(answer, "/s:Envelope/s:Header/wsa:FaultDetail/*")
    else:
        assert text(answer, "//s:Code/s:Value") == ("s:Receiver" if receiver else "s:Sender")
        assert text(answer, "//s:Code/s:Subcode/s:Value") == f"wsa:{name}"
        nested = [value.text for value in parts(answer, "//s:Subcode/s:Subcode/s:Value")]
        assert nested == ([f"wsa:{inner}"] if inner and final else [])
        details = parts(answer, "//s:Detail/*")
    shown = [(etree.QName(child).localname, str(child.xpath("string()"))) for child in details]
    if receiver:
        older = "ReplyAfter" if wsa in (Wsa.V2003_03, Wsa.V2004_03) else "RetryAfter"
        assert shown == ([(older, "2500")] if final or soap is S12 else [])
    elif not final:
        assert shown == []
    elif reason is Reason.ACTION_UNSUPPORTED:
        assert shown == [("ProblemAction", "urn:example:action")]
    else:
        assert shown == [("ProblemHeaderQName", "wsa:ReplyTo")]


@pytest.mark.parametrize("soap", Soap)
def test_without_addressing_there_are_no_headers(soap: Soap) -> None:
    for reason in Reason:
        _, _, answer = write_fault(
            Refused(reason, "What was wrong."),
            context(soap=soap, wsa=None),
            now=NOW,
            message_id="m",
        )
        named = {block.tag for block in headers(answer)}
        assert named <= {f"{{{S12.value}}}Upgrade", f"{{{S12.value}}}NotUnderstood"}


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (Reason.TOO_LARGE, 413),
        (Reason.MEDIA_TYPE, 415),
        (Reason.NOT_ALLOWED, 403),
        (Reason.RATE, 429),
        (Reason.UNAVAILABLE, 503),
    ],
)
@pytest.mark.parametrize("soap", Soap)
def test_what_http_has_a_status_for(reason: Reason, status: int, soap: Soap) -> None:
    refused = Refused(reason, "What was wrong.")
    assert write_fault(refused, context(soap=soap), now=NOW, message_id="m")[0] == status


@for_each("wsa", Wsa)
@for_each(
    ("reason", "version", "suffix"),
    [
        (Reason.NOT_UNDERSTOOD, Version.WSE_2004_08, "soap"),
        (Reason.VERSION_MISMATCH, None, "soap"),
        (Reason.NOT_XML, None, "soap"),
        (Reason.INTERNAL, Version.WSN_1_3, "soap"),
        (Reason.MESSAGE_INVALID, Version.WSE_2004_08, "addressing"),
    ],
)
def test_fault_actions(reason: Reason, version: Version | None, suffix: str, wsa: Wsa) -> None:
    spoken = context(RENEW, version, wsa=wsa)
    _, _, answer = write_fault(Refused(reason, "What."), spoken, now=NOW, message_id="m")
    soap = suffix == "soap" and wsa is Wsa.V2005_08
    assert text(answer, "//wsa:Action") == f"{wsa.value}/{'soap/' if soap else ''}fault"


def test_ws_management_has_an_action_of_its_own() -> None:
    spoken = context(
        RENEW, Version.WSE_2004_08, wsa=Wsa.V2004_08, header_namespaces=frozenset({WSMAN})
    )
    _, _, answer = write_fault(
        Refused(Reason.SUBSCRIPTION_UNKNOWN, "Gone."), spoken, now=NOW, message_id="m"
    )
    assert text(answer, "//wsa:Action") == f"{WSE}/fault"


WAYS = list(itertools.product(Soap, (None, *Wsa), ((), ("{urn:x}y", "z"))))
"""In which SOAP and addressing a fault is written, and with which details."""


def _fault(
    reason: Reason, operation: Operation | None, version: Version | None, way: int
) -> tuple[Soap, int, bytes]:
    soap, wsa, names = WAYS[way]
    refused = Refused(reason, "A <text> & more.", value="secret", names=names)
    times = reason in (Reason.EXPIRY_INVALID, Reason.EXPIRY_IN_THE_PAST, Reason.EXPIRY_TOO_LONG)
    if times and names:
        refused.names = ("2026-02-01T10:00:00Z",)
    spoken = context(operation, version, soap=soap, wsa=wsa)
    status, _, answer = write_fault(refused, spoken, now=NOW, message_id="urn:m", retry_after=1)
    return soap, status, answer


def _every_fault() -> Iterator[tuple[Soap, int, bytes]]:
    """Of reasons x operations x versions: each in the barest way, the richest, and one by turns;
    in all `WAYS` where nothing before it is answered alike in the first two."""
    known = set()
    turns = itertools.cycle(range(len(WAYS)))
    for case in itertools.product(Reason, (None, *Operation), (None, *Version)):
        bare, rich = _fault(*case, 0), _fault(*case, -1)
        if (bare, rich) in known:
            yield from (bare, rich, _fault(*case, next(turns)))
        else:
            known.add((bare, rich))
            yield from (_fault(*case, way) for way in range(len(WAYS)))


def test_every_reason_has_an_envelope(validator: Validator) -> None:
    """Well-formed, valid, and with the code and the status that belong together."""
    seen = set()
    for soap, status, answer in _every_fault():
        assert b"secret" not in answer and status in (400, 401, 403, 410, 413, 415, 429, 500, 503)
        if answer in seen:
            continue
        seen.add(answer)
        (fault,) = body(answer)
        assert fault.tag == f"{{{soap.value}}}Fault"
        for value in parts(answer, "//s:Value | //faultcode"):
            assert _expanded(value)
        validator.check(answer)
    assert len(seen) > 100


PLAIN = {
    Reason.NOT_XML, Reason.DTD, Reason.PROCESSING_INSTRUCTION, Reason.ENCODING,
    Reason.TOO_COMPLEX, Reason.TOO_LARGE, Reason.MEDIA_TYPE, Reason.ENVELOPE, Reason.RATE,
    Reason.LOOP, Reason.SOURCE_UNKNOWN, Reason.PUBLICATION_REFUSED,
}  # fmt: skip
"""Reasons that no specification has words for: they are the sender's fault, and nothing else."""
GENERAL = set(FAULTS) | set(ADDRESSING)
"""Reasons that may befall a message of any specification."""
ASKED_AT_SUBSCRIBE = {
    Reason.MESSAGE_INVALID, Reason.EPR_INVALID, Reason.CONSUMER_ADDRESS, Reason.QUOTA,
    Reason.EXPIRY_INVALID, Reason.EXPIRY_IN_THE_PAST, Reason.EXPIRY_TOO_LONG,
    Reason.FILTER_UNKNOWN, Reason.FILTER_DIALECT, Reason.FILTER_INVALID, Reason.FILTER_COSTLY,
    Reason.TOPIC_DIALECT, Reason.TOPIC_INVALID, Reason.TOPIC_UNSUPPORTED,
}  # fmt: skip
"""Reasons for which a version that has subscriptions must have words."""
WITHOUT_WORDS = {Version.WSE_2011_03: {Reason.MESSAGE_INVALID, Reason.QUOTA}}
"""Reasons of those for which a version has none: 2011/03 dropped InvalidMessage and
EventSourceUnableToProcess."""


@for_each("version", [None, *Version])
@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name)
def test_every_reason_in_every_version(reason: Reason, version: Version | None) -> None:
    """The most specific row wins, a version without one falls back to what is said in all, and
    what is plain is plain everywhere."""
    own = SPECIFICATIONS[version].faults if version else {}
    for operation in (None, *Operation):
        fault = fault_of(reason, operation, version)
        if (reason, operation) in own:
            assert fault is own[reason, operation]
        elif (reason, None) in own:
            assert fault is own[reason, None]
        elif reason in FAULTS:
            assert fault is FAULTS[reason]
        else:
            assert (fault.element, fault.subcode) == ("", "")
    if reason in PLAIN:
        assert reason not in {named for named, _ in own}
        assert fault_of(reason, None, version).element == ""
    if version and SPECIFICATIONS[version].notifications and reason in ASKED_AT_SUBSCRIBE:
        fault = fault_of(reason, SUBSCRIBE, version)
        plain = not (fault.element or fault.subcode)
        assert plain is (reason in WITHOUT_WORDS.get(version, ())), "it would be a plain fault"


def test_every_reason_has_words_somewhere() -> None:
    """What no row names is in PLAIN, so that a new reason is thought about."""
    named = {reason for each in SPECIFICATIONS.values() for reason, _ in each.faults}
    assert set(Reason) - named - GENERAL == PLAIN


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize(
    "reason", [Reason.FILTER_UNKNOWN, Reason.NOT_UNDERSTOOD, Reason.POLICY_UNRECOGNIZED]
)
def test_a_fault_lists_no_thousands(reason: Reason, soap: Soap) -> None:
    refused = Refused(reason, "Many.", names=tuple(f"{{urn:x}}n{n}" for n in range(5000)))
    _, _, answer = write_fault(refused, context(soap=soap), now=NOW, message_id="m")
    assert answer.count(b"x:n") <= MAX_NAMES


def test_times_are_those_of_the_caller() -> None:
    later = datetime.fromisoformat("2030-01-01T00:00:00+00:00")
    _, _, answer = write_fault(Refused(Reason.QUOTA, "Full."), context(), now=later, message_id="m")
    assert text(answer, "//bf:Timestamp") == "2030-01-01T00:00:00Z"
