"""Acknowledgements of deliveries in WS-Management, as a consumer answers them (DSP0226 1.2, section
10.2.9.3)."""

from contextlib import suppress

from lxml import etree

from filters import Refused, parse_document
from mediation import names
from mediation.model.versions import Wsa
from mediation.soap.addressing import write_headers
from mediation.soap.envelopes import http_headers, read_envelope, text_of, write_envelope

_WANTED = f"{{{names.WSMAN}}}AckRequested"


def acknowledgement_of(octets: bytes) -> tuple[dict[str, str], bytes] | None:
    """Write the acknowledgement that a delivery asks for: the headers of HTTP, and the envelope.
    None where it asks for none, or is not an envelope."""
    # A look at the bytes, for most deliveries ask for none.
    if b"AckRequested" not in octets:
        return None
    try:
        envelope = read_envelope(parse_document(octets))
    except Refused:
        return None
    if _WANTED not in envelope.names:
        return None
    wsa, message_id = None, None
    for block in envelope.headers:
        name = etree.QName(block)
        if name.localname == "MessageID":
            with suppress(ValueError):
                wsa, message_id = Wsa(name.namespace), text_of(block)
    if wsa is None:
        return None
    action = names.WSMAN_ACK
    head = write_headers(wsa, action=action, to=wsa.anonymous, relates_to=message_id)
    return dict(http_headers(envelope.soap, action)), write_envelope(envelope.soap, wsa, head, "")
