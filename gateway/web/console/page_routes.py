"""What all routes of the console have: who may act, and pages that say why something is refused."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from gateway.routes import Dependency
from gateway.web.console.administration import Answer
from gateway.web.console.rendering import Rendering


@dataclass(frozen=True, slots=True)
class Console:
    """What the pages work with.

    Attributes:
        acts: Whether anything can be changed.
    """

    rendering: Rendering
    acts: bool


CONSOLE = Dependency[Console]()


class PageRoute(APIRoute):
    """A route whose refusals are pages, too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_or_say(request: Request) -> Response:
            try:
                return await handle(request)
            except HTTPException as refused:
                status, said = refused.status_code, str(refused.detail)
            console = await CONSOLE(request)
            return await console.rendering.page("refused.html", status, refusal=said, here="")

        return handle_or_say


Given = Annotated[Console, Depends(CONSOLE)]


async def refuse(console: Console, answer: Answer) -> Response:
    """A page that says why the administration refused."""
    return await console.rendering.page(
        "refused.html", answer.status, refusal=answer.refusal, here=""
    )


def check_acts(console: Console) -> None:
    """Let through where something may be changed.

    Raises:
        HTTPException: 403: the console only shows.
    """
    if not console.acts:
        raise HTTPException(403, 'This console only shows: the setting `console` is "read".')
