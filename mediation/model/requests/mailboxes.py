"""Mailboxes, from which consumers fetch: requests and answers."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class MailboxService(Enum):
    """The service that makes a mailbox, which decides at which address its maker finds it."""

    PULL_POINT = "pull point"
    MESSAGE_BOX_2011 = "WS-Messenger's message box"
    MESSAGE_BOX_2004 = "XSUL's message box"


@dataclass(frozen=True, slots=True)
class CreateMailbox:
    """Make a mailbox for whatever its maker has sent there."""

    service: MailboxService = MailboxService.PULL_POINT


@dataclass(frozen=True, slots=True)
class DestroyMailbox:
    """Destroy a mailbox. ``lenient``: one that is not there is no error."""

    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Take:
    """Hand over what lies in a mailbox, oldest first: at most so many messages, None for all;
    if the mailbox is empty, wait so many seconds for one. ``octets``: of the messages
    together at most, None leaves that to us. ``lenient``: a mailbox that is not there is answered
    as an empty one. ``insists``: no message in time is a fault (``TIMED_OUT``). ``after``: what was
    handed over as `Taken.lease` has arrived, nothing that was later, and what is handed over now
    waits to be named so; None: it has arrived with the answer."""

    most: int | None = None
    wait: float = 0.0
    lenient: bool = False
    octets: int | None = None
    insists: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True)
class TakeFor:
    """Hand over one message of those that wait for a consumer with this address
    (WS-MakeConnection)."""

    address: str


@dataclass(frozen=True, slots=True)
class StoreMessage:
    """Keep this envelope in the mailbox to whose address it was sent."""


@dataclass(frozen=True, slots=True)
class MailboxMade:
    """The answer to CreateMailbox: the capability that opens it, and its address at the service
    that was asked (the pull point, or the message box)."""

    key: str
    address: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to Take and TakeFor: whole envelopes (UTF-8), oldest first.

    *more*: others are left. *expires*: until when the subscription behind it lives; None for ever,
    or without one. *key*: of the mailbox. *octets*: of the messages at most, as was asked.
    *lease*: what the next `Take` names to say that they have arrived; empty: it need not.
    """

    envelopes: tuple[bytes, ...]
    more: bool
    now: datetime
    expires: datetime | None = None
    key: str = ""
    octets: int | None = None
    lease: str = ""
