"""The numbers of the HTTP server, in one place."""

from dataclasses import dataclass

from filters import DocumentLimits
from filters.documents import DEFAULT_LIMITS

ATTACHMENTS = 2 * 2**20
"""Bytes that a message may have beside its envelope."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of one connection, and of all. Sizes in octets, times in seconds."""

    request_line: int = 8 * 1024
    head: int = 32 * 1024
    """Request line, header fields, and trailers."""
    fields: int = 100
    head_time: float = 10.0
    """From the first octet of a head, or from accept, to its end."""
    body_time: float = 30.0
    """From the end of the head to the end of the body, however steadily it comes."""
    body_rate: float = 1024.0
    """Octets a second that a body must come at, on average."""
    body_grace: float = 5.0
    """The time that a body has before its rate counts."""
    write_time: float = 30.0
    """The time that a peer may leave an answer unread."""
    unread: int = 64 * 1024 * 1024
    """Octets of answers that all strangers together may leave unread."""
    unread_per_address: int = 16 * 1024 * 1024
    """Octets of answers that one stranger may leave unread."""
    unread_in_all: int = 256 * 1024 * 1024
    """Octets of answers that all peers may leave unread, trusted ones included."""
    linger_time: float = 2.0
    """The time for which what a refused peer still sends is thrown away, so that it reads why; as
    long as it sends, `gateway.http.lingering.LINGERS` times as long."""
    linger_octets: int = 8 * 1024 * 1024
    """Octets that are thrown away at most."""
    message: int = DEFAULT_LIMITS.octets + ATTACHMENTS
    """A body on the wire, attachments included."""
    envelope: int = DEFAULT_LIMITS.octets
    """A SOAP envelope, decompressed."""
    documents: DocumentLimits = DEFAULT_LIMITS
    """An envelope, as a document."""
    ratio: int = 100
    """Octets that one octet of a compressed body may become."""
    connections: int = 1024
    """Connections of all strangers."""
    connections_per_address: int = 64
    """Connections of one stranger: an IPv4 address, or an IPv6 network of 64 bits."""
    connections_in_all: int = 16_384
    """Connections of all peers, trusted ones included."""
    keep_alive_trusted: int = 75
    """The time for which an idle connection of a trusted peer is kept; that of a stranger is
    uvicorn's setting."""


def limits_of(documents: DocumentLimits) -> HttpLimits:
    """The limits where envelopes are bounded by *documents*."""
    if documents == DEFAULT_LIMITS:
        return HttpLimits()
    most = documents.octets
    return HttpLimits(message=most + ATTACHMENTS, envelope=most, documents=documents)
