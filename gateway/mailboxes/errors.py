"""What can be wrong with a mailbox."""

from filters import Reason, Refused


class MailboxUnknown(Refused):
    """There is no such mailbox. The text does not say whether there was one."""

    def __init__(self) -> None:
        super().__init__(Reason.MAILBOX_UNKNOWN, "There is no such mailbox.")
