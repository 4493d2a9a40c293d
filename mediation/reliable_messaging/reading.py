"""Messages as far as reliable messaging goes: header blocks, protocol messages, faults.

A message of an application that has none of it costs one look-up for each header block.
"""

from collections.abc import Callable, Mapping, Sequence

from lxml import etree

from filters import DocumentLimits, Reason, parse_document
from filters.documents import DEFAULT_LIMITS
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.messages import MessageHeaders
from mediation.model.requests import SequenceParts
from mediation.model.values import checked_dataclass
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging.bodies import BODIES
from mediation.reliable_messaging.canonical import Heading, heading_of
from mediation.reliable_messaging.faults import (
    MAX_DETAIL,
    FaultName,
    RmFault,
    RmRefused,
    read_rm_fault,
)
from mediation.reliable_messaging.parts import identifier_in, number_of
from mediation.reliable_messaging.ranges import Ranges
from mediation.reliable_messaging.values import (
    MAX_BLOCKS,
    MAX_BUFFER,
    MAX_RANGES,
    Acknowledgement,
    AcknowledgementAlone,
    AckRequested,
    AckRequestedAlone,
    Body,
    LastMessage,
    SequenceHeader,
)
from mediation.reliable_messaging.versions import RM_BY_NAMESPACE, Kind, Rm
from mediation.soap.addressing import read_headers
from mediation.soap.answers import PeerFault
from mediation.soap.envelopes import (
    Envelope,
    check_understood,
    elements,
    is_mandatory,
    local_name,
    namespace_of,
    read_envelope,
    text_of,
)
from mediation.soap.layout import layout_of
from mediation.soap.make_connection import (
    MAKE_CONNECTION,
    MAKE_CONNECTION_ACTION,
    Selection,
    read_selection,
)
from mediation.soap.payloads import payload_of


@checked_dataclass(frozen=True, slots=True)
class ReliableMessage(SequenceParts):
    """A message, as far as reliable messaging goes.

    Attributes:
        rm: The version; None where the message has nothing of reliable messaging.
        body: The content of a protocol message; None: it is an application's, or a fault.
        fault: What its body says went wrong; `PeerFault` is an application's.
        uses_token, uses_tls: (1.1) The sequence that is asked for is to be bound to a security
            token, or to the TLS session; who cannot do that has to refuse.
        message_pending: Whether more messages wait at a receiver of MakeConnection; None: it does
            not say.
        selection: What a MakeConnection in its body asks for; None: there is none.
        refusals: Faults to answer for those of its acknowledgements that are not valid, and not
            in *acknowledgements*. All else of the message is as good as without them.
    """

    soap: Soap
    headers: MessageHeaders
    rm: Rm | None = None
    sequence: SequenceHeader | None = None
    acknowledgements: tuple[Acknowledgement, ...] = ()
    ack_requested: tuple[AckRequested, ...] = ()
    body: Body | None = None
    fault: RmFault | PeerFault | None = None
    uses_token: bool = False
    uses_tls: bool = False
    message_pending: bool | None = None
    selection: Selection | None = None
    refusals: tuple[RmFault, ...] = ()

    @property
    def wsa(self) -> Wsa | None:
        return self.headers.wsa

    @property
    def makes_connection(self) -> bool:
        """Whether it is a MakeConnection: its action says so, or its body where it has none."""
        if self.headers.action is not None:
            return self.headers.action == MAKE_CONNECTION_ACTION
        return self.selection is not None and self.sequence is None


def read_message(
    octets: bytes,
    *,
    http_action: str | None = None,
    limits: DocumentLimits = DEFAULT_LIMITS,
    learnt: set[str] | None = None,
) -> ReliableMessage:
    """Read a message.

    Args:
        http_action: What stands for ``wsa:Action`` where there is none.
        learnt: Collects the names in the document, as `parse_document` does.

    Raises:
        RmRefused: What is wrong has a fault of WS-ReliableMessaging.
        Refused: It is not an envelope, a mandatory header block is not understood, or a part of
            reliable messaging is not valid.
    """
    heading = None
    if limits is DEFAULT_LIMITS and learnt is None:
        heading = heading_of(octets)
        if heading is not None and heading.acknowledgement is not None:
            return _headed(heading, AcknowledgementAlone())
    root = parse_document(octets, limits=limits, names=learnt)
    if heading is not None and _is_of_application(root, heading.soap):
        return _headed(heading, None)
    envelope = read_envelope(root)
    layout = layout_of(envelope.names)
    headers = read_headers(envelope, layout)
    check_understood(
        envelope,
        [at for at in layout.strange if namespace_of(envelope.headers[at]) not in _UNDERSTOOD],
    )
    return read_parts(envelope, headers, http_action=http_action)


