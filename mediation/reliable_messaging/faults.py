"""The faults of WS-ReliableMessaging (1.0 section 4, 1.1 section 4) as values, read and written.

In SOAP 1.2 the name of a fault is the subcode. SOAP 1.1 has none: there a fault about a header
block is named by the header block SequenceFault, one about a protocol message by its faultcode.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from lxml import etree

from filters import Reason
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.messages import EndpointReference
from mediation.model.specification import Code
from mediation.model.versions import Soap
from mediation.reliable_messaging.values import MAX_IDENTIFIER
from mediation.reliable_messaging.versions import RM_BY_NAMESPACE, Rm, Spoken
from mediation.soap.answers import MAX_REASON, PeerFault, read_fault_element
from mediation.soap.envelopes import elements, local_name, namespace_of, text_of, xml_text
from mediation.soap.payloads import payload_of

MAX_DETAIL = 4096
"""The most octets of what a fault's detail repeats of the message that it is about."""


class FaultName(Enum):
    """The faults; the value is the local name of the code."""

    SEQUENCE_TERMINATED = "SequenceTerminated"
    UNKNOWN_SEQUENCE = "UnknownSequence"
    INVALID_ACKNOWLEDGEMENT = "InvalidAcknowledgement"
    MESSAGE_NUMBER_ROLLOVER = "MessageNumberRollover"
    LAST_MESSAGE_NUMBER_EXCEEDED = "LastMessageNumberExceeded"
    CREATE_SEQUENCE_REFUSED = "CreateSequenceRefused"
    SEQUENCE_CLOSED = "SequenceClosed"
    WSRM_REQUIRED = "WSRMRequired"


class Told(Enum):
    """What the detail of a fault tells."""

    IDENTIFIER = "the identifier of the sequence"
    LARGEST = "the identifier, and in 1.1 the largest message number"
    ACKNOWLEDGEMENT = "the acknowledgement that is not valid"
    ANYTHING = "whatever explains it"


@dataclass(frozen=True, slots=True)
class FaultRow:
    """A fault as the specification has it.

    Attributes:
        ends: Whether the sequence is over for whoever is told.
    """

    text: str
    told: Told
    code: Code = Code.SENDER
    versions: frozenset[Rm] = frozenset(Rm)
    ends: bool = False


FAULTS: Mapping[FaultName, FaultRow] = {
    FaultName.SEQUENCE_TERMINATED: FaultRow(
        "The Sequence has been terminated due to an unrecoverable error.",
        Told.IDENTIFIER,
        Code.RECEIVER,
        ends=True,
    ),
    FaultName.UNKNOWN_SEQUENCE: FaultRow(
        "The value of wsrm:Identifier is not a known Sequence identifier.",
        Told.IDENTIFIER,
        ends=True,
    ),
    FaultName.INVALID_ACKNOWLEDGEMENT: FaultRow(
        "The SequenceAcknowledgement violates the cumulative Acknowledgement invariant.",
        Told.ACKNOWLEDGEMENT,
    ),
    FaultName.MESSAGE_NUMBER_ROLLOVER: FaultRow(
        "The maximum value for wsrm:MessageNumber has been exceeded.", Told.LARGEST, ends=True
    ),
    FaultName.LAST_MESSAGE_NUMBER_EXCEEDED: FaultRow(
        "The value for wsrm:MessageNumber exceeds the value of the MessageNumber accompanying a "
        "LastMessage element in this Sequence.",
        Told.IDENTIFIER,
        versions=frozenset({Rm.V1_0}),
        ends=True,
    ),
    FaultName.CREATE_SEQUENCE_REFUSED: FaultRow(
        "The Create Sequence request has been refused by the RM Destination.",
        Told.ANYTHING,
        ends=True,
    ),
    FaultName.SEQUENCE_CLOSED: FaultRow(
        "The Sequence is closed and cannot accept new messages.",
        Told.IDENTIFIER,
        versions=frozenset({Rm.V1_1}),
    ),
    FaultName.WSRM_REQUIRED: FaultRow(
        "The RM Destination requires the use of WSRM.",
        Told.ANYTHING,
        versions=frozenset({Rm.V1_1}),
    ),
}

CONNECTION_LIMIT_REACHED = f"{{{names.NETRM}}}ConnectionLimitReached"
"""The subcode that WCF nests in CreateSequenceRefused when it has no room."""


