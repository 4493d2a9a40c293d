"""What all routes of the console have: who may act, and pages that say why something is refused."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, HTTPException, Request
from fastapi.routing import APIRoute
from starlette.responses import RedirectResponse, Response

from filters import Reason, Refused
from gateway.routes import Dependency
from gateway.web.console.administration import Answer
from gateway.web.console.rendering import Rendering
from gateway.web.refusals import status_of


@dataclass(frozen=True, slots=True)
class Console:
    """What the pages work with.

    Attributes:
        acts: Whether anything can be changed.
    """

    rendering: Rendering
    acts: bool


CONSOLE = Dependency[Console]()
LOGIN = "/console/login"


class PageRoute(APIRoute):
    """A route whose refusals are pages, too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_or_say(request: Request) -> Response:
            try:
                return await handle(request)
            except HTTPException as refused:
                status, said = refused.status_code, str(refused.detail)
            except Refused as refused:
                if refused.reason is Reason.NOT_IDENTIFIED:
                    return RedirectResponse(login_address(request), 303)
                status, said = status_of(refused), refused.text
            console = await CONSOLE(request)
            return await console.rendering.page("refused.html", status, refusal=said, here="")

        return handle_or_say


def login_address(request: Request) -> str:
    """The page to log in at, which leads back to a page that was asked for."""
    if request.method != "GET":
        return LOGIN
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return f"{LOGIN}?{urlencode({'to': asked})}"


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
