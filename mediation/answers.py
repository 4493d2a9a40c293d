"""What a consumer's answer says: a fault in it, in any SOAP version and at any status."""

from dataclasses import dataclass

from lxml import etree

from filters import Refused, parse_document
from mediation.soap import elements, local_name, text_of

MAX_OCTETS = 64 * 1024
_PERMANENT = frozenset({"Client", "Sender", "MustUnderstand", "VersionMismatch"})
_PERMANENT_SUBCODES = frozenset({"DeliveryRefused", "DestinationUnreachable", "ActionNotSupported"})


@dataclass(frozen=True, slots=True)
class PeerFault:
    """A fault that a peer answered; codes by local name, their prefixes are often unbound."""

    code: str
    subcode: str | None
    reason: str
    permanent: bool


def fault_in(octets: bytes) -> PeerFault | None:
    """The fault in the body of an answer; None where there is none, or it cannot be read."""
    if b"Fault" not in octets or len(octets) > MAX_OCTETS:
        return None
    try:
        root = parse_document(octets)
    except Refused:
        return None
    for body in elements(root):
        if local_name(body) != "Body":
            continue
        for fault in elements(body):
            if local_name(fault) == "Fault":
                return _read(fault)
    return None


def _read(fault: etree._Element) -> PeerFault:
    code, subcode, reason = "", None, ""
    for child in elements(fault):
        match local_name(child):
            case "faultcode":
                code = text_of(child).rpartition(":")[2]
            case "faultstring":
                reason = text_of(child)
            case "Code":
                for part in elements(child):
                    if local_name(part) == "Value":
                        code = text_of(part).rpartition(":")[2]
                    elif local_name(part) == "Subcode":
                        for value in elements(part)[:1]:
                            subcode = text_of(value).rpartition(":")[2]
            case "Reason":
                for text in elements(child)[:1]:
                    reason = text_of(text)
    permanent = code in _PERMANENT or (subcode or code) in _PERMANENT_SUBCODES
    return PeerFault(code, subcode, reason[:300], permanent)
