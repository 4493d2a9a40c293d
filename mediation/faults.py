"""What each family of specifications calls what is wrong, and how it stands on the wire.

One table: (reason, operation or any, family or none) -> fault. The most specific row wins:
operation and family, family, nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from filters import Reason, Refused
from mediation import names
from mediation.model.expiry import format_seconds
from mediation.model.messages import EndpointReference
from mediation.model.requests import Context, Operation
from mediation.model.versions import Family, Soap, Wsa
from mediation.soap.addressing import reference_headers, write_headers
from mediation.soap.envelopes import write_envelope, xml_attribute, xml_text


class Code(Enum):
    """Who is at fault; the values are the local names in SOAP 1.1 and 1.2."""

    SENDER = ("Client", "Sender")
    RECEIVER = ("Server", "Receiver")
    NOT_UNDERSTOOD = ("MustUnderstand", "MustUnderstand")
    VERSION_MISMATCH = ("VersionMismatch", "VersionMismatch")

    def name_in(self, soap: Soap) -> str:
        return self.value[0 if soap is Soap.V1_1 else 1]


class Detail(Enum):
    """What the fault's detail holds."""

    NONE = "none"
    NAMES = "one element for each of the error's names"
    TIMES = "the acceptable times"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a specification. *element* in the detail (WS-Notification, WSRF), or *subcode*
    (WS-Eventing, WS-Addressing); *inner* names the detail's children."""

    code: Code = Code.SENDER
    subcode: str = ""
    element: str = ""
    text: str = ""
    detail: Detail = Detail.NONE
    inner: str = ""


def _wsnt(
    name: str, detail: Detail = Detail.NONE, inner: str = "", code: Code = Code.SENDER
) -> Fault:
    return Fault(code, element=f"{{{names.WSN_1_3}}}{name}", detail=detail, inner=inner)


def _wsrf(namespace: str, name: str, code: Code = Code.SENDER) -> Fault:
    return Fault(code, element=f"{{{namespace}}}{name}")


def _wse(name: str, text: str, inner: str = "", code: Code = Code.SENDER) -> Fault:
    detail = Detail.NAMES if inner else Detail.NONE
    return Fault(code, f"{{{names.WSE_2004_08}}}{name}", text=text, detail=detail, inner=inner)


_WSMC = f"{{{names.MAKE_CONNECTION_1_1}}}"
_WSMAN = f"{{{names.WSMAN}}}"
_ONVIF = f"{{{names.ONVIF_ERRORS}}}"


def _wsmc(name: str, text: str) -> Fault:
    return Fault(Code.RECEIVER, _WSMC + name, text=text)


MAX_NAMES = 32
"""Of the names that a fault lists: a request may hold thousands of unknown ones."""

SENDER = Fault()
RECEIVER = Fault(Code.RECEIVER)

_FILTER_UNAVAILABLE = _wse(
    "FilteringRequestedUnavailable",
    "",
    "SupportedDialect",
)
_WSE_INVALID = _wse("InvalidMessage", "The message is not valid and cannot be processed.")
_WSE_UNABLE = _wse("EventSourceUnableToProcess", "", code=Code.RECEIVER)
_WSE_EXPIRATION = _wse("InvalidExpirationTime", "The expiration time requested is invalid.")
_INITIAL_TIME = _wsnt("UnacceptableInitialTerminationTimeFault", Detail.TIMES)
_TIME = _wsnt("UnacceptableTerminationTimeFault", Detail.TIMES)
_CREATION_FAILED = _wsnt("SubscribeCreationFailedFault")
_BAD_CONTENT = _wsnt("InvalidMessageContentExpressionFault")
_TERMINATION_REJECTED = _wsrf(names.WSRF_RL, "TerminationTimeChangeRejectedFault")
_UNKNOWN_RESOURCE = _wsrf(names.WSRF_R, "ResourceUnknownFault")
_PULLING = Operation.CREATE_PULL_POINT_SUBSCRIPTION
_BAD_PROPERTY = _wsrf(names.WSRF_RP, "InvalidResourcePropertyQNameFault")

_Key = tuple[Reason, Operation | None, Family | None]

WSE, WSN, MAILBOX, DEVICE = Family.WSE, Family.WSN, Family.MAILBOX, Family.DEVICE

