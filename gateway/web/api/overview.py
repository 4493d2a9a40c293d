"""``/api/v1/overview``: the state of the gateway as a whole."""

from typing import Annotated

from fastapi import APIRouter, Depends

from gateway.routes import Dependency
from gateway.web.overview import Overviews
from gateway.web.validation import JsonRoute
from gateway.web.views.overview import OverviewView, overview_view

router = APIRouter(prefix="/overview", tags=["overview"], route_class=JsonRoute)
OVERVIEWS = Dependency[Overviews]()
Given = Annotated[Overviews, Depends(OVERVIEWS)]


@router.get("")
async def show_overview(overviews: Given) -> OverviewView:
    """Whether store and broker are there, what waits, who fails and why, what died, and the rates
    of the last hour. It is made once a second at most, for all who ask."""
    return overview_view(await overviews.overview())