def _is_of_application(root: etree._Element, soap: Soap) -> bool:
    """Whether an envelope, whose header is known, has one element of an application as its body,
    and nothing else."""
    namespace_of_soap: str = soap.value
    if len(root) != 2 or root[1].tag != f"{{{namespace_of_soap}}}Body" or len(root[1]) != 1:
        return False
    tag = root[1][0].tag
    # The tag of a comment is a function.
    if not isinstance(tag, str):
        return False  # type: ignore[unreachable]
    namespace = tag[1:].rpartition("}")[0]
    return namespace not in _UNDERSTOOD and namespace != namespace_of_soap


def _headed(heading: Heading, body: Body | None) -> ReliableMessage:
    said = heading.acknowledgement
    return ReliableMessage(
        heading.soap,
        heading.headers,
        heading.rm,
        heading.sequence,
        () if said is None else (said,),
        body=body,
    )


def read_parts(
    envelope: Envelope, headers: MessageHeaders, *, http_action: str | None = None
) -> ReliableMessage:
    """Read a message that is taken apart already; else as `read_message`, but that only the header
    blocks of reliable messaging itself are checked for mandatory ones."""
    found: dict[str, list[etree._Element]] = {}
    versions: set[Rm] = set()
    pending = None
    for name, block in zip(envelope.names, envelope.headers, strict=True):
        known = _BLOCKS.get(name)
        if known is not None:
            versions.add(known[0])
            found.setdefault(known[1], []).append(block)
        elif name == _PENDING:
            pending = _is_true(block.get("pending"))
        elif namespace_of(block) in RM_BY_NAMESPACE and is_mandatory(block, envelope.soap):
            raise MediationError(
                Reason.NOT_UNDERSTOOD, "A mandatory header block is not understood.", names=(name,)
            )
    element = envelope.body[0] if envelope.body else None
    fault: RmFault | PeerFault | None = None
    kind = None
    selection = None
    if element is None:
        kind = _EMPTY.get(headers.action or http_action or "")
        if kind is not None:
            versions.add(kind[0])
    elif element.tag == f"{{{envelope.soap.value}}}Fault":
        answered = read_rm_fault(element, tuple(found.get("SequenceFault", ())))
        fault = answered if isinstance(answered, PeerFault) else answered[1]
        if not isinstance(answered, PeerFault) and answered[0] is not None:
            versions.add(answered[0])
    elif element.tag == MAKE_CONNECTION:
        selection = read_selection(element)
    elif (spoken := RM_BY_NAMESPACE.get(namespace_of(element))) is not None:
        versions.add(spoken)
    if not versions:
        return ReliableMessage(
            envelope.soap, headers, fault=fault, message_pending=pending, selection=selection
        )
    rm = _one_version(versions, headers)
    acknowledgements, refusals = _acknowledgements(rm, found.get("SequenceAcknowledgement", ()))
    return ReliableMessage(
        envelope.soap,
        headers,
        rm,
        _sequence(rm, found.get("Sequence", ())),
        acknowledgements,
        tuple(
            AckRequested(identifier_in(rm, block))
            for block in _few(found.get("AckRequested", ()), "AckRequested")
        ),
        _body(rm, element, kind, found) if fault is None else None,
        fault,
        uses_token="UsesSequenceSTR" in found,
        uses_tls="UsesSequenceSSL" in found,
        message_pending=pending,
        selection=selection,
        refusals=refusals,
    )


_UNDERSTOOD = frozenset({*RM_BY_NAMESPACE, names.MAKE_CONNECTION_1_1})
_PENDING = f"{{{names.MAKE_CONNECTION_1_1}}}MessagePending"
_ROLES = (
    "Sequence",
    "SequenceAcknowledgement",
    "AckRequested",
    "SequenceFault",
    "UsesSequenceSTR",
    "UsesSequenceSSL",
)
_BLOCKS: Mapping[str, tuple[Rm, str]] = {
    f"{{{rm.namespace}}}{role}": (rm, role)
    for rm in Rm
    for role in _ROLES
    if not role.startswith("Uses") or role in rm.rules.elements
}
"""The header blocks, by expanded name."""
_WITHOUT_BODY: Mapping[Kind, Callable[[], Body]] = {
    Kind.LAST_MESSAGE: LastMessage,
    Kind.ACKNOWLEDGEMENT: AcknowledgementAlone,
    Kind.ACK_REQUESTED: AckRequestedAlone,
}
_EMPTY: Mapping[str, tuple[Rm, Kind]] = {
    rm.action(kind): (rm, kind) for rm in Rm for kind in _WITHOUT_BODY if kind in rm.rules.kinds
}
"""The protocol messages whose body is empty, by action."""


def _is_true(value: str | None) -> bool:
    return (value or "").strip() in ("1", "true")


