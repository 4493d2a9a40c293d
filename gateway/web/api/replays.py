"""``/api/v1/subscriptions/{id}/replay``: what an archive has, delivered to a subscription again."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field

from filters import FilterError, quoted
from filters.archive_positions import Position, parse_position
from gateway.model.moments import moment_of
from gateway.model.replays import Replay, ReplaySelection, ReplayState
from gateway.routes import open_to_tenants
from gateway.web.api.subscriptions import Given, Named
from gateway.web.validation import JsonRoute

MOST_RATE = 10_000.0
"""Deliveries a second that a replay may be told to make."""
router = APIRouter(prefix="/subscriptions", tags=["subscriptions"], route_class=JsonRoute)


class Replaying(BaseModel):
    """What is to be replayed: of the range, what the subscription's own filter takes, and the
    `topic` and `xpath`, where they are given."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"from": "2026-11-21T12:00:00Z", "to": "2026-11-21T14:00:00Z", "rate": 50}
        },
    )

    since: Annotated[str, Field(max_length=4096)] = Field(
        alias="from",
        description="What was accepted then or later: a time with its zone, or the `position` of "
        "a former replay.",
    )
    until: Annotated[str, Field(max_length=64)] | None = Field(
        None, alias="to", description="What was accepted before; null: now."
    )
    topic: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description="A topic expression of the Full dialect: `storms//.`"
    )
    xpath: Annotated[str, Field(min_length=1, max_length=16_384)] | None = Field(
        None, description="An XPath 1.0 over the payload."
    )
    namespaces: dict[str, Annotated[str, Field(max_length=2048)]] | None = Field(
        None, max_length=100, description="The prefixes of `topic` and `xpath`."
    )
    rate: Annotated[float, Field(ge=0.01, le=MOST_RATE)] | None = Field(
        None, description="Deliveries a second, at most; null: as the consumer takes them."
    )


class ReplayView(BaseModel, extra="forbid"):
    """How it stands with a replay."""

    subscription: str
    state: ReplayState
    detail: str = Field(description="What it waits for, or why it failed.")
    since: str = Field(alias="from")
    until: datetime | None = Field(
        alias="to", description="Null: until its subscription, which began so, has caught up."
    )
    position: str = Field(
        description="Everything before it was looked at; a `from` to go on there."
    )
    topic: str | None
    xpath: str | None
    rate: float | None
    read: int = Field(description="Rows of the archive that were looked at.")
    replayed: int = Field(description="Deliveries that were added to those that wait.")
    known: int = Field(description="Those that waited already, or lie in the dead letters.")
    unevaluated: int = Field(
        description="Those for which the filter had no verdict in its time, or that are no message."
    )
    begun: datetime
    changed: datetime


def _view(replay: Replay) -> ReplayView:
    progress = replay.progress
    return ReplayView.model_validate(
        {
            "subscription": replay.subscription,
            "state": replay.state,
            "detail": replay.detail,
            "from": str(replay.since),
            "to": replay.until,
            "position": str(progress.position),
            "topic": replay.selection.topic,
            "xpath": replay.selection.xpath,
            "rate": replay.rate,
            "read": progress.read,
            "replayed": progress.replayed,
            "known": progress.known,
            "unevaluated": progress.unevaluated,
            "begun": moment_of(replay.begun),
            "changed": moment_of(replay.changed),
        }
    )


def _position(name: str, text: str) -> Position:
    try:
        return parse_position(text)
    except (ValueError, OverflowError):
        detail = f"{name}: must be a time with its zone, 2026-11-21T12:00:00Z, not {quoted(text)}"
        raise HTTPException(422, detail) from None


def _range(asked: Replaying) -> tuple[Position, datetime]:
    """The range that is meant: never beyond now, because more comes there.

    Raises:
        HTTPException: It is not a range, or empty.
    """
    since, now = _position("from", asked.since), datetime.now(UTC)
    until = now if asked.until is None else min(now, _position("to", asked.until).time)
    if since.time >= until:
        raise HTTPException(422, "from: must be before `to`, and in the past.")
    return since, until


@router.post("/{id}/replay", status_code=202)
@open_to_tenants
async def begin_replay(entry: Named, asked: Replaying, parts: Given) -> ReplayView:
    """Deliver what the archive has of a range to a subscription: as anything that is published, in
    its dialect, behind what waits, with retries and dead letters, and with the message ids that
    its consumer was told, or would have been. One replay at a time goes into a subscription.
    """
    since, until = _range(asked)
    namespaces = tuple(sorted((asked.namespaces or {}).items()))
    selection = ReplaySelection(asked.topic, asked.xpath, namespaces)
    try:
        replay = await parts.replays.begin(entry, since, until, selection, asked.rate)
    except FilterError as error:
        raise HTTPException(422, error.text) from None
    return _view(replay)


@router.get("/{id}/replay")
@open_to_tenants
async def show_replay(entry: Named, parts: Given) -> ReplayView:
    """The replay into a subscription that runs, or the last one: for 30 days after its end."""
    replay = await parts.replays.find(entry)
    if replay is None:
        raise HTTPException(404, "Nothing was replayed into this subscription.")
    return _view(replay)


@router.delete("/{id}/replay")
@open_to_tenants
async def cancel_replay(entry: Named, parts: Given) -> ReplayView:
    """Let the replay into a subscription read no further. What waits already is delivered."""
    replay = await parts.replays.cancel(entry)
    if replay is None:
        raise HTTPException(404, "Nothing was replayed into this subscription.")
    return _view(replay)
