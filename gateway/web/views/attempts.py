"""Attempts to deliver to a subscription."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from gateway.model.moments import moment_of
from gateway.observing.attempts import Attempt
from gateway.observing.masking import Mask

_EXAMPLE: dict[str, JsonValue] = {
    "ended": "2026-11-27T05:51:08Z",
    "seconds": 0.012,
    "verdict": "retry",
    "status": 503,
    "error": "answered 503 Service Unavailable",
    "answer": "<html>Try later.</html>",
    "message": "urn:uuid:5b0f0c9a-3e77-4b0f-9c41-d2ab05b1f0c9",
    "deliveries": 1,
    "again": False,
}


class AttemptView(BaseModel):
    """An attempt that has ended."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _EXAMPLE})

    ended: datetime
    seconds: float = Field(description="How long it took.")
    verdict: str = Field(
        description="delivered, retry, rejected, gone, unwanted, broken or withdrawn, as in the "
        "metrics."
    )
    status: int | None = Field(description="Of the answer; null where there was none.")
    error: str | None = Field(description="What went wrong, in words; null where nothing did.")
    answer: str = Field(
        description="The first kilobyte of what the consumer said; where fields are masked and it "
        "cannot be read, nothing of it."
    )
    message: str | None = Field(
        description="The publisher's id of the message, for `GET /api/v1/messages/{id}`; null of a "
        "heartbeat."
    )
    deliveries: int = Field(description="How many deliveries it carried.")
    again: bool = Field(description="It was sent once more because an operator asked for that.")


def attempt_view(attempt: Attempt, mask: Mask) -> AttemptView:
    """The view of *attempt*, whose answer is masked."""
    return AttemptView(
        ended=moment_of(attempt.ended),
        seconds=round(attempt.seconds, 6),
        verdict=attempt.verdict,
        status=attempt.status,
        error=attempt.error,
        answer=mask.text(attempt.answer),
        message=attempt.message or None,
        deliveries=attempt.deliveries,
        again=attempt.again,
    )
