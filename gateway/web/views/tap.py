"""Messages that pass, as who watches sees them."""

import json
from collections.abc import Mapping
from datetime import datetime

from pydantic import BaseModel, Field
from pydantic_core import to_json

from gateway.model.moments import moment_of
from gateway.observing.taps import PassingMessage
from gateway.observing.traces import Trace
from gateway.web.views.documents import Part

SHOWN = 16 * 2**10
"""Bytes of a payload that are shown."""


class TapAttempt(BaseModel, extra="forbid"):
    """An attempt to deliver the message, as `GET /api/v1/subscriptions/{id}/attempts` has it."""

    subscription: str
    verdict: str
    status: int | None
    seconds: float
    error: str | None


class TapMessage(BaseModel, extra="forbid"):
    """A message that passed, half a second later."""

    id: str = Field(description="The publisher's, for `GET /api/v1/messages/{id}`.")
    topic: str | None
    at: datetime = Field(
        description="When it was accepted; or seen first, where that was not here."
    )
    by: str | None = Field(description="Who published it; null where it was not accepted here.")
    bytes: int
    matched: int = Field(description="How many subscriptions it had matched by then.")
    delivered: int
    expired: int
    cancelled: int
    under_way: int = Field(description="Deliveries that had not come to their end by then.")
    attempts: list[TapAttempt] = Field(description="The first 10 that ended by then.")
    more_attempts: int = Field(description="Attempts that ended beside these.")
    payload: Part | None = Field(description="null unless it was asked for.")


class TapLosses(BaseModel, extra="forbid"):
    """What a watcher was not told, since it began."""

    passed_over: int = Field(description="Messages that `sample` left out.")
    dropped: int = Field(description="Messages for which there was no room: read faster.")
    not_evaluated: int = Field(description="Messages on which the XPath costs too much.")


def tap_message(
    passing: PassingMessage, trace: Trace | None, *, payload: bytes | None
) -> dict[str, object]:
    """A message that passed, of which *trace* is known, as `TapMessage` describes it: a bare
    dictionary, for `write_tap_message`. To make and write the model took four times as long, of
    each message. *payload* is shown, if any."""
    notification = passing.notification
    ended = trace.counts() if trace is not None else {}
    matched = (trace.matched or 0) if trace is not None else 0
    return {
        "id": notification.id,
        "topic": str(notification.topic) if notification.topic else None,
        "at": moment_of(passing.at),
        "by": passing.by or None,
        "bytes": notification.octets,
        "matched": matched,
        "delivered": ended.get("delivered", 0),
        "expired": ended.get("expired", 0),
        "cancelled": ended.get("cancelled", 0),
        "under_way": max(0, matched - sum(ended.values())),
        "attempts": [
            {
                "subscription": subscription,
                "verdict": verdict,
                "status": status,
                "seconds": round(seconds, 6),
                "error": error,
            }
            for subscription, (_, seconds, verdict, status, error, *_) in passing.attempts
        ],
        "more_attempts": passing.more,
        "payload": None if payload is None else _payload(payload),
    }


def write_tap_message(record: Mapping[str, object]) -> str:
    """Write what `tap_message` made, as JSON on one line. By pydantic's encoder, which takes 2
    microseconds for a message, where that of Python takes 8."""
    try:
        return to_json(record).decode()
    except ValueError:  # A text with half a character, which some consumer said.
        return json.dumps(record, default=str)


def _payload(octets: bytes) -> dict[str, object]:
    """As `part_of` has it."""
    text = octets[:SHOWN].decode("utf-8", "replace")
    return {"text": text, "bytes": len(octets), "whole": len(octets) <= SHOWN}
