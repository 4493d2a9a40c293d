"""Messages of the spool: those that wait for the messaging system, and those that it refuses."""

from datetime import datetime
from enum import Enum

from pydantic import BaseModel, Field

from gateway.model.moments import moment_of, moment_or_none
from gateway.observing.masking import Mask
from gateway.store.spool import SpoolEntry
from gateway.web.views.documents import Part, masked_part


class SpoolState(Enum):
    """The state of a message in the spool; one that is ``refused`` is set aside, because the
    messaging system will never take it."""

    WAITING = "waiting"
    REFUSED = "refused"


class SpoolMessage(BaseModel, extra="forbid"):
    """A message of the spool."""

    number: int
    state: SpoolState
    topic: str
    message_id: str
    publisher: str
    since: datetime = Field(description="When it was accepted.")
    reason: str | None = Field(description="Why it is refused, in the messaging system's words.")
    refused: datetime | None = Field(description="When it was set aside.")
    bytes: int


class SpoolMessageDetail(SpoolMessage, extra="forbid"):
    """A message of the spool, with the first bytes of it as the messaging system would have it."""

    payload: Part


def spool_message(entry: SpoolEntry) -> SpoolMessage:
    """The view of *entry* in a list."""
    return SpoolMessage(
        number=entry.number,
        state=SpoolState.WAITING if entry.refused is None else SpoolState.REFUSED,
        topic=entry.topic,
        message_id=entry.id,
        publisher=entry.source,
        since=moment_of(entry.since),
        reason=entry.refused,
        refused=moment_or_none(entry.refused_at),
        bytes=entry.octets,
    )


def spool_message_detail(
    entry: SpoolEntry, body: bytes, mask: Mask, limit: int
) -> SpoolMessageDetail:
    """The view of *entry* with the first *limit* bytes of *body*, masked. It takes time for a large
    one."""
    payload = masked_part(body, mask, limit)
    return SpoolMessageDetail(**dict(spool_message(entry)), payload=payload)
