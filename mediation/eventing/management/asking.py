"""Requests of the gateway as a sink to a source of WS-Management: the header blocks of its
requests, and how it wants its deliveries (DSP0226 1.2, sections 5.1, 6 and 10.2)."""

from filters import parse_document
from mediation import names
from mediation.model.delivery_modes import SourceOptions
from mediation.model.expiry import format_duration
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap
from mediation.soap.envelopes import xml_text

MOST_OCTETS = 512 * 1024
"""Of an answer, and of a delivery."""
_WSMAN = f'xmlns:wsman="{names.WSMAN}"'
EARLIEST_BOOKMARK = f"<wsman:Bookmark {_WSMAN}>{names.WSMAN_EARLIEST}</wsman:Bookmark>".encode()
"""The bookmark behind which a source has all events that it has kept (DSP0226 1.2, section
10.2.6)."""
_RESOURCE = f"{{{names.WSMAN}}}ResourceURI"


def request_headers(options: SourceOptions, soap: Soap, to: EndpointReference | None = None) -> str:
    """Write the header blocks of a request *to* a source, or to the manager of a subscription,
    whose reference may name the resource by itself."""
    must = f'xmlns:s="{soap.value}" s:mustUnderstand="{"true" if soap is Soap.V1_2 else "1"}"'
    blocks = (
        f"<wsman:MaxEnvelopeSize {_WSMAN}>{MOST_OCTETS}</wsman:MaxEnvelopeSize>"
        f"<wsman:OperationTimeout {_WSMAN}>{format_duration(options.timeout)}"
        "</wsman:OperationTimeout>"
    )
    if to is not None and _names_resource(to):
        return blocks
    uri = xml_text(options.resource)
    return f"<wsman:ResourceURI {_WSMAN} {must}>{uri}</wsman:ResourceURI>{blocks}"


def _names_resource(reference: EndpointReference) -> bool:
    blocks = (*reference.parameters, *reference.properties)
    return any(parse_document(block).tag == _RESOURCE for block in blocks)


def write_delivery_options(options: SourceOptions | None) -> str:
    """Write how deliveries are wanted, as content of ``wse:Delivery`` behind ``wse:NotifyTo``."""
    if options is None or options.heartbeats is None:
        return ""
    interval = format_duration(options.heartbeats)
    return f"<wsman:Heartbeats {_WSMAN}>{interval}</wsman:Heartbeats>"


def write_bookmarks(options: SourceOptions | None) -> str:
    """Write that bookmarks are wanted, and behind which one to go on, as the end of a
    Subscribe."""
    if options is None or not options.bookmarks:
        return ""
    mark = "" if options.bookmark is None else options.bookmark.decode()
    return f"{mark}<wsman:SendBookmarks {_WSMAN}/>"