FAULTS: Mapping[_Key, Fault] = {
    # SOAP's own.
    (Reason.VERSION_MISMATCH, None, None): Fault(Code.VERSION_MISMATCH),
    (Reason.NOT_UNDERSTOOD, None, None): Fault(Code.NOT_UNDERSTOOD),
    (Reason.UNAVAILABLE, None, None): RECEIVER,
    (Reason.INTERNAL, None, None): RECEIVER,
    # WS-Eventing 2004/08, section 6.
    (Reason.MESSAGE_INVALID, None, WSE): _WSE_INVALID,
    (Reason.EPR_INVALID, None, WSE): _WSE_INVALID,
    (Reason.CONSUMER_ADDRESS, None, WSE): _WSE_INVALID,
    (Reason.SUBSCRIPTION_UNKNOWN, None, WSE): _WSE_INVALID,
    (Reason.EXPIRY_INVALID, None, WSE): _WSE_INVALID,
    (Reason.EXPIRY_IN_THE_PAST, None, WSE): _WSE_EXPIRATION,
    (Reason.EXPIRY_TOO_LONG, None, WSE): _WSE_EXPIRATION,
    (Reason.DELIVERY_MODE, None, WSE): _wse(
        "DeliveryModeRequestedUnavailable",
        "",
        "SupportedDeliveryMode",
    ),
    (Reason.FILTER_UNKNOWN, None, WSE): _FILTER_UNAVAILABLE,
    (Reason.FILTER_DIALECT, None, WSE): _FILTER_UNAVAILABLE,
    (Reason.FILTER_INVALID, None, WSE): _FILTER_UNAVAILABLE,
    (Reason.FILTER_COSTLY, None, WSE): _FILTER_UNAVAILABLE,
    (Reason.TOPIC_DIALECT, None, WSE): _FILTER_UNAVAILABLE,
    (Reason.TOPIC_INVALID, None, WSE): _FILTER_UNAVAILABLE,
    (Reason.TOPIC_UNSUPPORTED, None, WSE): _FILTER_UNAVAILABLE,
    (Reason.QUOTA, None, WSE): _WSE_UNABLE,
    (Reason.QUOTA, Operation.RENEW, WSE): _wse("UnableToRenew", "", code=Code.RECEIVER),
    # WS-Management (DSP0226), section 14.6.
    (Reason.FEATURE_UNSUPPORTED, None, None): Fault(
        subcode=_WSMAN + "UnsupportedFeature",
        text="The specified feature is not supported.",
        detail=Detail.NAMES,
        inner="FaultDetail",
    ),
    # WS-BrokeredNotification 1.3, section 4.3.
    (Reason.PUBLISHER_REGISTRATION, None, None): Fault(
        element=f"{{{names.WSN_BR_1_3}}}PublisherRegistrationFailedFault"
    ),
    # WS-BaseNotification 1.3, sections 3 to 6.
    (Reason.MESSAGE_INVALID, Operation.SUBSCRIBE, WSN): _CREATION_FAILED,
    (Reason.EPR_INVALID, Operation.SUBSCRIBE, WSN): _CREATION_FAILED,
    (Reason.CONSUMER_ADDRESS, Operation.SUBSCRIBE, WSN): _CREATION_FAILED,
    (Reason.QUOTA, Operation.SUBSCRIBE, WSN): _CREATION_FAILED,
    (Reason.EXPIRY_INVALID, Operation.SUBSCRIBE, WSN): _INITIAL_TIME,
    (Reason.EXPIRY_IN_THE_PAST, Operation.SUBSCRIBE, WSN): _INITIAL_TIME,
    (Reason.EXPIRY_TOO_LONG, Operation.SUBSCRIBE, WSN): _INITIAL_TIME,
    (Reason.EXPIRY_INVALID, Operation.RENEW, WSN): _TIME,
    (Reason.EXPIRY_IN_THE_PAST, Operation.RENEW, WSN): _TIME,
    (Reason.EXPIRY_TOO_LONG, Operation.RENEW, WSN): _TIME,
    (Reason.FILTER_UNKNOWN, None, WSN): _wsnt("InvalidFilterFault", Detail.NAMES, "UnknownFilter"),
    (Reason.FILTER_DIALECT, None, WSN): _BAD_CONTENT,
    (Reason.FILTER_INVALID, None, WSN): _BAD_CONTENT,
    (Reason.FILTER_COSTLY, None, WSN): _BAD_CONTENT,
    (Reason.PRODUCER_PROPERTIES, None, WSN): _wsnt("InvalidProducerPropertiesExpressionFault"),
    (Reason.TOPIC_DIALECT, None, WSN): _wsnt("TopicExpressionDialectUnknownFault"),
    (Reason.TOPIC_INVALID, None, WSN): _wsnt("InvalidTopicExpressionFault"),
    (Reason.TOPIC_UNSUPPORTED, None, WSN): _wsnt("TopicNotSupportedFault"),
    (Reason.TOPICS_SEVERAL, None, WSN): _wsnt("MultipleTopicsSpecifiedFault"),
    (Reason.NO_CURRENT_MESSAGE, None, WSN): _wsnt("NoCurrentMessageOnTopicFault"),
    (Reason.POLICY_UNRECOGNIZED, None, WSN): _wsnt(
        "UnrecognizedPolicyRequestFault", Detail.NAMES, "UnrecognizedPolicy"
    ),
    (Reason.POLICY_UNSUPPORTED, None, WSN): _wsnt(
        "UnsupportedPolicyRequestFault", Detail.NAMES, "UnsupportedPolicy"
    ),
    # Pull points: WS-BaseNotification 1.3, section 5; ONVIF Core, "Event handling".
    (Reason.MESSAGE_INVALID, _PULLING, WSN): _CREATION_FAILED,
    (Reason.QUOTA, _PULLING, WSN): _CREATION_FAILED,
    (Reason.EXPIRY_INVALID, _PULLING, WSN): _INITIAL_TIME,
    (Reason.EXPIRY_IN_THE_PAST, _PULLING, WSN): _INITIAL_TIME,
    (Reason.EXPIRY_TOO_LONG, _PULLING, WSN): _INITIAL_TIME,
    (Reason.QUOTA, Operation.CREATE_PULL_POINT, WSN): _wsnt("UnableToCreatePullPointFault"),
    (Reason.MAILBOX_BUSY, None, WSN): _wsnt("UnableToGetMessagesFault", code=Code.RECEIVER),
    (Reason.MAILBOX_UNKNOWN, None, WSN): _UNKNOWN_RESOURCE,
    # ONVIF Core, "Generic faults": an optional operation that is not offered.
    (Reason.ACTION_UNSUPPORTED, Operation.SEEK, WSN): Fault(
        Code.RECEIVER, f"{_ONVIF}ActionNotSupported", text="The action is not offered."
    ),
    (Reason.ACTION_UNSUPPORTED, None, DEVICE): Fault(
        Code.RECEIVER, f"{_ONVIF}ActionNotSupported", text="Optional Action Not Implemented."
    ),
    (Reason.MAILBOX_FULL, None, None): RECEIVER,
    (Reason.MAILBOX_BUSY, None, None): RECEIVER,
    # WS-MakeConnection 1.1, section 4.
    (Reason.SELECTION_MISSING, None, MAILBOX): _wsmc(
        "MissingSelection", "The MakeConnection element did not contain any selection criteria."
    ),
    (Reason.SELECTION_UNSUPPORTED, None, MAILBOX): _wsmc(
        "UnsupportedSelection",
        "The extension element used in the message selection is not supported by the "
        "MakeConnection receiver.",
    ),
    # WSRF 1.2.
    (Reason.SUBSCRIPTION_UNKNOWN, None, WSN): _UNKNOWN_RESOURCE,
    (Reason.PROPERTY_UNKNOWN, None, WSN): _BAD_PROPERTY,
    (Reason.EXPIRY_INVALID, Operation.SET_TERMINATION_TIME, WSN): _wsrf(
        names.WSRF_RL, "UnableToSetTerminationTimeFault"
    ),
    (Reason.EXPIRY_TOO_LONG, Operation.SET_TERMINATION_TIME, WSN): _TERMINATION_REJECTED,
}

