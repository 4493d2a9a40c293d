"""Faults in the answers of peers, in any SOAP version and at any status."""

from dataclasses import dataclass, field

from lxml import etree

from filters import Refused, parse_document
from mediation.soap.envelopes import elements, local_name, namespace_of, text_of

MAX_OCTETS = 64 * 1024
MAX_REASON = 300
_PERMANENT = frozenset({"Client", "Sender", "MustUnderstand", "VersionMismatch"})
_WORDS = (b"Fault", "Fault".encode("utf-16-le")[:-1])
"""Octets of the word Fault; the second form is common to both octet orders of UTF-16."""
_PERMANENT_SUBCODES = frozenset({"DeliveryRefused", "DestinationUnreachable", "ActionNotSupported"})


@dataclass(frozen=True, slots=True)
class PeerFault:
    """A fault that a peer answered; codes by local name, their prefixes are often unbound.
    ``namespace`` is that of the subcode, where its prefix is bound."""

    code: str
    subcode: str | None
    reason: str
    permanent: bool
    namespace: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PeerReply:
    """A peer's answer to a message: the action and the relation of its envelope, or the fault
    in it."""

    action: str | None = None
    relates_to: str | None = None
    fault: PeerFault | None = None


def read_reply(octets: bytes, *, names: set[str] | None = None) -> PeerReply | None:
    """Read the envelope that a peer answered; None where there is none.

    Args:
        names: Collects the names in it; see `parse_document`.

    Raises:
        FilterError: The answer is not an acceptable document.
    """
    if len(octets) > MAX_OCTETS:
        return None
    root = parse_document(octets, names=names)
    if local_name(root) != "Envelope":
        return None
    action = relates_to = None
    for part in elements(root):
        for block in elements(part) if local_name(part) == "Header" else ():
            match local_name(block):
                case "Action":
                    action = action or text_of(block)
                case "RelatesTo":
                    relates_to = relates_to or text_of(block)
    return PeerReply(action, relates_to, _fault_of(root))


def fault_in(octets: bytes) -> PeerFault | None:
    """The fault in the body of an answer; None where there is none, or it cannot be read."""
    try:
        return read_fault(octets)
    except Refused:
        return None


def read_fault(octets: bytes, *, names: set[str] | None = None) -> PeerFault | None:
    """The fault in the body of an answer, as `fault_in`, for a caller that counts what is parsed.

    Args:
        names: Collects the names in it; see `parse_document`.

    Raises:
        FilterError: The answer is not an acceptable document.
    """
    if not any(word in octets for word in _WORDS) or len(octets) > MAX_OCTETS:
        return None
    root = parse_document(octets, names=names)
    return _fault_of(root) if local_name(root) == "Envelope" else None


def _fault_of(root: etree._Element) -> PeerFault | None:
    namespace = namespace_of(root)
    for body in elements(root):
        if local_name(body) == "Body":
            for fault in elements(body):
                # In the envelope's namespace: events may be called Fault, too.
                if fault.tag == f"{{{namespace}}}Fault":
                    return read_fault_element(fault)
    return None


def read_fault_element(fault: etree._Element) -> PeerFault:
    """Read the ``Fault`` of a body, in any version of SOAP."""
    code, subcode, reason, namespace = "", None, "", ""
    for child in elements(fault):
        match local_name(child):
            case "faultcode":
                code = _local(text_of(child))
            case "faultstring":
                reason = text_of(child)
            case "Code":
                for part in elements(child):
                    if local_name(part) == "Value":
                        code = _local(text_of(part))
                    elif local_name(part) == "Subcode":
                        for value in elements(part)[:1]:
                            subcode = _local(text_of(value))
                            prefix = text_of(value).rpartition(":")[0]
                            namespace = value.nsmap.get(prefix or None, "")
            case "Reason":
                for text in elements(child)[:1]:
                    reason = text_of(text)
    permanent = code in _PERMANENT or (subcode or code) in _PERMANENT_SUBCODES
    return PeerFault(code, subcode, reason[:MAX_REASON], permanent, namespace)


def _local(name: str) -> str:
    """The local name of a QName in any form: ``s:Client.Authentication`` (SOAP 1.1, section
    4.4.1), Clark notation, and Savan/C's full stop at the end."""
    return name.rpartition("}")[2].rpartition(":")[2].partition(".")[0][:MAX_REASON]
