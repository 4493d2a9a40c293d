"""The numbers of the HTTP server, in one place."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What one connection, and all of them, may cost. Sizes in octets, times in seconds."""

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
    """How long a body may take before its rate counts."""
    write_time: float = 30.0
    """How long a peer may leave an answer unread."""
    linger_time: float = 2.0
    """How long what a peer still sends is thrown away, so that it reads why it was refused."""
    linger_octets: int = 8 * 1024 * 1024
    """How much of it."""
    message: int = 4 * 1024 * 1024
    """A body on the wire, attachments included."""
    envelope: int = 2 * 1024 * 1024
    """A SOAP envelope, decompressed."""
    ratio: int = 100
    """What one octet of a compressed body may become."""
    connections: int = 1024
    """Of strangers."""
    connections_per_address: int = 64
    """Of one stranger: an IPv4 address, or an IPv6 network of 64 bits."""
    connections_in_all: int = 16_384
    """Trusted peers included."""
    keep_alive_trusted: int = 75
    """How long an idle connection of a trusted peer is kept; a stranger's is uvicorn's setting."""