_UNAVAILABLE = "EndpointUnavailable"

ADDRESSING: Mapping[Reason, tuple[str, str, str]] = {
    Reason.HEADER_REPEATED: (
        "InvalidAddressingHeader", "InvalidCardinality", "InvalidMessageInformationHeader"
    ),
    Reason.HEADER_INVALID: (
        "InvalidAddressingHeader", "", "InvalidMessageInformationHeader"
    ),
    Reason.REPLY_ADDRESS: (
        "InvalidAddressingHeader", "InvalidAddress", "DestinationUnreachable"
    ),
    Reason.ACTION_UNSUPPORTED: ("ActionNotSupported", "", "ActionNotSupported"),
    Reason.UNAVAILABLE: (_UNAVAILABLE, "", _UNAVAILABLE),
}  # fmt: skip
"""Faults of WS-Addressing: subcode and its subcode in 1.0, subcode in the versions before."""

_ADDRESSING_TEXTS: Mapping[str, str] = {
    "InvalidAddressingHeader": "A header representing a Message Addressing Property is not valid "
    "and the message cannot be processed.",
    "InvalidMessageInformationHeader": "A message information header is not valid and the message "
    "cannot be processed.",
    "DestinationUnreachable": "No route can be determined to reach the destination role defined "
    "by the WS-Addressing To.",
    "ActionNotSupported": "The action cannot be processed at the receiver.",
    _UNAVAILABLE: "The endpoint is unable to process the message at this time.",
}

