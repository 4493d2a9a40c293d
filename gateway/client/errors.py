"""Errors between a client and a gateway."""

_LATER = (408, 429)


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
        return self.status is not None and 400 <= self.status < 500 and self.status not in _LATER
