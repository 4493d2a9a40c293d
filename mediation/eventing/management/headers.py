"""The header blocks of WS-Management (DSP0226 1.2, sections 5 and 6).

The gateway is one resource, whatever ``wsman:ResourceURI`` its peers call it by, and has no
selectors. It answers briefly and in English.
"""

from lxml import etree

from filters import Reason
from mediation import names
from mediation.eventing.management.faults import refused, unsupported
from mediation.eventing.management.values import read_number, read_seconds, to_give_back
from mediation.model.requests import ManagementHeaders
from mediation.soap.envelopes import (
    Envelope,
    elements,
    is_mandatory,
    local_name,
    namespace_of,
    text_of,
)

LEAST_ENVELOPE = 8192
"""The least octets that a peer may bound answers and deliveries by (section 6.2)."""
_UNDERSTOOD = frozenset({"ResourceURI", "Action", "AckRequested", "RequestEPR"})
"""Blocks that may be mandatory, beside those that are read."""
_LANGUAGE = f"{{{names.XML}}}lang"
_MACHINE = f"{{{names.WSMAN_MACHINE_ID}}}MachineID"
_LONGEST_NAME = 255


def read_management(envelope: Envelope) -> ManagementHeaders:
    """Read the header blocks of WS-Management; those that are mandatory must be offered.

    Raises:
        MediationError: ``FEATURE_UNSUPPORTED``, ``SELECTORS_UNEXPECTED``, ``ENCODING_LIMIT``,
            ``MESSAGE_INVALID``.
    """
    resource: str | None = None
    timeout: float | None = None
    most: int | None = None
    ack = False
    bookmark: bytes | None = None
    machine = ""
    for block in envelope.headers:
        if block.tag == _MACHINE:
            machine = text_of(block)[:_LONGEST_NAME]
        if namespace_of(block) != names.WSMAN:
            continue
        name = local_name(block)
        mandatory = is_mandatory(block, envelope.soap)
        match name:
            case "ResourceURI":
                resource = (block.text or "").strip()[:1000]
            case "OperationTimeout":
                timeout = read_seconds(block)
            case "MaxEnvelopeSize":
                most = _read_size(block)
            case "AckRequested":
                ack = True
            case "Bookmark":
                bookmark = to_give_back(block)
            case "SelectorSet":
                if mandatory or elements(block):
                    raise refused(
                        Reason.SELECTORS_UNEXPECTED,
                        "The gateway is one resource, without selectors.",
                        "UnexpectedSelectors",
                    )
            case "Locale":
                if mandatory and not _is_english(block):
                    raise unsupported(name, "in another language than English is not offered")
            case _:
                if mandatory and name not in _UNDERSTOOD:
                    raise unsupported(name)
    return ManagementHeaders(resource, timeout, most, ack, bookmark, machine)


def _read_size(block: etree._Element) -> int:
    """Read the size of R6.2-4, whose detail the schema does not list."""
    size = read_number(block)
    if size < LEAST_ENVELOPE:
        raise refused(
            Reason.ENCODING_LIMIT,
            f"MaxEnvelopeSize is below {LEAST_ENVELOPE} octets.",
            "MinimumEnvelopeLimit",
        )
    return size


def _is_english(block: etree._Element) -> bool:
    return str(block.get(_LANGUAGE) or "").strip().lower().startswith("en")