_HTTP_STATUS: Mapping[Reason, int] = {
    Reason.TOO_LARGE: 413,
    Reason.MEDIA_TYPE: 415,
    Reason.RATE: 429,
    Reason.UNAVAILABLE: 503,
}
"""Reasons that HTTP has a status for, whatever SOAP says."""


def fault_of(reason: Reason, operation: Operation | None, family: Family | None) -> Fault:
    """The row of the table for *reason*; a plain fault of the sender where there is none."""
    for key in ((reason, operation, family), (reason, None, family), (reason, None, None)):
        if key in FAULTS:
            return FAULTS[key]
    return SENDER


def write_fault(
    refused: Refused,
    context: Context,
    *,
    now: datetime,
    message_id: str,
    retry_after: float | None = None,
    to: EndpointReference | None = None,
) -> tuple[int, bytes]:
    """The HTTP status and the envelope that tell a peer what is wrong, in what it spoke; *to* is
    where it wants to read it, if not in the answer.

    SOAP 1.1 faults are 500 always; in SOAP 1.2 the sender's are 400 (WS-I Basic Profile;
    SOAP 1.2 Part 2, section 7.5.2).
    """
    family = context.version.family if context.version else None
    fault = fault_of(refused.reason, context.operation, family)
    soap, wsa = context.soap, context.wsa
    # A specification's own subcode goes before that of WS-Addressing.
    addressing = ADDRESSING.get(refused.reason) if wsa is not None and not fault.subcode else None
    action = _action(fault, context, addressing is not None)
    headers = write_headers(
        wsa,
        action=action,
        message_id=message_id,
        relates_to=context.headers.message_id,
        to=to.address if to else (wsa.anonymous if wsa else None),
    )
    if to is not None and wsa is not None:
        headers += reference_headers(to, wsa).decode()
    if addressing is not None and wsa is not None:
        code = fault.code
        body, extra = _addressing_fault(refused, context, code, addressing, wsa, retry_after)
        headers += extra
    elif soap is Soap.V1_1:
        body = _fault_1_1(fault, refused, now)
    else:
        body = _fault_1_2(fault, refused, now)
    if fault.code is Code.NOT_UNDERSTOOD and soap is Soap.V1_2:
        headers += "".join(map(_not_understood, refused.names[:MAX_NAMES]))
    if fault.code is Code.VERSION_MISMATCH and soap is Soap.V1_2:
        headers += _UPGRADE
    sender = fault.code is Code.SENDER and soap is Soap.V1_2
    status = _HTTP_STATUS.get(refused.reason, 400 if sender else 500)
    return status, write_envelope(soap, wsa, headers, body)