@dataclass(frozen=True, slots=True)
class RmFault:
    """A fault of WS-ReliableMessaging.

    Attributes:
        identifier: The sequence that it is about, where it tells.
        code: The side that is at fault; None: as the specification has it.
        reason: What it says in words; empty: what the specification says.
        subcode: (SOAP 1.2) The expanded name of the subcode within the subcode.
        largest: The largest message number that the peer takes.
        detail: Further content of the detail (bytes), with every namespace declared that it uses:
            of InvalidAcknowledgement the acknowledgement.
    """

    name: FaultName
    identifier: str | None = None
    code: Code | None = None
    reason: str = ""
    subcode: str = ""
    largest: int | None = None
    detail: bytes = b""


class RmRefused(MediationError):
    """A message that is refused with a fault of WS-ReliableMessaging.

    Attributes:
        blocks: Acknowledgements that travel with the fault.
        acks_to: The address of its sequence, to which a fault about it goes.
    """

    def __init__(
        self,
        fault: RmFault,
        text: str = "",
        *,
        blocks: tuple[bytes, ...] = (),
        acks_to: EndpointReference | None = None,
    ) -> None:
        super().__init__(Reason.MESSAGE_INVALID, text or FAULTS[fault.name].text)
        self.fault = fault
        self.blocks = blocks
        self.acks_to = acks_to


# Writing.


def status_of(fault: RmFault, soap: Soap) -> int:
    """The status of HTTP that a fault is answered with: in SOAP 1.2 that of the sender is 400
    (SOAP 1.2 Part 2, section 7.5.2), in SOAP 1.1 all are 500 (WS-I Basic Profile)."""
    sender = (fault.code or FAULTS[fault.name].code) is Code.SENDER
    return 400 if sender and soap is Soap.V1_2 else 500


def write_fault_parts(fault: RmFault, spec: Spoken, *, about_header: bool) -> tuple[str, str]:
    """Write *fault*: header blocks, and the body.

    Args:
        about_header: It is about a header block of reliable messaging; else it answers a protocol
            message. SOAP 1.1 tells them apart.

    Raises:
        ValueError: The version has no such fault.
    """
    row = FAULTS[fault.name]
    if spec.rm not in row.versions:
        raise ValueError(f"WS-ReliableMessaging {spec.rm.number} has no {fault.name.value}")
    declared = f' xmlns:wsrm="{spec.rm.namespace}"'
    code = (fault.code or row.code).name_in(spec.soap)
    text = xml_text(fault.reason or row.text)
    detail = _written_detail(fault, row, spec.rm)
    if spec.soap is Soap.V1_2:
        inner = f"<s:Value{declared}>wsrm:{fault.name.value}</s:Value>{_written_subcode(fault)}"
        return "", (
            f"<s:Fault><s:Code><s:Value>s:{code}</s:Value><s:Subcode>{inner}</s:Subcode></s:Code>"
            f'<s:Reason><s:Text xml:lang="en">{text}</s:Text></s:Reason>'
            f"{f'<s:Detail>{detail}</s:Detail>' if detail else ''}</s:Fault>"
        )
    if not about_header:
        return "", (
            f"<s:Fault><faultcode{declared}>wsrm:{fault.name.value}</faultcode>"
            f"<faultstring>{text}</faultstring>"
            f"{f'<detail>{detail}</detail>' if detail else ''}</s:Fault>"
        )
    if detail and "Detail" in spec.rm.rules.elements:
        detail = f"<wsrm:Detail>{detail}</wsrm:Detail>"
    return (
        f"<wsrm:SequenceFault{declared}><wsrm:FaultCode>wsrm:{fault.name.value}</wsrm:FaultCode>"
        f"{detail}</wsrm:SequenceFault>"
    ), (f"<s:Fault><faultcode>s:{code}</faultcode><faultstring>{text}</faultstring></s:Fault>")


def _written_detail(fault: RmFault, row: FaultRow, rm: Rm) -> str:
    detail = fault.detail.decode()
    if row.told is Told.ACKNOWLEDGEMENT and detail:
        return detail
    declared = f' xmlns:wsrm="{rm.namespace}"'
    told = ""
    if fault.identifier is not None:
        told = f"<wsrm:Identifier{declared}>{xml_text(fault.identifier)}</wsrm:Identifier>"
    if row.told is Told.LARGEST and "MaxMessageNumber" in rm.rules.elements:
        largest = fault.largest or rm.rules.largest
        told += f"<wsrm:MaxMessageNumber{declared}>{largest}</wsrm:MaxMessageNumber>"
    return told + detail


