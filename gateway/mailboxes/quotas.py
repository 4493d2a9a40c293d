"""Limits of mailboxes."""

from dataclasses import dataclass, field

from gateway.model.mailboxes import MailboxBounds


@dataclass(frozen=True, slots=True)
class MailboxQuotas:
    """Limits of mailboxes.

    Attributes:
        owner: Mailboxes that a stranger may have.
        total: Mailboxes in all.
        bounds: The messages that one may hold.
        age: Seconds after which a message that nobody took is a dead letter.
        idle: Seconds without a reader after which a mailbox is destroyed.
        refuse_strangers: A full mailbox of a stranger refuses further messages, whatever its
            bounds say.
    """

    owner: int = 100
    total: int = 10_000
    bounds: MailboxBounds = field(default_factory=MailboxBounds)
    age: float = 2 * 86400.0
    idle: float = 7 * 86400.0
    refuse_strangers: bool = False
