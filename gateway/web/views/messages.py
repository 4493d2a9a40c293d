"""Published messages, and what became of their deliveries."""

from datetime import datetime

from pydantic import BaseModel, Field

from gateway.model.moments import moment_or_none
from gateway.subscriptions.message_tracing import Traced
from gateway.web.views.message_contents import MessageContent


class WaitingView(BaseModel, extra="forbid"):
    """A delivery that waits in the store."""

    subscription: str
    since: datetime | None
    attempts: int
    next_attempt: datetime | None = Field(description="null: at its turn.")


class DeadView(BaseModel, extra="forbid"):
    """A delivery that became a dead letter, by its `number`."""

    number: int
    subscription: str
    message_id: str = Field(description="The id that its consumer was told.")
    reason: str
    failure: str | None
    died: datetime | None


class EndView(BaseModel, extra="forbid"):
    """A delivery that has come to its end."""

    subscription: str
    end: str = Field(description="delivered, expired or cancelled.")


class MessageView(BaseModel, extra="forbid"):
    """What became of a message, as far as this gateway knows: of the last 10,000 all, of others
    what waits or died."""

    id: str = Field(description="The id of its publisher; `ID#2` is the second of a publication.")
    topic: str | None
    accepted: datetime | None = Field(description="null: elsewhere, or before the last start.")
    by: str | None = Field(description="Who published it.")
    matched: int | None = Field(description="How many subscriptions; null where it is not known.")
    delivered: int
    expired: int
    cancelled: int
    deliveries: list[EndView] = Field(description="The first 50 that came to an end.")
    under_way: int | None = Field(description="Deliveries neither at their end nor stored.")
    waiting: list[WaitingView] = Field(description="At most 100.")
    dead: list[DeadView] = Field(description="At most 100.")
    content: MessageContent | None = Field(
        None, description="null unless it was asked for, and the message is kept whole."
    )


def message_view(traced: Traced, content: MessageContent | None = None) -> MessageView:
    """The view of the message that was traced, with its *content*."""
    ended, named = traced.ends
    trace = traced.trace
    stored = len(traced.waiting) + len(traced.dead)
    matched = trace.matched if trace is not None else None
    return MessageView(
        id=traced.id,
        topic=traced.topic,
        accepted=moment_or_none(trace.accepted) if trace is not None else None,
        by=(trace.by or None) if trace is not None else None,
        matched=matched,
        delivered=ended.get("delivered", 0),
        expired=ended.get("expired", 0),
        cancelled=ended.get("cancelled", 0),
        deliveries=[EndView(subscription=one, end=end) for one, end in named],
        under_way=None if matched is None else max(0, matched - sum(ended.values()) - stored),
        waiting=[
            WaitingView(
                subscription=one.subscription,
                since=moment_or_none(one.since),
                attempts=one.attempts,
                next_attempt=moment_or_none(one.due or None),
            )
            for one in traced.waiting
        ],
        dead=[
            DeadView(
                number=letter.number,
                subscription=letter.death.subscription,
                message_id=letter.death.delivery_id,
                reason=letter.death.reason.value,
                failure=letter.death.failure,
                died=moment_or_none(letter.death.died),
            )
            for letter in traced.dead
        ],
        content=content,
    )
