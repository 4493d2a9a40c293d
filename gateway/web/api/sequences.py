"""``/api/v1/sequences``: sequences of reliable messages that publishers made."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query
from pydantic import BaseModel, Field

from gateway.security.principals import address_of
from gateway.security.resource_addresses import shown
from gateway.sequences.listing import SequenceState
from gateway.sequences.sequences import TRUSTED, Sequences
from gateway.web.parts import PAGE, Parts
from gateway.web.validation import JsonRoute

router = APIRouter(prefix="/sequences", tags=["sequences"], route_class=JsonRoute)


class SequenceView(BaseModel, extra="forbid"):
    """A sequence, without its identifier, which is its maker's secret."""

    id: str
    owner: str = Field(description="The network address of who made it, or `trusted`.")
    version: str = Field(description="Of WS-ReliableMessaging: 1.0, 1.1.")
    state: str = Field(description="open, closed, or ended.")
    received: str = Field(description="The numbers that came, such as 1-4,6.")
    published: int = Field(description="The highest number that is published, as all below it.")
    waiting: int = Field(description="Messages that wait for others before them.")
    last: int | None = Field(description="The number of the last message, where that is known.")
    complete: bool = Field(description="All numbers were there when it ended.")
    acknowledged_to: str = Field(description="Where acknowledgements go.")
    last_message: datetime
    expires: datetime | None
    ended: datetime | None


class SequencePage(BaseModel, extra="forbid"):
    sequences: list[SequenceView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


async def _sequences(web: Parts) -> Sequences:
    if web.sequences is None:
        raise HTTPException(404, "No endpoint takes sequences: see the setting wsrm.")
    return web.sequences


Known = Annotated[Sequences, Depends(_sequences)]


async def _named(id: str, sequences: Known) -> SequenceState:
    state = await sequences.by_id(id)
    if state is None:
        raise HTTPException(404, "There is no such sequence.")
    return state


Named = Annotated[SequenceState, Depends(_named)]


@router.get("")
async def list_sequences(
    web: Parts,
    after: Annotated[str, Query(pattern="^[ -~]{0,64}$")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
) -> SequencePage:
    """Sequences in the order of their ids, those too that ended within the last hour."""
    if web.sequences is None:
        return SequencePage(sequences=[])
    listed = await web.sequences.listed(after, limit + 1)
    views = [_view(state) for state in listed[:limit]]
    return SequencePage(sequences=views, next=views[-1].id if len(listed) > limit else None)


@router.get("/{id}")
async def show_sequence(state: Named) -> SequenceView:
    """One sequence."""
    return _view(state)


@router.delete("/{id}", status_code=204)
async def terminate_sequence(state: Named, sequences: Known) -> None:
    """End a sequence for its maker. What can be published is; what waits behind a gap is not."""
    await sequences.terminate(state)


def _view(state: SequenceState) -> SequenceView:
    sequence = state.sequence
    condition = "closed" if sequence.closed else "open"
    owner = sequence.owner or TRUSTED
    return SequenceView(
        id=state.id,
        owner=owner if owner == TRUSTED else address_of(owner),
        version=sequence.wire.rm.number,
        state=condition if sequence.ended_at is None else "ended",
        received=str(sequence.received),
        published=state.delivered,
        waiting=state.waiting,
        last=sequence.last_number,
        complete=sequence.complete,
        acknowledged_to=shown(sequence.acks_to.address),
        last_message=datetime.fromtimestamp(sequence.last_seen, UTC),
        expires=_at(sequence.expires_at),
        ended=_at(sequence.ended_at),
    )


def _at(moment: float | None) -> datetime | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC)