def _one_version(versions: set[Rm], headers: MessageHeaders) -> Rm:
    if len(versions) > 1:
        raise MediationError(
            Reason.MESSAGE_INVALID, "The message has two versions of WS-ReliableMessaging."
        )
    [rm] = versions
    if headers.wsa is not None and headers.wsa not in rm.rules.wsa:
        raise MediationError(
            Reason.MESSAGE_INVALID,
            f"WS-ReliableMessaging {rm.number} is not spoken in this version of WS-Addressing.",
        )
    return rm


def _few(blocks: Sequence[etree._Element], name: str) -> Sequence[etree._Element]:
    if len(blocks) > MAX_BLOCKS:
        raise MediationError(
            Reason.MESSAGE_INVALID, f"There are more than {MAX_BLOCKS} headers {name}."
        )
    return blocks


def _body(
    rm: Rm,
    element: etree._Element | None,
    kind: tuple[Rm, Kind] | None,
    found: Mapping[str, list[etree._Element]],
) -> Body | None:
    if element is None:
        if kind is not None:
            return _WITHOUT_BODY[kind[1]]()
        return None
    if namespace_of(element) != rm.namespace:
        return None
    read = BODIES.get(local_name(element))
    if read is None or Kind(local_name(element)) not in rm.rules.kinds:
        raise MediationError(
            Reason.ACTION_UNSUPPORTED,
            f"WS-ReliableMessaging {rm.number} has no such message.",
            value=str(element.tag)[:200],
        )
    return read(rm, element)


def _sequence(rm: Rm, blocks: Sequence[etree._Element]) -> SequenceHeader | None:
    if not blocks:
        return None
    if len(blocks) > 1:
        raise MediationError(Reason.MESSAGE_INVALID, "The message has two Sequence headers.")
    [block] = blocks
    identifier = identifier_in(rm, block)
    number, last = 0, False
    for child in elements(block):
        if namespace_of(child) != rm.namespace:
            continue
        match local_name(child):
            case "MessageNumber":
                number = number_of(text_of(child), "MessageNumber")
            case "LastMessage":
                last = "LastMessage" in rm.rules.elements
    if number == 0:
        raise MediationError(Reason.MESSAGE_INVALID, "A Sequence header has no number above 0.")
    if number > rm.rules.largest:
        raise RmRefused(
            RmFault(FaultName.MESSAGE_NUMBER_ROLLOVER, identifier, largest=rm.rules.largest)
        )
    return SequenceHeader(identifier, number, last)


def _acknowledgements(
    rm: Rm, blocks: Sequence[etree._Element]
) -> tuple[tuple[Acknowledgement, ...], tuple[RmFault, ...]]:
    valid: list[Acknowledgement] = []
    refusals: list[RmFault] = []
    for block in _few(blocks, "SequenceAcknowledgement"):
        identifier = identifier_in(rm, block)
        try:
            valid.append(_acknowledgement(rm, identifier, block))
        except _Invalid:
            detail = payload_of(block)
            refusals.append(
                RmFault(
                    FaultName.INVALID_ACKNOWLEDGEMENT,
                    identifier,
                    detail=detail if len(detail) <= MAX_DETAIL else b"",
                )
            )
    return tuple(valid), tuple(refusals)


class _Invalid(Exception):
    """An acknowledgement of numbers that no message can have."""


def _acknowledgement(rm: Rm, identifier: str, block: etree._Element) -> Acknowledgement:
    """Read an acknowledgement, its children in any order, ranges with Nack, adjacent and
    overlapping ranges, blanks around numbers; 0-0 is not a number."""
    pairs: list[tuple[int, int]] = []
    nacks: list[int] = []
    final, remaining = False, None
    for child in elements(block):
        namespace, name = namespace_of(child), local_name(child)
        if namespace == names.NETRM and name == "BufferRemaining":
            remaining = _remaining(text_of(child))
        if namespace != rm.namespace:
            continue
        match name:
            case "AcknowledgementRange":
                upper = number_of(child.get("Upper", ""), "Upper")
                lower = number_of(child.get("Lower", ""), "Lower")
                if upper or lower:
                    pairs.append((lower, upper))
            case "Nack":
                nacks.append(number_of(text_of(child), "Nack"))
            case "Final":
                final = "Final" in rm.rules.elements
        if max(len(pairs), len(nacks)) > MAX_RANGES:
            raise MediationError(
                Reason.MESSAGE_INVALID, f"An acknowledgement has more than {MAX_RANGES} ranges."
            )
    wrong = [True for lower, upper in pairs if not 1 <= lower <= upper <= rm.rules.largest]
    if wrong or any(not 1 <= number <= rm.rules.largest for number in nacks):
        raise _Invalid
    return Acknowledgement(identifier, Ranges.of(pairs), final, tuple(nacks), remaining)


def _remaining(text: str) -> int | None:
    """Read WCF's BufferRemaining; a hint, so that one which is not a number is none."""
    try:
        return min(number_of(text, "BufferRemaining"), MAX_BUFFER)
    except MediationError:
        return None
