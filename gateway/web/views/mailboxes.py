"""Mailboxes."""

from datetime import datetime

from pydantic import BaseModel, Field

from gateway.model.mailboxes import Mailbox, MailboxSize
from gateway.model.moments import moment_of


class MailboxView(BaseModel, extra="forbid"):
    """A mailbox, without its key."""

    id: str
    owner: str
    kind: str
    messages: int
    bytes: int
    octets: int = Field(description="The former name of `bytes`.")
    dropped: int
    created: datetime
    used: datetime


def mailbox_view(mailbox: Mailbox, size: MailboxSize) -> MailboxView:
    """The view of *mailbox*, in which *size* lies."""
    return MailboxView(
        id=mailbox.id,
        owner=mailbox.owner,
        kind=mailbox.kind.value,
        messages=size.messages,
        bytes=size.octets,
        octets=size.octets,
        dropped=size.dropped,
        created=moment_of(size.created),
        used=moment_of(size.used),
    )
