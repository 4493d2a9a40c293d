"""``/api/v1/spool``: what waits for the messaging system, what it refuses; retry and discard."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path, Query
from pydantic import BaseModel, Field

from gateway.publishing.spool import Spool
from gateway.routes import Dependency
from gateway.web.api.dead_letters import LARGEST, SHOWN
from gateway.web.dependencies import Masking
from gateway.web.parameters import PAGE
from gateway.web.validation import JsonRoute
from gateway.web.views.spool import (
    SpoolMessage,
    SpoolMessageDetail,
    SpoolState,
    spool_message,
    spool_message_detail,
)

router = APIRouter(prefix="/spool", tags=["spool"], route_class=JsonRoute)
SPOOL = Dependency[Spool]()
Given = Annotated[Spool, Depends(SPOOL)]


class SpoolPage(BaseModel, extra="forbid"):
    messages: list[SpoolMessage]
    next: int | None = Field(None, description="Pass it as `after` for the next page.")


class SpoolChoice(BaseModel, extra="forbid"):
    """Which messages: `numbers`, or `"all": true` for all that are refused."""

    all: bool = Field(False, strict=True)
    numbers: (
        Annotated[
            list[Annotated[int, Field(ge=0, le=LARGEST)]], Field(min_length=1, max_length=10_000)
        ]
        | None
    ) = None

    def chosen(self) -> frozenset[int] | None:
        """The numbers; None for all that are refused.

        Raises:
            HTTPException: Nothing is chosen, or in two ways.
        """
        if self.all is (self.numbers is not None):
            raise HTTPException(422, 'Say which messages: `numbers`, or `"all": true`.')
        return None if self.numbers is None else frozenset(self.numbers)


class SpoolChanged(BaseModel, extra="forbid"):
    number: int = Field(description="How many messages.")


@router.get("")
async def list_spool(
    spool: Given,
    state: SpoolState | None = None,
    after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
) -> SpoolPage:
    """Messages of the spool, in the order in which they came."""
    refused = None if state is None else state is SpoolState.REFUSED
    listed = await spool.listed(refused, after=after, limit=limit)
    more = len(listed) == limit
    return SpoolPage(
        messages=[spool_message(entry) for entry in listed],
        next=listed[-1].number if more else None,
    )


@router.get("/{number}")
async def show_spooled(
    spool: Given,
    masking: Masking,
    number: Annotated[int, Path(ge=0, le=LARGEST)],
    limit: Annotated[int, Query(ge=0, le=2**31 - 1)] = SHOWN,
) -> SpoolMessageDetail:
    """One message of the spool, with the first `limit` bytes of it, masked as `console_mask`
    says."""
    found = await spool.show(number)
    if found is None:
        raise HTTPException(404, "There is no such message in the spool.")
    entry, body = found
    return await asyncio.to_thread(spool_message_detail, entry, body, masking, limit)


@router.post("/retry")
async def retry_refused(chosen: SpoolChoice, spool: Given) -> SpoolChanged:
    """Publish messages that are refused once more; what is refused again is set aside again."""
    return SpoolChanged(number=await spool.retry(chosen.chosen()))


@router.post("/discard")
async def discard_spooled(chosen: SpoolChoice, spool: Given) -> SpoolChanged:
    """Forget messages for ever: those named by number, also where they wait, or all that are
    refused."""
    return SpoolChanged(number=await spool.discard(chosen.chosen()))
