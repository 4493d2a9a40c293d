"""The page of the subscriptions at any broker: by its ListSubscriptions where it has it, else those
that viewers hold there."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from starlette.responses import Response

from gateway.client import Record
from gateway.client.calling import base_url
from gateway.client.errors import GatewayError
from gateway.client.management import Management
from gateway.routes import Dependency
from gateway.web.console.csrf import refuse_other_origins
from gateway.web.console.forms import first, read_form
from gateway.web.console.page_routes import Given, PageRoute
from gateway.web.console.viewer.calls import PolicedCaller, TransportChoice
from gateway.web.console.viewer.viewer import Viewer
from gateway.web.console.viewer.viewers import Viewers

MOST = 500
"""Subscriptions of a page."""


class Brokers:
    """Lists and ends subscriptions at brokers, and knows the viewers there."""

    def __init__(self, transports: TransportChoice, viewers: Viewers) -> None:
        self._transports = transports
        self.viewers = viewers

    async def subscriptions(self, url: str, after: str) -> tuple[list[Record], str | None]:
        """A page of the subscriptions that a broker shows us, and what the next is after.

        Raises:
            GatewayError: It cannot be asked, or does not list any.
        """
        async with self._at(url) as management:
            return await management.page(after, most=MOST)

    async def end(self, url: str, ids: Sequence[str]) -> list[str]:
        """End subscriptions at a broker; why those were not that it refused."""
        refused = []
        async with self._at(url) as management:
            for id_ in ids:
                try:
                    await management.delete_subscription(id_)
                except GatewayError as error:
                    refused.append(str(error))
                    if error.status is None:  # It does not answer: nor will it for the others.
                        break
        return refused

    def _at(self, url: str) -> Management:
        return Management(url, caller=PolicedCaller(self._transports, patient=True))


router = APIRouter(prefix="/console/brokers", include_in_schema=False, route_class=PageRoute)
BROKERS = Dependency[Brokers]()
Parts = Annotated[Brokers, Depends(BROKERS)]


@router.get("")
async def ask_for_url(console: Given, url: Annotated[str, Query(max_length=2048)] = "") -> Response:
    """Ask which broker: nothing is sent to it before somebody says so."""
    return await _page(console, url)


@router.post("", dependencies=[Depends(refuse_other_origins)])
async def act(request: Request, console: Given, brokers: Parts) -> Response:
    """List the subscriptions at a broker; before that, end those that are ticked and confirmed."""
    form = await read_form(request)
    url, ids = first(form, "url").strip(), form.get("id", [])
    try:
        base_url(url.partition("?")[0])
    except GatewayError as error:
        raise HTTPException(422, str(error)) from error
    if first(form, "action") == "end" and ids and not first(form, "confirmed"):
        return await console.rendering.page("broker_confirm.html", url=url, ids=ids, here="brokers")
    refused = await brokers.end(url, ids[:MOST]) if first(form, "confirmed") else []
    held = [one for one in brokers.viewers.all if one.wanted.url == url and not one.ended]
    try:
        rows, following = await brokers.subscriptions(url, first(form, "after"))
    except GatewayError as error:
        return await _page(console, url, said=str(error), held=held)
    return await _page(console, url, rows=rows, following=following, held=held, refused=refused)


async def _page(
    console: Given,
    url: str,
    *,
    said: str = "",
    rows: list[Record] | None = None,
    following: str | None = None,
    held: Sequence[Viewer] = (),
    refused: Sequence[str] = (),
) -> Response:
    return await console.rendering.page(
        "broker.html",
        url=url,
        said=said,
        rows=rows,
        following=following,
        held=held,
        refused=refused,
        here="brokers",
    )
