"""``/api/v1/sequences``: sequences of reliable messages, from publishers and to subscribers."""

from contextlib import suppress
from datetime import datetime
from heapq import merge
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, Field

from gateway.model.moments import moment_of
from gateway.security.principals import address_of
from gateway.security.resource_addresses import shown
from gateway.sequences.listing import SequenceState
from gateway.sequences.sequences import TRUSTED
from gateway.subscriptions.lifecycle import SubscriptionUnknown
from gateway.subscriptions.sequence_listing import SubscriberSequence
from gateway.web.parts import Parts
from gateway.web.validation import JsonRoute
from gateway.web.values import PAGE, After, Limit, at_moment, page_of
from mediation.model.messages import End
from mediation.reliable_messaging.machines import SourceState

router = APIRouter(prefix="/sequences", tags=["sequences"], route_class=JsonRoute)


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


class SequencePage(BaseModel, extra="forbid"):
    sequences: list[SequenceView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


async def _named(id: str, web: Parts) -> SequenceState | SubscriberSequence:
    out = await web.subscriber_sequences.by_id(id)
    if out is not None:
        return out
    state = None if web.sequences is None else await web.sequences.by_id(id)
    if state is None:
        raise HTTPException(404, "There is no such sequence.")
    return state


Named = Annotated[SequenceState | SubscriberSequence, Depends(_named)]


@router.get("")
async def list_sequences(
    web: Parts,
    after: After = "",
    limit: Limit = PAGE,
) -> SequencePage:
    """Sequences in the order of their ids, those too that ended within the last hour."""
    incoming = [] if web.sequences is None else await web.sequences.listed(after, limit + 1)
    outgoing = await web.subscriber_sequences.listed(after, limit + 1)
    both = merge(map(_view, incoming), map(_view, outgoing), key=lambda view: view.id)
    page, next_ = page_of(both, limit, lambda view: view.id)
    return SequencePage(sequences=page, next=next_)


@router.get("/{id}")
async def show_sequence(state: Named) -> SequenceView:
    """One sequence."""
    return _view(state)


@router.delete("/{id}", status_code=204)
async def terminate_sequence(state: Named, web: Parts) -> None:
    """End a sequence for its maker. What can be published is; what waits behind a gap is not. One
    to a subscriber ends with its subscription, which is told."""
    if isinstance(state, SequenceState):
        if web.sequences is not None:
            await web.sequences.terminate(state)
        return
    entry = web.subscriptions.by_id(state.subscription)
    if entry is not None:
        with suppress(SubscriptionUnknown):  # It has just ended.
            await web.lifecycle.end(
                entry, why=End.CANCELLING, reason="Its sequence was terminated by an operator."
            )


def _view(state: SequenceState | SubscriberSequence) -> SequenceView:
    if isinstance(state, SequenceState):
        return _incoming(state)
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
        expires=at_moment(sequence.expires_at),
        ended=at_moment(sequence.ended_at),
    )


_ENDING = frozenset({SourceState.SENDING_ENDED, SourceState.COMPLETE, SourceState.TERMINATED})


def _incoming(state: SequenceState) -> SequenceView:
    sequence = state.sequence
    condition = "closed" if sequence.closed else "open"
    owner = sequence.owner or TRUSTED
    return SequenceView(
        id=state.id,
        direction="in",
        subscription=None,
        owner=owner if owner == TRUSTED else address_of(owner),
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
        expires=at_moment(sequence.expires_at),
        ended=at_moment(sequence.ended_at),
    )
