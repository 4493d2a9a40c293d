"""The numbers of SOAP.TCP, in one place."""

from dataclasses import dataclass, field

from mediation.packaging.dime import DimeLimits


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """Limits of one connection. Sizes in octets, times in seconds."""

    dime: DimeLimits = field(default_factory=DimeLimits)
    head_time: float = 10.0
    """From the first octet of a record to the end of its header, options, id and type."""
    message_time: float = 90.0
    """From the first octet of a message to its last, however steadily it comes."""
    rate: float = 1024.0
    """Octets a second that a message must come at, on average."""
    grace: float = 10.0
    """The time that a message has before its rate counts."""
    idle: float = 120.0
    """Between two messages; the connection is closed then."""
    write_time: float = 90.0
    """The time that a peer may leave unread what is written to it."""
    queue: int = 8 * 1024 * 1024
    """Octets that may wait to be written; the connection of a peer that reads less is aborted."""
    processing: int = 32
    """Messages of one connection at a time; meanwhile nothing is read."""
    linger: float = 2.0
    """The time for which what a refused peer still sends is thrown away, so that it reads why."""
    handshake: float = 10.0
    """The time of a TLS handshake."""
    acknowledged: float = 5.0
    """The time that a peer's system has to acknowledge an answer that must not be lost."""
