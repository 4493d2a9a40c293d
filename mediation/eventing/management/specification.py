"""WS-Management (DSP0226 1.2) as a specification, beside WS-Eventing; and Identify (section 11),
which asks for the product before anything else is sent.
"""

from collections.abc import Mapping

from lxml import etree

from mediation import names
from mediation.eventing.management.enumeration import CONTEXT, PULL_FAULTS, PullRequests
from mediation.eventing.management.publications import DeliveryRequests
from mediation.eventing.management.source_subscriptions import SourceRequests
from mediation.model.requests import (
    Arrival,
    Context,
    Identified,
    Identify,
    Operation,
    Request,
    Response,
)
from mediation.model.specification import Answer, CombinedRequests, Specification
from mediation.model.versions import Family, Version
from mediation.soap.envelopes import xml_text

VENDOR = "Dragoman"
_IDENTIFY = f"{{{names.WSMAN_IDENTITY}}}Identify"
_IDENTIFY_ACTION = f"{names.WSMAN_IDENTITY}/Identify"


class IdentifyRequests:
    """Identify, which needs no addressing."""

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
    "WS-Management (deliveries, Pull, Release, Identify)",
    requests=CombinedRequests(
        DeliveryRequests(), PullRequests(), SourceRequests(), IdentifyRequests()
    ),
    faults=PULL_FAULTS,
    identifiers=frozenset({CONTEXT}),
)