def _action(fault: Fault, context: Context, addressing: bool) -> str:
    wsa = context.wsa or Wsa.V2005_08
    if not addressing and fault.element:
        wsn = fault.element.startswith((f"{{{names.WSN_1_3}}}", f"{{{names.WSN_BR_1_3}}}"))
        return names.WSN_1_3_FAULT_ACTION if wsn else names.WSRF_FAULT_ACTION
    if fault.subcode.startswith(_WSMC):
        return names.MAKE_CONNECTION_1_1 + "/fault"
    if fault.subcode.startswith(_WSMAN):
        return names.WSMAN_FAULT_ACTION
    if names.WSMAN in context.header_namespaces:
        return f"{names.WSE_2004_08}/fault"
    own = fault.subcode and not fault.subcode.startswith(_ONVIF)
    if wsa is Wsa.V2005_08 and not addressing and not own:
        return names.WSA_SOAP_FAULT
    return wsa.fault_action


def _fault_1_1(fault: Fault, refused: Refused, now: datetime) -> str:
    code, declaration = f"s:{fault.code.name_in(Soap.V1_1)}", ""
    if fault.subcode:
        code, declaration = _prefixed(fault.subcode)
    if fault.element:
        detail = _base_fault(fault, refused, now)
    elif fault.subcode.startswith(_WSMC):
        detail = _selection_detail(refused)
    else:  # That of WS-Eventing is for SOAP 1.2 alone.
        detail = _listed(fault, refused) if fault.subcode.startswith(_WSMAN) else ""
    return (
        f"<s:Fault><faultcode{declaration}>{code}</faultcode>"
        f"<faultstring>{xml_text(_text(fault, refused))}</faultstring>"
        f"{f'<detail>{detail}</detail>' if detail else ''}</s:Fault>"
    )


def _fault_1_2(fault: Fault, refused: Refused, now: datetime) -> str:
    subcode = ""
    if fault.subcode:
        value, declaration = _prefixed(fault.subcode)
        subcode = f"<s:Subcode><s:Value{declaration}>{value}</s:Value></s:Subcode>"
    if fault.element:
        detail = _base_fault(fault, refused, now)
    elif fault.subcode.startswith(_WSMC):
        detail = _selection_detail(refused)
    elif fault.detail is Detail.NAMES:
        detail = _listed(fault, refused)
    else:
        detail = ""
    return _body_1_2(fault.code, subcode, _text(fault, refused), detail)


def _body_1_2(code: Code, subcode: str, text: str, detail: str) -> str:
    return (
        f"<s:Fault><s:Code><s:Value>s:{code.name_in(Soap.V1_2)}</s:Value>{subcode}</s:Code>"
        f'<s:Reason><s:Text xml:lang="en">{xml_text(text)}</s:Text></s:Reason>'
        f"{f'<s:Detail>{detail}</s:Detail>' if detail else ''}</s:Fault>"
    )


_LISTING = frozenset({Reason.FILTER_DIALECT, Reason.TOPIC_DIALECT, Reason.DELIVERY_MODE})
"""Reasons whose names are what might be asked for instead."""


def _listed(fault: Fault, refused: Refused) -> str:
    """The names of *refused*, each in an element of the namespace of the subcode."""
    namespace = fault.subcode[1:].partition("}")[0]
    return "".join(
        f'<d:{fault.inner} xmlns:d="{namespace}">{xml_text(name)}</d:{fault.inner}>'
        for name in refused.names[: 1 if fault.inner == "FaultDetail" else MAX_NAMES]
        if not name.startswith("{")  # Elements' names: what is listed here are URIs.
    )


def _text(fault: Fault, refused: Refused) -> str:
    text = " ".join(filter(None, (fault.text, refused.text)))
    if refused.reason in _LISTING and refused.names:
        text = f"{text.rstrip('.')}; offered: {', '.join(refused.names[:MAX_NAMES])}"
    return text


def _prefixed(name: str) -> tuple[str, str]:
    """A Clark name as a QName with its own declaration: some stacks drop unused ones."""
    namespace, _, local = name[1:].partition("}")
    prefix = "wse" if namespace == names.WSE_2004_08 else "f"
    return f"{prefix}:{local}", f' xmlns:{prefix}="{namespace}"'


