"""``/api/v1/sequences``: sequences of reliable messages, from publishers and to subscribers."""

from contextlib import suppress
from heapq import merge
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, Field

from gateway.sequences.listing import SequenceState
from gateway.subscriptions.lifecycle import SubscriptionUnknown
from gateway.subscriptions.sequence_listing import SubscriberSequence
from gateway.web.parameters import PAGE, After, Limit, page_of
from gateway.web.parts import Parts
from gateway.web.validation import JsonRoute
from gateway.web.views.sequences import SequenceView, sequence_view
from mediation.model.messages import End

router = APIRouter(prefix="/sequences", tags=["sequences"], route_class=JsonRoute)


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
    both = merge(
        map(sequence_view, incoming), map(sequence_view, outgoing), key=lambda view: view.id
    )
    page, next_ = page_of(both, limit, lambda view: view.id)
    return SequencePage(sequences=page, next=next_)


@router.get("/{id}")
async def show_sequence(state: Named) -> SequenceView:
    """One sequence."""
    return sequence_view(state)


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
