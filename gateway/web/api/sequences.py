"""``/api/v1/sequences``: sequences of reliable messages, from publishers and to subscribers."""

from contextlib import suppress
from dataclasses import dataclass
from heapq import merge
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, Field

from gateway.routes import Dependency
from gateway.sequences.listing import SequenceState
from gateway.sequences.sequences import Sequences
from gateway.subscriptions.lifecycle.lifecycle import Lifecycle, SubscriptionUnknown
from gateway.subscriptions.sequences.listing import SubscriberSequence
from gateway.subscriptions.sequences.subscriber_sequences import SubscriberSequences
from gateway.subscriptions.table import SubscriptionTable
from gateway.web.parameters import PAGE, After, Limit, page_of
from gateway.web.validation import JsonRoute
from gateway.web.views.sequences import SequenceView, sequence_view
from mediation.model.messages import End


@dataclass(frozen=True, slots=True)
class SequenceParts:
    """What the routes of sequences work with; `incoming` is None where no endpoint takes any."""

    incoming: Sequences | None
    outgoing: SubscriberSequences
    table: SubscriptionTable
    lifecycle: Lifecycle


router = APIRouter(prefix="/sequences", tags=["sequences"], route_class=JsonRoute)
PARTS = Dependency[SequenceParts]()
Given = Annotated[SequenceParts, Depends(PARTS)]


class SequencePage(BaseModel, extra="forbid"):
    sequences: list[SequenceView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


async def _named(id: str, parts: Given) -> SequenceState | SubscriberSequence:
    out = await parts.outgoing.by_id(id)
    if out is not None:
        return out
    state = None if parts.incoming is None else await parts.incoming.by_id(id)
    if state is None:
        raise HTTPException(404, "There is no such sequence.")
    return state


Named = Annotated[SequenceState | SubscriberSequence, Depends(_named)]


@router.get("")
async def list_sequences(
    parts: Given,
    after: After = "",
    limit: Limit = PAGE,
) -> SequencePage:
    """Sequences in the order of their ids, those too that ended within the last hour."""
    incoming = [] if parts.incoming is None else await parts.incoming.listed(after, limit + 1)
    outgoing = await parts.outgoing.listed(after, limit + 1)
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
async def terminate_sequence(state: Named, parts: Given) -> None:
    """End a sequence for its maker. What can be published is; what waits behind a gap is not. One
    to a subscriber ends with its subscription, which is told."""
    if isinstance(state, SequenceState):
        if parts.incoming is not None:
            await parts.incoming.terminate(state)
        return
    entry = parts.table.by_id(state.subscription)
    if entry is not None:
        with suppress(SubscriptionUnknown):  # It has just ended.
            await parts.lifecycle.end(
                entry, why=End.CANCELLING, reason="Its sequence was terminated by an operator."
            )
