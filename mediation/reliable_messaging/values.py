"""The header blocks and the bodies of WS-ReliableMessaging, as values."""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from mediation.model.messages import EndpointReference
from mediation.model.values import checked_dataclass
from mediation.reliable_messaging.ranges import Ranges
from mediation.reliable_messaging.versions import IncompleteBehaviour

MAX_IDENTIFIER = 1000
"""The most octets of the identifier of a sequence."""
MAX_RANGES = 1024
"""The most ranges, and the most numbers to send again, of one acknowledgement."""
MAX_BLOCKS = 64
"""The most acknowledgements, and the most requests for one, of a message."""
MAX_BUFFER = 4096
"""The most messages that an acknowledgement says there is room for."""
LONGEST_EXPIRY = timedelta(days=36525)
"""The longest time until a sequence expires; a longer one is read as this."""


# Header blocks.


@checked_dataclass(frozen=True, slots=True)
class SequenceHeader:
    """The place of a message in its sequence; ``last`` (1.0) is said with the last one."""

    identifier: str
    number: int
    last: bool = False


@checked_dataclass(frozen=True, slots=True)
class Acknowledgement:
    """All that was received of a sequence.

    Attributes:
        final: (1.1) The sequence is closed: no number will be added.
        nacks: Numbers that are to be sent again. With them there are no ranges, unless a peer is
            lax.
        buffer_remaining: The number of messages that the receiver has room for; None: it does not
            say.
    """

    identifier: str
    ranges: Ranges
    final: bool = False
    nacks: tuple[int, ...] = ()
    buffer_remaining: int | None = None


@checked_dataclass(frozen=True, slots=True)
class AckRequested:
    """A request to acknowledge what was received of a sequence."""

    identifier: str


# Bodies. A time None means that the sequence does not expire.


@dataclass(frozen=True, slots=True)
class Offer:
    """A sequence for the other direction. ``endpoint`` (1.1) is where its messages go."""

    identifier: str
    endpoint: EndpointReference | None = None
    expires: timedelta | None = None
    incomplete: IncompleteBehaviour = IncompleteBehaviour.NO_DISCARD


@dataclass(frozen=True, slots=True)
class CreateSequence:
    """A request for a sequence; ``token`` is the security token reference that it is bound to."""

    acks_to: EndpointReference
    expires: timedelta | None = None
    offer: Offer | None = None
    token: bytes | None = None


@dataclass(frozen=True, slots=True)
class CreateSequenceResponse:
    """A sequence that was made. ``accept_acks_to`` is where acknowledgements of the offered
    sequence go; None: the offer was declined, or there was none."""

    identifier: str
    expires: timedelta | None = None
    incomplete: IncompleteBehaviour = IncompleteBehaviour.NO_DISCARD
    accept_acks_to: EndpointReference | None = None


@dataclass(frozen=True, slots=True)
class CloseSequence:
    """(1.1) No new message comes, or is taken; ``last_number`` None: none was sent."""

    identifier: str
    last_number: int | None = None


@dataclass(frozen=True, slots=True)
class CloseSequenceResponse:
    """(1.1) The sequence is closed."""

    identifier: str


@dataclass(frozen=True, slots=True)
class TerminateSequence:
    """The sequence is over; ``last_number`` (1.1) None: no message was sent."""

    identifier: str
    last_number: int | None = None


@dataclass(frozen=True, slots=True)
class TerminateSequenceResponse:
    """(1.1) The sequence is terminated."""

    identifier: str


@dataclass(frozen=True, slots=True)
class LastMessage:
    """(1.0) A message that is there only to be the last: its body is empty."""


@dataclass(frozen=True, slots=True)
class AcknowledgementAlone:
    """An acknowledgement on a message of its own, whose body is empty."""


@dataclass(frozen=True, slots=True)
class AckRequestedAlone:
    """A request for an acknowledgement on a message of its own, whose body is empty."""


Body: TypeAlias = (
    CreateSequence
    | CreateSequenceResponse
    | CloseSequence
    | CloseSequenceResponse
    | TerminateSequence
    | TerminateSequenceResponse
    | LastMessage
    | AcknowledgementAlone
    | AckRequestedAlone
)
"""The content of a protocol message."""
