"""Messages that wait for a subscription."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from gateway.model.moments import moment_of, moment_or_none
from gateway.web.waiting_messages import WaitingMessage

_EXAMPLE: dict[str, JsonValue] = {
    "id": "urn:uuid:5b0f0c9a-3e77-4b0f-9c41-d2ab05b1f0c9",
    "topic": "storms/coast",
    "since": "2026-11-27T05:39:00Z",
    "bytes": 212,
    "attempts": 3,
    "next_attempt": "2026-11-27T05:51:56Z",
    "stored": True,
}


class WaitingMessageView(BaseModel):
    """A message that waits for a subscription."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _EXAMPLE})

    id: str = Field(description="The publisher's, for `GET /api/v1/messages/{id}`.")
    topic: str | None
    since: datetime
    bytes: int
    attempts: int
    next_attempt: datetime | None = Field(description="null: at its turn.")
    stored: bool = Field(description="It waits in the store; else in memory alone.")


def waiting_message_view(waiting: WaitingMessage) -> WaitingMessageView:
    """The view of *waiting*."""
    return WaitingMessageView(
        id=waiting.id,
        topic=waiting.topic,
        since=moment_of(waiting.since),
        bytes=waiting.octets,
        attempts=waiting.attempts,
        next_attempt=moment_or_none(waiting.due),
        stored=waiting.stored,
    )
