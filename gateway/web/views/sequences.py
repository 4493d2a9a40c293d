"""Sequences of reliable messages."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from gateway.model.moments import moment_of, moment_or_none
from gateway.security.principals import address_of
from gateway.security.resource_addresses import shown
from gateway.sequences.listing import SequenceState
from gateway.sequences.sequences import TRUSTED
from gateway.subscriptions.sequences.listing import SubscriberSequence
from mediation.reliable_messaging.machines import SourceState

_ENDING = frozenset({SourceState.SENDING_ENDED, SourceState.COMPLETE, SourceState.TERMINATED})


class SequenceView(BaseModel, extra="forbid"):
    """A sequence, without its identifier, which is its maker's secret."""

    id: str
    direction: Literal["in", "out"] = Field(description="From a publisher, or to a subscriber.")
    subscription: str | None = Field(description="Out: the id of the subscription that it is for.")
    owner: str = Field(
        description="The network address of who made it, or `trusted`; out: of who subscribed."
    )
    version: str = Field(description="Of WS-ReliableMessaging: 1.0, 1.1.")
    state: str = Field(description="opening (out), open, closed, or ended.")
    received: str = Field(
        description="The numbers that came, or that the consumer has acknowledged, such as 1-4,6."
    )
    published: int = Field(
        description="The highest number that is published, or acknowledged, as all below it."
    )
    waiting: int = Field(
        description="Messages that wait for others before them, or to be acknowledged."
    )
    last: int | None = Field(description="The number of the last message, where that is known.")
    complete: bool = Field(description="All numbers were there when it ended.")
    acknowledged_to: str = Field(
        description="Where acknowledgements go; out: the consumer that they come from."
    )
    failure: str | None = Field(description="Out: why it was given up.")
    last_message: datetime
    expires: datetime | None
    ended: datetime | None


def sequence_view(state: SequenceState | SubscriberSequence) -> SequenceView:
    """The view of a sequence from a publisher, or to a subscriber."""
    return _incoming(state) if isinstance(state, SequenceState) else _outgoing(state)


def _outgoing(state: SubscriberSequence) -> SequenceView:
    sequence = state.sequence
    ended = sequence.ended_at is not None
    condition = "opening" if sequence.identifier is None else "open"
    if not ended and sequence.state in _ENDING:
        condition = "closed"
    return SequenceView(
        id=state.id,
        direction="out",
        subscription=state.subscription,
        owner=address_of(sequence.owner or ""),
        version=sequence.wire.rm.number,
        state="ended" if ended else condition,
        received=str(sequence.acknowledged),
        published=sequence.acknowledged.first_gap - 1,
        waiting=sequence.count,
        last=sequence.last_number,
        complete=ended and not sequence.count,
        acknowledged_to=shown(sequence.target.address),
        failure=sequence.failure,
        last_message=moment_of(sequence.last_acked_at or sequence.created_at),
        expires=moment_or_none(sequence.expires_at),
        ended=moment_or_none(sequence.ended_at),
    )


def _incoming(state: SequenceState) -> SequenceView:
    sequence = state.sequence
    condition = "closed" if sequence.closed else "open"
    owner = sequence.owner or TRUSTED
    return SequenceView(
        id=state.id,
        direction="in",
        subscription=None,
        owner=address_of(owner.removeprefix(f"{TRUSTED} ")),
        version=sequence.wire.rm.number,
        state=condition if sequence.ended_at is None else "ended",
        received=str(sequence.received),
        published=state.delivered,
        waiting=state.waiting,
        last=sequence.last_number,
        complete=sequence.complete,
        acknowledged_to=shown(sequence.acks_to.address),
        failure=None,
        last_message=moment_of(sequence.last_seen),
        expires=moment_or_none(sequence.expires_at),
        ended=moment_or_none(sequence.ended_at),
    )
