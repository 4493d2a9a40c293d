"""Errors between a client and a gateway."""

_LATER = (408, 429)
_RECEIVER = frozenset(
    {
        "Server",
        "Receiver",
        "EndpointUnavailable",
        "EventSourceUnableToProcess",
        "UnableToRenew",
    }
)
"""Codes of faults that are the gateway's own. In SOAP 1.1 the sender's have the status 500, too."""


class GatewayError(Exception):
    """The gateway did not do what it was asked; the text says why, in one line.

    Attributes:
        status: The HTTP status of its answer; None when there was none.
        code: The fault's subcode or code by its local name; None when it answered no fault.
    """

    def __init__(self, text: str, *, status: int | None = None, code: str | None = None) -> None:
        super().__init__(" ".join(text.split()))
        self.status = status
        self.code = code

    @property
    def is_final(self) -> bool:
        """Whether asking again will not help: the request was understood, and refused."""
        if self.status is None:
            return False
        if self.status == 500:
            return self.code is not None and self.code not in _RECEIVER
        return 400 <= self.status < 500 and self.status not in _LATER


class UnsupportedOperation(GatewayError):
    """The specification that a client speaks does not have what it was asked to do; nothing was
    sent."""
