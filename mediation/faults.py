"""Faults on the wire: the envelope that tells a peer why its message is refused.

The most specific row names the fault: the row of the specification's `faults` for the operation,
that for any operation, the row of `FAULTS`. Before all of them go the rows of the specification for
peers of WS-Management (`managed`).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from filters import Reason, Refused, dialects
from mediation import names
from mediation.eventing import management
from mediation.model.expiry import format_seconds
from mediation.model.messages import EndpointReference
from mediation.model.requests import Context, Operation
from mediation.model.specification import MAX_NAMES, Code, Detail, Fault
from mediation.model.versions import Soap, Version, Wsa
from mediation.reliable_messaging import FAULTS as RM_FAULTS
from mediation.reliable_messaging import (
    RM_BY_NAMESPACE,
    ReliableMessage,
    Rm,
    RmRefused,
    RmSpec,
    status_of,
    write_rm_fault,
)
from mediation.soap.addressing import reference_headers, write_headers
from mediation.soap.envelopes import write_envelope, xml_attribute, xml_text
from mediation.specifications import SPECIFICATIONS


def _dpws_fault(namespace: str, prefix: str) -> Fault:
    """The fault of a version of DPWS that has a filter of actions (DPWS 1.1, "Filtering")."""
    return Fault(
        subcode=f"{{{namespace}}}FilterActionNotSupported",
        prefix=prefix,
        action=f"{namespace}/fault",
    )


def _security_fault(name: str) -> Fault:
    return Fault(subcode=f"{{{names.WSSE}}}{name}", prefix="wsse")


SENDER = Fault()
RECEIVER = Fault(Code.RECEIVER)

FAULTS: Mapping[Reason, Fault] = {
    # SOAP's own.
    Reason.VERSION_MISMATCH: Fault(Code.VERSION_MISMATCH),
    Reason.NOT_UNDERSTOOD: Fault(Code.NOT_UNDERSTOOD),
    Reason.UNAVAILABLE: RECEIVER,
    Reason.INTERNAL: RECEIVER,
    Reason.MAILBOX_FULL: RECEIVER,
    Reason.MAILBOX_BUSY: RECEIVER,
    Reason.FILTER_ACTIONS: replace(
        _dpws_fault(names.DPWS_1_1, "dpws"),
        instead=((dialects.ACTION_DPWS_1_0, _dpws_fault(names.DPWS_1_0, "wsdp")),),
    ),
    # WS-Security 1.1, section 12.
    Reason.NOT_IDENTIFIED: _security_fault("FailedAuthentication"),
    Reason.TOKEN_REFUSED: _security_fault("FailedAuthentication"),
    Reason.TOKEN_INVALID: _security_fault("InvalidSecurity"),
    Reason.TOKEN_UNSUPPORTED: _security_fault("UnsupportedSecurityToken"),
    Reason.TOKEN_UNAVAILABLE: _security_fault("SecurityTokenUnavailable"),
    Reason.CERTIFICATE_REFUSED: _security_fault("InvalidSecurityToken"),
    Reason.SIGNATURE_REFUSED: _security_fault("FailedCheck"),
    Reason.ALGORITHM_UNSUPPORTED: _security_fault("UnsupportedAlgorithm"),
    Reason.MESSAGE_EXPIRED: Fault(subcode=f"{{{names.WSU}}}MessageExpired", prefix="wsu"),
    **management.FAULTS,
}
"""Faults of messages in any specification, and in none."""

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
    Reason.NOT_IDENTIFIED: 401,
    Reason.NOT_ALLOWED: 403,
    Reason.SOURCE_UNKNOWN: 410,
    Reason.TOO_LARGE: 413,
    Reason.MEDIA_TYPE: 415,
    Reason.RATE: 429,
    Reason.UNAVAILABLE: 503,
    Reason.MAILBOX_FULL: 503,
}
"""Reasons that HTTP has a status for, whatever SOAP says."""


def fault_of(
    reason: Reason,
    operation: Operation | None,
    version: Version | None,
    *,
    managed: bool = False,
) -> Fault:
    """The fault for *reason*; a plain fault of the sender where no row names it. *managed*: the
    request has header blocks of WS-Management."""
    if version is not None:
        specification = SPECIFICATIONS[version]
        for faults in (specification.managed, specification.faults)[not managed :]:
            for key in ((reason, operation), (reason, None)):
                if key in faults:
                    return faults[key]
    return FAULTS.get(reason, SENDER)


def write_fault(
    refused: Refused,
    context: Context,
    *,
    now: datetime,
    message_id: str,
    retry_after: float | None = None,
    to: EndpointReference | None = None,
    begin: str = "",
    status_of_calls: int = 500,
) -> tuple[int, str, bytes]:
    """Write a fault in the versions that the peer spoke: the HTTP status, the action (empty without
    WS-Addressing) and the envelope. *to* is where the peer wants faults, if not in the answer;
    *begin* is what its text begins with; *status_of_calls* stands for 500 where a method was
    called.

    The status is 500 in SOAP 1.1 (WS-I Basic Profile); in SOAP 1.2 the sender's faults are 400
    (SOAP 1.2 Part 2, section 7.5.2): where neither the fault's row nor `_HTTP_STATUS` says another.
    """
    if isinstance(refused, RmRefused):
        return _reliable_fault(refused, context, to)
    managed = names.WSMAN in context.header_namespaces
    fault = fault_of(refused.reason, context.operation, context.version, managed=managed)
    fault = next((other for name, other in fault.instead if name in refused.names), fault)
    if begin:
        fault = replace(fault, text=" ".join(filter(None, (begin, fault.text))))
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
    called = context.version is not None and SPECIFICATIONS[context.version].calls
    usual = 400 if sender else status_of_calls if called else 500
    status = fault.status or _HTTP_STATUS.get(refused.reason, usual)
    return status, action if wsa is not None else "", write_envelope(soap, wsa, headers, body)


def _reliable_fault(
    refused: RmRefused, context: Context, to: EndpointReference | None
) -> tuple[int, str, bytes]:
    """Write a fault of WS-ReliableMessaging, in the version that the message spoke."""
    said, fault, operation = context.reliable, refused.fault, context.operation
    rm = said.rm if isinstance(said, ReliableMessage) and said.rm is not None else None
    if rm is None:
        spoken = [RM_BY_NAMESPACE[each] for each in RM_BY_NAMESPACE if each in _said(context)]
        rm = spoken[0] if spoken else Rm.V1_1
    if rm not in RM_FAULTS[fault.name].versions:
        rm = Rm.V1_1
    wsa = context.wsa or rm.rules.wsa[0]
    action, envelope = write_rm_fault(
        RmSpec(rm, context.soap, wsa),
        fault,
        about_header=operation not in _PROTOCOL,
        to=to or EndpointReference(wsa.anonymous, wsa),
        relates_to=context.headers.message_id,
        blocks=refused.blocks,
    )
    return status_of(fault, context.soap), action, envelope


_PROTOCOL = frozenset(
    {Operation.CREATE_SEQUENCE, Operation.CLOSE_SEQUENCE, Operation.TERMINATE_SEQUENCE}
)
"""Requests about sequences that are messages of their own, not header blocks."""


def _said(context: Context) -> frozenset[str]:
    return context.header_namespaces | {context.element[1:].partition("}")[0]}


def _action(fault: Fault, context: Context, addressing: bool) -> str:
    wsa = context.wsa or Wsa.V2005_08
    if not addressing and fault.action:
        return fault.action
    if names.WSMAN in context.header_namespaces:
        return f"{names.WSE_2004_08}/fault"
    own = fault.subcode and not fault.soap_action
    if wsa is Wsa.V2005_08 and not addressing and not own:
        return names.WSA_SOAP_FAULT
    return wsa.fault_action


def _fault_1_1(fault: Fault, refused: Refused, now: datetime) -> str:
    code, declaration = f"s:{fault.code.name_in(Soap.V1_1)}", ""
    if fault.subcode:
        code, declaration = _prefixed(fault)
    detail = _detail(fault, refused, now) if fault.in_soap_1_1 else ""
    return (
        f"<s:Fault><faultcode{declaration}>{code}</faultcode>"
        f"<faultstring>{xml_text(_text(fault, refused))}</faultstring>"
        f"{f'<detail>{detail}</detail>' if detail else ''}</s:Fault>"
    )


def _fault_1_2(fault: Fault, refused: Refused, now: datetime) -> str:
    subcode = ""
    if fault.subcode:
        value, declaration = _prefixed(fault)
        subcode = f"<s:Subcode><s:Value{declaration}>{value}</s:Value></s:Subcode>"
    detail = _detail(fault, refused, now)
    return _body_1_2(fault.code, subcode, _text(fault, refused), detail)


def _body_1_2(code: Code, subcode: str, text: str, detail: str) -> str:
    return (
        f"<s:Fault><s:Code><s:Value>s:{code.name_in(Soap.V1_2)}</s:Value>{subcode}</s:Code>"
        f'<s:Reason><s:Text xml:lang="en">{xml_text(text)}</s:Text></s:Reason>'
        f"{f'<s:Detail>{detail}</s:Detail>' if detail else ''}</s:Fault>"
    )


_LISTING = frozenset(
    {Reason.FILTER_DIALECT, Reason.TOPIC_DIALECT, Reason.DELIVERY_MODE, Reason.QUERY_DIALECT}
)
"""Reasons whose names are the values that are offered instead."""


def _detail(fault: Fault, refused: Refused, now: datetime) -> str:
    if not fault.element:
        return _children(fault, refused, now, declared=True)
    # WS-BaseFaults 1.2, section 2.
    namespace, _, local = fault.element[1:].partition("}")
    return (
        f'<f:{local} xmlns:f="{namespace}" xmlns:bf="{fault.base}">'
        f"<bf:Timestamp>{format_seconds(now)}</bf:Timestamp>"
        f'<bf:Description xml:lang="en">{xml_text(_text(fault, refused))}</bf:Description>'
        f"{_children(fault, refused, now)}</f:{local}>"
    )


def _children(fault: Fault, refused: Refused, now: datetime, *, declared: bool = False) -> str:
    """Write the children of the detail, in the namespace of the fault.

    Args:
        declared: Each child declares that namespace: there is no element around them.
    """
    namespace = (fault.element or fault.subcode)[1:].partition("}")[0]
    match fault.detail:
        case Detail.URIS:
            return "".join(
                f'<d:{fault.inner} xmlns:d="{namespace}">{xml_text(name)}</d:{fault.inner}>'
                for name in (*fault.always, *refused.names)[: fault.most]
                if not name.startswith("{")  # Elements' names: what is listed here are URIs.
            )
        case Detail.TEXTS:
            inner, _, local = fault.inner[1:].partition("}")
            return "".join(
                f'<e:{local} xmlns:e="{inner}">{xml_text(name)}</e:{local}>'
                for name in (*fault.always, *refused.names)[: fault.most]
            )
        case Detail.QNAMES:
            listed = refused.names[: fault.most] or tuple(filter(None, (fault.otherwise,)))
            declaration = f' xmlns:f="{namespace}"' if declared else ""
            return "".join(_qname_element(fault.inner, name, declaration) for name in listed)
        case Detail.TIMES:
            latest = "".join(
                f"<f:MaximumTime>{xml_text(time)}</f:MaximumTime>" for time in refused.names[:1]
            )
            return f"<f:MinimumTime>{format_seconds(now)}</f:MinimumTime>{latest}"
        case Detail.CHANGE:
            return '<f:ResourcePropertyChangeFailure Restored="true"/>'
        case Detail.NONE:
            return ""


def _text(fault: Fault, refused: Refused) -> str:
    text = " ".join(filter(None, (fault.text, refused.text)))
    if refused.reason in _LISTING and refused.names:
        spelled = dict(fault.spelled)
        names_ = [spelled.get(name, name) for name in (*fault.always, *refused.names)]
        offered = list(dict.fromkeys(names_))[:MAX_NAMES]
        text = f"{text.rstrip('.')}; offered: {', '.join(offered)}"
    return text


def _prefixed(fault: Fault) -> tuple[str, str]:
    """The subcode as a QName with its own declaration: some stacks drop unused ones."""
    namespace, _, local = fault.subcode[1:].partition("}")
    return f"{fault.prefix}:{local}", f' xmlns:{fault.prefix}="{namespace}"'


def _qname_element(element: str, name: str, declared: str = "") -> str:
    """Write an element whose text is a QName; ``x`` is bound to the name's namespace."""
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
