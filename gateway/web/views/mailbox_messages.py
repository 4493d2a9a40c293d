"""Messages of mailboxes."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, Field

from filters import Refused
from gateway.model.mailboxes import MailboxMessage
from gateway.model.moments import moment_of
from gateway.parsing import SMALL, Parsing
from mediation.client import Received, read_received
from mediation.mailboxes import kept


class EventView(BaseModel):
    """An event: its topic in Clark notation, and its payload, one XML element."""

    topic: str | None = None
    payload: str | None = None


class MessageView(BaseModel):
    """A message of a mailbox. ``topic`` and ``payload`` are those of the event in it; a fault, or
    the end of a subscription, has no payload."""

    id: int = Field(description="Its position in the mailbox: greater than that of all before it.")
    message_id: str | None = None
    topic: str | None = None
    action: str | None = None
    payload: str | None = None
    further: list[EventView] = Field(
        [],
        description="The events behind the first, if it has any; where they are much longer "
        "together than the envelope, only it has all.",
    )
    envelope: str = Field(description="All of it: a SOAP envelope.")
    since: datetime
    takes: int = Field(description="How often it was handed out, this time included.")


async def mailbox_message_views(
    messages: Sequence[MailboxMessage], parsing: Parsing, *, owner: str
) -> list[MessageView]:
    """The views of *messages*, whose envelopes are read for that.

    Raises:
        Refused: ``UNAVAILABLE``: too much is read just now.
    """
    octets = sum(len(held.envelope) for held in messages)
    # In a thread always: they may have come to an earlier process, which counted their names.
    return await parsing.run_parser(
        max(octets, SMALL + 1),
        lambda _: [_view(held) for held in messages],
        trusted=False,
        owner=owner,
    )


def _view(held: MailboxMessage) -> MessageView:
    first, *others = _events(held.envelope) or [None]
    return MessageView(
        id=held.position,
        message_id=kept.message_id(held.envelope),
        action=kept.action(held.envelope),
        topic=_topic(first) if first else None,
        payload=_text(first.payload) if first else None,
        further=[EventView(topic=_topic(one), payload=_text(one.payload)) for one in others if one],
        envelope=_text(held.envelope),
        since=moment_of(held.since),
        takes=held.takes,
    )


def _events(envelope: bytes) -> list[Received | None]:
    try:
        received = read_received(envelope, room=kept.room_for(envelope))
    except Refused:  # A fault, or deeper than a document of a stranger's may be.
        return []
    return list(received) if isinstance(received, tuple) else []


def _topic(event: Received) -> str | None:
    return str(event.topic) if event.topic else None


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "replace")