def _written_subcode(fault: RmFault) -> str:
    if not fault.subcode:
        return ""
    namespace, _, local = fault.subcode[1:].rpartition("}")
    return (
        f'<s:Subcode><s:Value xmlns:sub="{xml_text(namespace)}">sub:{local}</s:Value></s:Subcode>'
    )


# Reading.

_NAMES = {name.value: name for name in FaultName}
_CODES = {word: code for code in Code for word in code.value}


def read_rm_fault(
    fault: etree._Element, blocks: tuple[etree._Element, ...]
) -> tuple[Rm | None, RmFault] | PeerFault:
    """Read the *fault* in a body, with the header *blocks* beside it.

    Its name is read wherever peers write it: in SequenceFault, in the faultcode, as a subcode. The
    version is None where the prefix of its name is not declared. A fault that is not of
    reliable messaging is the application's.
    """
    said = read_fault_element(fault)
    headers = [block for block in blocks if local_name(block) == "SequenceFault"]
    headers = [block for block in headers if namespace_of(block) in RM_BY_NAMESPACE]
    for element in _named(fault, headers):
        namespace, local = _expanded(element)
        name = _NAMES.get(local)
        rm = RM_BY_NAMESPACE.get(namespace or "")
        if name is None or (rm is None and namespace is not None):
            continue
        details = [
            *headers,
            *(part for part in elements(fault) if local_name(part) in ("Detail", "detail")),
        ]
        return rm or _version_in(headers), RmFault(
            name,
            _identifier_in(details),
            _CODES.get(said.code),
            said.reason,
            _inner_subcode(fault),
            _largest_in(details),
            _invalid_in(details),
        )
    return said


def _named(fault: etree._Element, headers: list[etree._Element]) -> Iterator[etree._Element]:
    """The elements whose text may be the name of the fault."""
    for header in headers:
        for child in elements(header):
            if local_name(child) == "FaultCode":
                yield child
    for child in elements(fault):
        if local_name(child) == "faultcode":
            yield child
        elif local_name(child) == "Code":
            yield from _subcodes(child)


def _subcodes(code: etree._Element) -> Iterator[etree._Element]:
    """The values of the subcodes of a SOAP 1.2 code, outermost first."""
    for child in code.iter("{*}Subcode"):
        for value in elements(child):
            if local_name(value) == "Value":
                yield value
                break


def _expanded(element: etree._Element) -> tuple[str | None, str]:
    """The namespace and the local name of the QName in *element*; None where its prefix is not
    declared, or there is none and no default namespace."""
    text = text_of(element)[:MAX_REASON]
    if text.startswith("{"):
        namespace, _, local = text[1:].rpartition("}")
        return namespace, local
    prefix, _, local = text.rpartition(":")
    return element.nsmap.get(prefix or None), local


def _version_in(headers: list[etree._Element]) -> Rm | None:
    return RM_BY_NAMESPACE[namespace_of(headers[0])] if headers else None


def _inner_subcode(fault: etree._Element) -> str:
    for child in elements(fault):
        if local_name(child) == "Code":
            for value in list(_subcodes(child))[1:2]:
                namespace, local = _expanded(value)
                return f"{{{namespace}}}{local}" if namespace else local
    return ""


def _in_details(details: list[etree._Element], local: str) -> Iterator[etree._Element]:
    for detail in details:
        for element in detail.iter(f"{{*}}{local}"):
            if namespace_of(element) in RM_BY_NAMESPACE:
                yield element


def _identifier_in(details: list[etree._Element]) -> str | None:
    for element in _in_details(details, "Identifier"):
        text = text_of(element)
        if text and len(text.encode()) <= MAX_IDENTIFIER:
            return text
    return None


def _largest_in(details: list[etree._Element]) -> int | None:
    for element in _in_details(details, "MaxMessageNumber"):
        text = text_of(element)
        if text.isascii() and text.isdecimal() and len(text) <= 20:
            return int(text)
    return None


def _invalid_in(details: list[etree._Element]) -> bytes:
    for element in _in_details(details, "SequenceAcknowledgement"):
        octets = payload_of(element)
        return octets if len(octets) <= MAX_DETAIL else b""
    return b""
