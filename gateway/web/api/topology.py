"""``/api/v1/topology``: what flows, from publishers to subscribers."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from gateway.routes import Dependency
from gateway.web.topology import Topologies
from gateway.web.validation import JsonRoute
from gateway.web.views.topology import TopologyView, topology_view

NAMED, MOST_NAMED = 20, 50
"""Topics, and hosts of subscribers, that are named."""
router = APIRouter(prefix="/topology", tags=["overview"], route_class=JsonRoute)
TOPOLOGIES = Dependency[Topologies]()
Given = Annotated[Topologies, Depends(TOPOLOGIES)]


@router.get("")
async def show_topology(
    topologies: Given,
    spec: Annotated[
        str | None,
        Query(min_length=1, max_length=64, description="Only publishers of this dialect."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_NAMED)] = NAMED,
) -> TopologyView:
    """What flowed through this gateway in the last five minutes: publishers by dialect, the topics
    and the hosts of subscribers with the most, and the messaging system between them. It is counted
    once a second at most, for all who ask."""
    return topology_view(await topologies.topology(most=limit, dialect=spec))
