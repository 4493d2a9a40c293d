"""Errors of backups."""

from filters import Reason, Refused


class BackupError(Refused):
    """A backup cannot be made, read or restored; the text says why and what to do."""

    def __init__(self, text: str) -> None:
        super().__init__(Reason.UNAVAILABLE, text)
