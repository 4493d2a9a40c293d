"""Identify (DSP0226 1.2, section 11): who answers here, asked before anything else."""

from collections.abc import Mapping

from lxml import etree

from mediation import names
from mediation.model.requests import (
    Arrival,
    Context,
    Identified,
    Identify,
    Operation,
    Request,
    Response,
)
from mediation.model.specification import Answer
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
