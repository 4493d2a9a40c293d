"""WS-Management (DSP0226): Identify, `SPECIFICATION`, and the additions to WS-Eventing that are
refused.

A peer that asks for heartbeats or bookmarks, is told yes and gets none gives the gateway up, or
loses events. So a feature that is not offered is always a fault (section 14.6,
"wsman:UnsupportedFeature")."""

from collections.abc import Iterable, Mapping

from lxml import etree

from filters import Reason
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.requests import (
    Arrival,
    Context,
    Identified,
    Identify,
    Operation,
    Request,
    Response,
)
from mediation.model.specification import Answer, Detail, Fault, Specification
from mediation.model.versions import Family, Version
from mediation.soap.envelopes import (
    Envelope,
    elements,
    is_mandatory,
    local_name,
    namespace_of,
    xml_text,
)

VENDOR = "Dragoman"
_PREFIX = f"{{{names.WSMAN}}}"
_IDENTIFY = f"{{{names.WSMAN_IDENTITY}}}Identify"
_IDENTIFY_ACTION = f"{names.WSMAN_IDENTITY}/Identify"

_DETAILS = {
    "Heartbeats": "Heartbeats",
    "ConnectionRetry": "DeliveryRetries",
    "Bookmark": "Bookmarks",
    "SendBookmarks": "Bookmarks",
    "MaxElements": "MaxElements",
    "MaxTime": "MaxTime",
    "Auth": "AuthorizationMode",
    "AckRequested": "Ack",
    "SelectorSet": "AddressingMode",
    "OptionSet": "OptionSet",
    "FragmentTransfer": "FragmentLevelAccess",
}
"""The word for an element that is not offered in the detail of the fault."""

_HEADERS = frozenset({"ResourceURI", "Action", "OperationTimeout", "MaxEnvelopeSize", "Locale"})
"""Header blocks that are understood: the gateway is one resource, and answers at once, briefly and
in English."""
_IN_SUBSCRIBE = frozenset({"Filter", "Locale", "ContentEncoding", "MaxEnvelopeSize"})
"""Elements that a Subscribe and its Delivery may hold; the last three are hints."""


class ManagementRequests:
    """Identify (section 11), which needs no addressing."""

    namespaces = frozenset({names.WSMAN_IDENTITY})
    elements: Mapping[str, Operation] = {_IDENTIFY: Operation.IDENTIFY}
    actions: Mapping[str, Operation] = {}

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        return Identify()

    def write(self, response: Response, context: Context) -> Answer:
        release = response.release if isinstance(response, Identified) else ""
        body = (
            f'<wsmid:IdentifyResponse xmlns:wsmid="{names.WSMAN_IDENTITY}">'
            f"<wsmid:ProtocolVersion>{names.WSMAN}</wsmid:ProtocolVersion>"
            f"<wsmid:ProductVendor>{VENDOR}</wsmid:ProductVendor>"
            f"<wsmid:ProductVersion>{xml_text(release)}</wsmid:ProductVersion>"
            "</wsmid:IdentifyResponse>"
        )
        return Answer(f"{_IDENTIFY_ACTION}Response", body)


SPECIFICATION = Specification(
    Version.MANAGEMENT,
    Family.MANAGEMENT,
    "WS-Management's Identify",
    requests=ManagementRequests(),
)

FEATURE_UNSUPPORTED = Fault(
    subcode=f"{_PREFIX}UnsupportedFeature",
    text="The specified feature is not supported.",
    detail=Detail.URIS,
    inner="FaultDetail",
    most=1,
    action=names.WSMAN_FAULT_ACTION,
)
"""The fault of section 14.6, for requests of any specification with headers of WS-Management."""


def check_headers(envelope: Envelope) -> None:
    """Refuse mandatory header blocks of WS-Management for features that are not offered.

    Raises:
        MediationError: ``FEATURE_UNSUPPORTED``.
    """
    mandatory = (block for block in envelope.headers if is_mandatory(block, envelope.soap))
    _refuse(name for name in map(_managing, mandatory) if name and name not in _HEADERS)


def check_subscribe(subscribe: etree._Element, delivery: etree._Element) -> None:
    """Refuse a Subscribe with additions of WS-Management that are not offered.

    Raises:
        MediationError: ``FEATURE_UNSUPPORTED``.
    """
    children = (*elements(delivery), *elements(subscribe))
    _refuse(name for name in map(_managing, children) if name and name not in _IN_SUBSCRIBE)


def _managing(element: etree._Element) -> str:
    """The local name of an element of WS-Management; empty for other elements."""
    return local_name(element) if namespace_of(element) == names.WSMAN else ""


def _refuse(asked: Iterable[str]) -> None:
    name = next(iter(asked), None)
    if name is None:
        return
    detail = _DETAILS.get(name)
    raise MediationError(
        Reason.FEATURE_UNSUPPORTED,
        f"wsman:{name[:100]} is not offered.",
        names=(names.WSMAN_FAULT_DETAIL + detail,) if detail else (),
    )
