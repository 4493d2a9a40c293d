"""Mailboxes and what lies in them."""

from dataclasses import dataclass
from enum import Enum


class MailboxKind(Enum):
    """The way in which a mailbox was made; every kind can be read in every way."""

    PULL_POINT = "pull-point"
    SUBSCRIPTION = "subscription"
    """Has the key of the subscription that fills it, and ends with it."""
    MESSAGE_BOX = "message-box"
    CONNECTION = "connection"
    """Has a name: the address of a consumer that fetches by it."""
    MAILBOX = "mailbox"


@dataclass(frozen=True, slots=True)
class Mailbox:
    """A mailbox. ``key`` is the capability, ``id`` is what logs and lists show."""

    key: str
    id: str
    owner: str
    kind: MailboxKind
    name: str | None = None


@dataclass(frozen=True, slots=True)
class MailboxSize:
    """The messages in a mailbox and their octets, how many went to the dead letters instead, and
    when it was made and last read (POSIX seconds)."""

    messages: int
    octets: int
    dropped: int
    created: float
    used: float


@dataclass(frozen=True, slots=True)
class MailboxBounds:
    """The messages and octets that one mailbox may hold. Where *refuse*, further ones are refused;
    else the oldest make room and go to the dead letters."""

    messages: int = 10_000
    octets: int = 64 * 2**20
    refuse: bool = False


@dataclass(frozen=True, slots=True)
class MailboxMessage:
    """A message in a mailbox; ``takes`` says how often it was handed out, this time included."""

    position: int
    envelope: bytes
    since: float
    takes: int


class PutResult(Enum):
    """The fate of messages for a mailbox."""

    KEPT = "kept"
    FULL = "full"
    UNKNOWN = "unknown"
    """There is no such mailbox."""
