"""DIME messages as values, their bounds, and what can be wrong with one."""

from dataclasses import dataclass, field
from enum import Enum

from mediation.model.messages import Attachment
from mediation.model.versions import Soap


class DimeReason(Enum):
    """Reasons why octets are no DIME message, or exceed the limits."""

    VERSION = "the version is not 1"
    RESERVED = "the reserved bits are not 0"
    BEGIN_MISSING = "the first record does not begin the message"
    BEGIN_AGAIN = "a later record begins a message"
    CHUNK_AT_END = "a chunk with more to come ends the message"
    TYPE_FORMAT = "the type format is not the one of its place"
    TYPE_LENGTH = "a type stands where it is not allowed"
    DATA_LENGTH = "data stands where it is not allowed"
    ID_OF_CHUNK = "a later chunk has an id"
    ID_REPEATED = "two records have the same id"
    TRUNCATED = "the stream ends within a message"
    OPTIONS_TOO_LONG = "the options are too long"
    ID_TOO_LONG = "the id is too long"
    TYPE_TOO_LONG = "the type is too long"
    MESSAGE_TOO_LONG = "the message is too long"
    ENVELOPE_TOO_LONG = "the envelope is too long"
    TOO_MANY_RECORDS = "there are too many records"
    TOO_MANY_EMPTY = "too many records in succession are empty"
    TOO_MANY_ATTACHMENTS = "there are too many attachments"


class DimeError(Exception):
    """A stream that cannot be read any further.

    Args:
        offset: Where the record at fault begins, in octets since the decoder's first.
    """

    def __init__(self, reason: DimeReason, offset: int) -> None:
        super().__init__(f"{reason.value}, at octet {offset}")
        self.reason = reason
        self.offset = offset


@dataclass(frozen=True, slots=True)
class DimeLimits:
    """The bounds of one message. Lengths are in octets."""

    message: int = 4 * 1024 * 1024
    """The most octets of DATA of all records together."""
    envelope: int = 2 * 1024 * 1024
    """DATA of the first payload, unless it is a MIME package: that has *message* alone."""
    records: int = 1024
    """The most records, chunks included."""
    empty: int = 16
    """The most records without DATA in succession."""
    id: int = 4096
    type: int = 1024
    options: int = 4096
    attachments: int = 64


@dataclass(frozen=True, slots=True)
class DimeMessage:
    """A SOAP message and what travels with it.

    Attributes:
        soap: What TYPE of the first record says; None when it is not SOAP namespace.
        envelope: DATA of the first record, without white space around it.
        attachments: ``content_id`` is ID. ``media_type`` is TYPE: a media type, an
            absolute URI, or nothing where the sender did not know. Octets that are not
            ASCII are read as Latin-1, so that they go out as they came in.
        id: ID of the first record, which refers to nothing and says nothing of the message.
    """

    soap: Soap | None
    envelope: bytes
    attachments: tuple[Attachment, ...] = ()
    id: bytes = field(default=b"", compare=False)

    @property
    def packaged(self) -> bool:
        """Whether ``envelope`` begins like a MIME package, as MTOM of WSE 3.0 does."""
        return self.envelope[:1] in (b"M", b"-")