def _base_fault(fault: Fault, refused: Refused, now: datetime) -> str:
    """One element that extends BaseFaultType (WS-BaseFaults 1.2, section 2)."""
    namespace, _, local = fault.element[1:].partition("}")
    inner = ""
    if fault.detail is Detail.NAMES:
        # The schema wants one UnknownFilter at least.
        listed = refused.names[:MAX_NAMES] or (
            (f"{{{namespace}}}Filter",) if fault.inner == "UnknownFilter" else ()
        )
        inner = "".join(_qname_element(fault.inner, name) for name in listed)
    elif fault.detail is Detail.TIMES:
        inner = f"<f:MinimumTime>{format_seconds(now)}</f:MinimumTime>"
        inner += "".join(
            f"<f:MaximumTime>{xml_text(time)}</f:MaximumTime>" for time in refused.names[:1]
        )
    return (
        f'<f:{local} xmlns:f="{namespace}" xmlns:bf="{names.WSRF_BF}">'
        f"<bf:Timestamp>{format_seconds(now)}</bf:Timestamp>"
        f'<bf:Description xml:lang="en">{xml_text(_text(fault, refused))}</bf:Description>'
        f"{inner}</f:{local}>"
    )


def _selection_detail(refused: Refused) -> str:
    """The elements by which a MakeConnection asked to select, if that is what is wrong."""
    declared = f' xmlns:f="{names.MAKE_CONNECTION_1_1}"'
    return "".join(
        _qname_element("UnsupportedElement", name, declared) for name in refused.names[:MAX_NAMES]
    )


def _qname_element(element: str, name: str, declared: str = "") -> str:
    """An element whose text is a QName; ``x`` is bound to the name's namespace."""
    namespace, closed, local = name.rpartition("}")
    if not closed:
        return f"<f:{element}{declared}>{xml_text(name)}</f:{element}>"
    bound = f"{declared} xmlns:x={xml_attribute(namespace[1:])}"
    return f"<f:{element}{bound}>x:{xml_text(local)}</f:{element}>"


def _not_understood(name: str) -> str:
    namespace, _, local = name[1:].rpartition("}")
    if not namespace:
        return f"<s:NotUnderstood qname={xml_attribute(name)}/>"
    return (
        f"<s:NotUnderstood xmlns:x={xml_attribute(namespace)} qname={xml_attribute('x:' + local)}/>"
    )


_UPGRADE = (
    '<s:Upgrade><s:SupportedEnvelope qname="s:Envelope"/>'
    f'<s:SupportedEnvelope xmlns:s11="{Soap.V1_1.value}" qname="s11:Envelope"/></s:Upgrade>'
)


def _addressing_fault(
    refused: Refused,
    context: Context,
    code: Code,
    row: tuple[str, str, str],
    wsa: Wsa,
    retry_after: float | None,
) -> tuple[str, str]:
    """The body and the further headers of a fault of WS-Addressing; in SOAP 1.1 its detail
    travels in a header (WS-Addressing 1.0 SOAP Binding, section 6.2)."""
    final = wsa is Wsa.V2005_08
    subcode, inner = (row[0], row[1]) if final else (row[2], "")
    detail = ""
    if subcode == _UNAVAILABLE and retry_after is not None:
        # The schema of 2004/08 says ReplyAfter; its prose, which wins, RetryAfter.
        name = "RetryAfter" if wsa in (Wsa.V2005_08, Wsa.V2004_08) else "ReplyAfter"
        detail = f"<wsa:{name}>{round(retry_after * 1000)}</wsa:{name}>"
    elif final and subcode == "ActionNotSupported":
        action = context.headers.action or ""
        detail = (
            f"<wsa:ProblemAction><wsa:Action>{xml_text(action)}</wsa:Action></wsa:ProblemAction>"
        )
    elif final and refused.names and refused.names[0].startswith("wsa:"):
        detail = f"<wsa:ProblemHeaderQName>{xml_text(refused.names[0])}</wsa:ProblemHeaderQName>"
    text = f"{_ADDRESSING_TEXTS[subcode]} {refused.text}".strip()
    if context.soap is Soap.V1_1:
        header = f"<wsa:FaultDetail>{detail}</wsa:FaultDetail>" if detail and final else ""
        return (
            f"<s:Fault><faultcode>wsa:{subcode}</faultcode>"
            f"<faultstring>{xml_text(text)}</faultstring></s:Fault>"
        ), header
    nested = f"<s:Subcode><s:Value>wsa:{inner}</s:Value></s:Subcode>" if inner else ""
    sub = f"<s:Subcode><s:Value>wsa:{subcode}</s:Value>{nested}</s:Subcode>"
    return _body_1_2(code, sub, text, detail), ""
