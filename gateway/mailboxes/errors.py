"""Errors of mailboxes."""

from filters import Reason, Refused


class MailboxUnknown(Refused):
    """There is no such mailbox. The text does not say whether there was one. *missing* is as of
    `Refused`."""

    def __init__(self, missing: str = "") -> None:
        super().__init__(Reason.MAILBOX_UNKNOWN, "There is no such mailbox.", missing=missing)
