"""The room of the console."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from gateway.observing.masking import Mask
from gateway.rooms import Room
from gateway.routes import BoundRouter, Routes
from gateway.security.rights import Right
from gateway.web.console import addition_pages, pages, selection_pages, table_pages
from gateway.web.console.page_routes import CONSOLE, LOGIN, Console
from gateway.web.console.rendering import FOLDER, Rendering
from gateway.web.console.trial.pages import TRIALS, Trials
from gateway.web.console.trial.pages import router as trial_router
from gateway.web.console.trial.subscribe_pages import SUBSCRIBE_TRIALS, SubscribeTrials
from gateway.web.console.trial.subscribe_pages import router as subscribe_router
from gateway.web.console.viewer.brokers import BROKERS, Brokers
from gateway.web.console.viewer.brokers import router as broker_router
from gateway.web.console.viewer.calls import TransportChoice
from gateway.web.console.viewer.pages import VIEWERS, ViewerPages
from gateway.web.console.viewer.pages import router as viewer_router
from gateway.web.console.viewer.references import HeldReferences
from gateway.web.console.viewer.viewers import Viewers
from gateway.web.dependencies import Asking

if TYPE_CHECKING:
    from gateway.security.sessions import Sessions

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class ConsoleRoom(Room):
    """Pages for operators.

    Args:
        mode: ``full``, or ``read`` for a console without buttons.
        frame_ancestors: Origins whose pages may have the console in a frame.
        transports: Of the Message Viewer and of what is tried, which a console without buttons
            does not have.
        base: A URL at which this gateway reaches itself.
        asking: Has the sessions of those who log in, where there is a file of identities.
        pulls: Whether a viewer usually fetches: the gateway sends to no address of its own network
            where it listens to others.
        mask: Hides fields of the messages that viewers show.
    """

    def __init__(
        self,
        mode: Literal["read", "full"],
        frame_ancestors: Sequence[str] = (),
        *,
        transports: TransportChoice,
        base: str,
        pulls: bool,
        mask: Mask,
        asking: Asking,
    ) -> None:
        acts = mode == "full"
        headers = headers_of_pages(frame_ancestors)
        logs_in = asking.sessions is not None
        rendering = Rendering(acts=acts, headers=headers, logs_in=logs_in)
        self._given = CONSOLE.of(Console(rendering, acts))
        self._asking, self._rendering = asking, rendering
        self._acts, self._base, self._pulls = acts, base, pulls
        references = HeldReferences()
        self._viewers = Viewers(transports, references, mask)
        self._trials = Trials(transports, base)
        self._subscribe_trials = SubscribeTrials(transports, references, base)
        self._brokers = Brokers(transports, references)

    def administration_routes(self) -> Routes:
        yield Route("/console/static/{name}", _static_file, include_in_schema=False)
        if self._asking.sessions is not None:
            yield from self._login_routes(self._asking.sessions)
        if self._acts:  # Before the tables, whose routes take any name.
            given = VIEWERS.of(ViewerPages(self._viewers, self._base, self._pulls))
            yield BoundRouter(viewer_router, {**self._given, **given}, Right.OPERATE)
            subscribing = SUBSCRIBE_TRIALS.of(self._subscribe_trials)
            yield BoundRouter(subscribe_router, {**self._given, **subscribing}, Right.OPERATE)
            trials = TRIALS.of(self._trials)
            yield BoundRouter(trial_router, {**self._given, **trials}, Right.OPERATE)
            brokers = BROKERS.of(self._brokers)
            yield BoundRouter(broker_router, {**self._given, **brokers}, Right.OPERATE)
        for router in (
            pages.router,
            selection_pages.router,
            addition_pages.router,
            table_pages.router,
        ):
            # They show what the administration answers to whoever asks for them.
            yield BoundRouter(
                router,
                self._given,
                Right.OPERATE,
                reading=Right.READ,
                tenants=True,
                asks_administration=True,
            )

    def _login_routes(self, sessions: "Sessions") -> Routes:
        from gateway.web.console.login import Login
        from gateway.web.console.openid_pages import BACK, BACK_OF_ONE, BEGIN, OpenIdPages

        login = Login(sessions, self._rendering, self._asking)
        openid = OpenIdPages(sessions, login, self._rendering, self._asking)
        login.leave = openid.leave
        methods, hidden = ["GET", "POST"], False
        yield Route(LOGIN, login.log_in, methods=methods, include_in_schema=hidden)
        yield Route(BEGIN, openid.begin, include_in_schema=hidden)
        for back in (BACK, BACK_OF_ONE):
            yield Route(back, openid.back, include_in_schema=hidden)
        yield Route("/console/logout", login.log_out, methods=["POST"], include_in_schema=hidden)

    async def linger(self) -> None:
        await self._viewers.stop()

    async def close(self) -> None:
        self._trials.close()
        await self._viewers.close()


def headers_of_pages(frame_ancestors: Sequence[str]) -> dict[str, str]:
    """The headers of every page: nothing comes from elsewhere, and no address leaks."""
    framed = " ".join(frame_ancestors) or "'none'"
    headers = {
        "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
        "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        f"frame-ancestors {framed}",
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "cache-control": "no-store",
    }
    return headers if frame_ancestors else headers | {"x-frame-options": "DENY"}


async def _static_file(request: Request) -> Response:
    name = request.path_params["name"]
    path = FOLDER / "static" / name
    if "/" in name or path.suffix not in _TYPES or not path.is_file():
        return Response("There is no such file.", 404, media_type="text/plain")
    headers = {"x-content-type-options": "nosniff", "cache-control": "max-age=3600"}
    return FileResponse(path, media_type=_TYPES[path.suffix], headers=headers)
