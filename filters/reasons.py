"""The reasons for refusing a request, as one enumeration.

Every error of every floor carries one of these. What a specification calls it on the wire is a row
of that specification's faults, or of ``mediation.faults``, which has the statuses of HTTP for
faults, too; for answers without SOAP they are rows of the gateway.
"""

from enum import Enum


class Reason(Enum):
    """A reason for refusing. The value is the word used in logs and metrics."""

    # Bytes and envelope.
    NOT_XML = "not-xml"
    DTD = "dtd"
    PROCESSING_INSTRUCTION = "processing-instruction"
    ENCODING = "encoding"
    TOO_COMPLEX = "too-complex"
    TOO_LARGE = "too-large"
    MEDIA_TYPE = "media-type"
    VERSION_MISMATCH = "version-mismatch"
    NOT_UNDERSTOOD = "not-understood"
    ENVELOPE = "envelope"

    # WS-Addressing.
    HEADER_REPEATED = "header-repeated"
    HEADER_INVALID = "header-invalid"
    EPR_INVALID = "epr-invalid"
    REPLY_ADDRESS = "reply-address"
    ACTION_UNSUPPORTED = "action-unsupported"

    # Requests.
    MESSAGE_INVALID = "message-invalid"
    FEATURE_UNSUPPORTED = "feature-unsupported"
    """Something that WS-Management adds to a request, and that is not offered."""
    ENCODING_LIMIT = "encoding-limit"
    """A size or an encoding that WS-Management lets a request ask for, and that is not offered."""
    SELECTORS_UNEXPECTED = "selectors-unexpected"
    BOOKMARK_INVALID = "bookmark-invalid"
    TIMED_OUT = "timed-out"
    EVENT_TYPE = "event-type"
    """An event of a type that is not known here, where only known ones are taken."""
    DELIVERY_MODE = "delivery-mode"
    DELIVERY_MISSING = "delivery-missing"
    """A Subscribe that does not say how, or where, to deliver."""
    EXPIRY_INVALID = "expiry-invalid"
    EXPIRY_IN_THE_PAST = "expiry-in-the-past"
    EXPIRY_TOO_LONG = "expiry-too-long"
    FILTER_UNKNOWN = "filter-unknown"
    FILTER_DIALECT = "filter-dialect"
    FILTER_INVALID = "filter-invalid"
    FILTER_COSTLY = "filter-costly"
    FILTER_ACTIONS = "filter-actions"
    """A list of actions, in a dialect of DPWS, that is none."""
    FILTER_EMPTY = "filter-empty"
    """A filter that no event can pass."""
    PRODUCER_PROPERTIES = "producer-properties"
    TOPIC_DIALECT = "topic-dialect"
    TOPIC_INVALID = "topic-invalid"
    TOPIC_UNSUPPORTED = "topic-unsupported"
    TOPIC_UNREGISTERED = "topic-unregistered"
    """Nobody registered to publish on it, and that is required."""
    TOPICS_SEVERAL = "topics-several"
    NO_CURRENT_MESSAGE = "no-current-message"
    POLICY_UNRECOGNIZED = "policy-unrecognized"
    POLICY_UNSUPPORTED = "policy-unsupported"
    CONSUMER_ADDRESS = "consumer-address"
    QUOTA = "quota"
    NOT_IDENTIFIED = "not-identified"
    """It takes credentials, and the request has none, or wrong ones."""
    TOKEN_REFUSED = "token-refused"
    TOKEN_INVALID = "token-invalid"
    TOKEN_UNSUPPORTED = "token-unsupported"
    """Of WS-Security: what it proves is nothing, it is not what its profile says, or of no kind
    that is taken."""
    TOKEN_UNAVAILABLE = "token-unavailable"
    """A signature names a certificate that neither the message nor we have."""
    CERTIFICATE_REFUSED = "certificate-refused"
    SIGNATURE_REFUSED = "signature-refused"
    """A signature is wrong, of a stranger, or does not cover what it must; or nothing can be
    decrypted."""
    ALGORITHM_UNSUPPORTED = "algorithm-unsupported"
    MESSAGE_EXPIRED = "message-expired"
    NOT_ALLOWED = "not-allowed"
    """Who asks has no right to it, or it may not be done now."""
    SUBSCRIPTION_UNKNOWN = "subscription-unknown"
    MAILBOX_UNKNOWN = "mailbox-unknown"
    SOURCE_UNKNOWN = "source-unknown"
    """What comes is for no subscription of ours: its producer may stop."""
    MAILBOX_BUSY = "mailbox-busy"
    """Another reader is taking messages from it just now."""
    MAILBOX_FULL = "mailbox-full"
    RESOURCE_UNKNOWN = "resource-unknown"
    SELECTION_MISSING = "selection-missing"
    SELECTION_UNSUPPORTED = "selection-unsupported"
    PROPERTY_UNKNOWN = "property-unknown"
    PROPERTY_READ_ONLY = "property-read-only"
    QUERY_DIALECT = "query-dialect"
    QUERY_INVALID = "query-invalid"
    QUERY_FAILED = "query-failed"
    LOOP = "loop"
    PUBLICATION_REFUSED = "publication-refused"
    """The messaging system will never take the event."""

    # Us.
    RATE = "rate"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"


class Refused(Exception):
    """Something is wrong with what a peer sent, or we cannot take it now.

    Its subclasses are what callers tell apart: the errors of a floor, or one kind of refusal.
    Others catch this.

    Args:
        reason: What is wrong.
        text: One short sentence for the peer. Of the input it repeats at most a name or a URI, as
            `quoted` shows it.
        value: The value at fault, for the log alone.
        names: Expanded names (Clark notation) or URIs that the fault's detail lists:
            the unknown filter's element, the supported dialects.
        missing: The name of the part that the request lacks; empty where something else is wrong.
    """

    retry_after: float | None = None
    """Seconds after which it may be tried again; None where that is not known, or no help."""

    def __init__(
        self,
        reason: Reason,
        text: str,
        *,
        value: str = "",
        names: tuple[str, ...] = (),
        missing: str = "",
    ) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.value = value
        self.names = names
        self.missing = missing


class FilterError(Refused):
    """A document, a topic or a filter that this floor refuses."""


def quoted(text: str, most: int = 100) -> str:
    """Quote *text* of a peer as a refusal may repeat it: in quotes, on one line, at most *most*
    characters of it."""
    return f'"{one_line(text, most)}"'


def one_line(text: str, most: int = 100) -> str:
    """Return *text* of a peer on one line, at most *most* characters of it, as `quoted` does."""
    shown = "".join(character if character.isprintable() else "?" for character in text[:most])
    return f"{shown}{'...' if len(text) > most else ''}"
