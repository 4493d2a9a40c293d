"""The ASGI applications: FastAPI, with plain routes for SOAP.

what                                            where
----------------------------------------------  --------------------------------------------
SOAP, CloudEvents, mailboxes, relays            the public listener (`host`, `port`)
/api/v1, /xregistry, /docs, /openapi.json,      the administration's (`admin_host`,
/metrics                                        `admin_port`); the public one, where that is
                                                on loopback and no other is asked for
/healthz, /readyz                               both
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from filters import Reason, Refused
from gateway.egress import AddressRefused
from gateway.http import AliasMiddleware, HostMiddleware, PrivateMiddleware
from gateway.rooms import Room
from gateway.routes import BoundRouter, Routes
from gateway.security.resource_addresses import MESSENGER_PREFIX, MESSENGER_SERVICES
from gateway.security.rights import Right
from gateway.soap.http import describe_soap, soap_routes
from gateway.web.changes import ChangeMiddleware
from gateway.web.dependencies import ASKING, Asking, asking_for
from gateway.web.events import describe_events
from gateway.web.health import METRICS, READINESS, health_router, metrics_router
from gateway.web.metrics import Metrics
from gateway.web.pages import docs_routes
from gateway.web.refusals import PROBLEM, challenges_of, headers_of, problem, status_of
from gateway.web.validation import explain_invalid

API = "/api/"
API_BODY = 2**20
"""Bytes that a JSON request may have."""
ADMINISTRATION = (
    "/api", "/api/{rest:path}", "/docs", "/docs/{rest:path}", "/openapi.json", "/metrics",
    "/console", "/console/{rest:path}", "/xregistry", "/xregistry/{rest:path}",
)  # fmt: skip
PUBLIC = (
    "/mailboxes", "/mailboxes/{rest:path}", "/events", "/events/{rest:path}", "/relay/{rest:path}",
    "/schemas/{rest:path}",
)  # fmt: skip
"""Beside the paths of SOAP."""
PRIVATE = (
    "/api", "/docs", "/openapi.json", "/metrics", "/console", "/xregistry", "/mailboxes",
    "/events/subscriptions", "/events/consents",
)  # fmt: skip
"""What nobody keeps, at a listener for peers: the administration, where that is there, too, and
what JSON says of mailboxes and subscriptions. Events and SOAP are answered to programs."""
ADMINISTRATION_ELSEWHERE = "administration-elsewhere"
"""The reason in an answer to those who look for the administration at the public listener."""


@dataclass(frozen=True, slots=True)
class Site:
    """What the applications of all listeners have.

    Attributes:
        rooms: They bring the routes; the first to be asked are those of the last room.
        readiness: The state that ``/readyz`` shows.
    """

    rooms: Sequence[Room]
    asking: Asking
    readiness: Callable[[], Mapping[str, Any]]
    metrics: Metrics

    def routes(self, *, public: bool, administration: bool) -> Routes:
        """The routes of the rooms for these listeners."""
        for room in reversed(self.rooms):
            if administration:
                yield from room.administration_routes()
            if public:
                yield from room.public_routes()


def make_app(site: Site, *, public: bool, administration: bool) -> ASGIApp:
    """The application of a listener: for peers, for operators, or for both."""
    app = _make(site, public=public, administration=administration)
    if administration and not public:
        # Operators read there how all of it is asked.
        app.described = _make(site, public=True, administration=True)
    return app


class _Application(FastAPI):
    """FastAPI, whose description has the SOAP endpoint, too.

    Attributes:
        described: The application that the description is of.
        private: What the paths begin with whose answers nobody keeps; empty: all.
    """

    described: "_Application | None" = None
    private: tuple[str, ...] = ()

    def build_middleware_stack(self) -> ASGIApp:
        """Put what makes answers private, and what notes changes, around all, also around what
        answers to errors."""
        noting = ChangeMiddleware(super().build_middleware_stack(), self.state.http)
        return PrivateMiddleware(noting, self.private)

    def openapi(self) -> dict[str, Any]:
        if self.described is not None:
            return self.described.openapi()
        schema = super().openapi()
        describe_soap(schema)
        describe_events(schema)
        return schema

    async def describe(self, _: Request) -> JSONResponse:
        """Answer with the description; the first time it takes long to make."""
        return JSONResponse(await asyncio.to_thread(self.openapi))


def _make(site: Site, *, public: bool, administration: bool) -> _Application:
    routes = list(site.routes(public=public, administration=administration))
    bound = [one for one in routes if isinstance(one, BoundRouter)]
    app = _Application(
        title="Dragoman",
        summary="WS-Eventing, WS-Notification and CloudEvents in front of a message system.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # Its route would make the description on the event loop.
        routes=[one for one in routes if isinstance(one, BaseRoute)],
        # It asks for its providers on each request, which costs 7 us; ours are in /metrics.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.private = PRIVATE if public else ()
    app.state.http = site.asking.http
    # Of those who see to it that we live no right is asked.
    bound.append(BoundRouter(health_router, READINESS.of(site.readiness), None))
    if administration:
        bound.append(BoundRouter(metrics_router, METRICS.of(site.metrics), Right.READ))
        app.router.routes.extend(docs_routes())
        app.router.routes.append(Route("/openapi.json", app.describe, include_in_schema=False))
    app.router.routes.extend(_elsewhere_routes(public=public, administration=administration))
    app.state.given = dict(ASKING.of(site.asking))
    for one in bound:
        app.state.given.update(one.given)
        app.router.routes.extend(_routes_of(one))
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(Refused, _refuse)
    app.add_exception_handler(HTTPException, _refuse_plainly)

    @app.get("/", include_in_schema=False)
    async def root() -> RedirectResponse:
        return RedirectResponse("/docs" if administration else "/soap?wsdl")

    http = site.asking.http
    if http.messenger_prefixes:
        app.add_middleware(
            AliasMiddleware,
            prefixes=http.messenger_prefixes,
            prefix=MESSENGER_PREFIX,
            names=MESSENGER_SERVICES,
        )
    app.add_middleware(HostMiddleware, settings=http)
    _build_routes(app)
    return app


_guarded: dict[tuple[int, Right | None, Right | None, bool, bool], Sequence[BaseRoute]] = {}


def _routes_of(one: BoundRouter) -> Sequence[BaseRoute]:
    """The routes of a router, which ask for its rights. They are made once for all applications of
    this process, as the router is: to build those of all routers takes FastAPI 50 ms."""
    noting = not one.asks_administration
    key = (id(one.router), one.right, one.reading, one.tenants, noting)
    if key not in _guarded:
        asks = []
        if one.right is not None:
            asking = asking_for(one.right, one.reading, tenants=one.tenants, notes_changes=noting)
            asks.append(Depends(asking))
        outer = APIRouter()
        outer.include_router(one.router, dependencies=asks, max_body_size=API_BODY)
        _guarded[key] = outer.routes
    return _guarded[key]


def _build_routes(app: FastAPI) -> None:
    """Have FastAPI build the routes of all routers now. It builds those of a router when the first
    request looks at them, which took 35 to 50 ms of the event loop."""
    nowhere = {"type": "http", "method": "GET", "path": "/-", "root_path": "", "headers": []}
    for route in app.router.routes:
        route.matches(dict(nowhere))


def _elsewhere_routes(*, public: bool, administration: bool) -> list[BaseRoute]:
    """The paths of the other listener, where they are asked for at this one."""
    routes: list[BaseRoute] = []
    if not public:
        elsewhere = _Elsewhere(
            "SOAP, events and mailboxes are on another listener; see host and port."
        )
        routes += [*soap_routes(elsewhere), *(Route(path, elsewhere) for path in PUBLIC)]
    if not administration:
        elsewhere = _Elsewhere(
            "Administration is on a listener of its own; see admin_host and admin_port.",
            ADMINISTRATION_ELSEWHERE,
        )
        routes += (Route(path, elsewhere) for path in ADMINISTRATION)
    return routes


class _Elsewhere:
    """Answer 404 for what is on another listener of the gateway, and say so."""

    def __init__(self, text: str, reason: str | None = None) -> None:
        self._said = problem(404, text, reason)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await JSONResponse(self._said, 404, media_type=PROBLEM)(scope, receive, send)


async def _refuse(request: Request, error: Exception) -> JSONResponse:
    refused = error if isinstance(error, Refused) else Refused(Reason.INTERNAL, str(error))
    if isinstance(refused, AddressRefused) and request.url.path.startswith(API):
        refused = refused.with_mend()  # Who administers the gateway is told what would allow it.
    status, asking = status_of(refused), await ASKING(request)
    answer = _refusal(status, str(refused), refused.reason.value, headers_of(refused))
    for one in challenges_of(refused, request.scope, asking.identification, asking.http):
        answer.headers.append("WWW-Authenticate", one)
    return answer


async def _refuse_plainly(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):  # pragma: no cover
        raise TypeError(error)
    return _refusal(error.status_code, error.detail, None, error.headers)


async def _refuse_invalid(_: Request, error: Exception) -> JSONResponse:
    return _refusal(422, explain_invalid(error), None, None)


def _refusal(
    status: int, detail: str, reason: str | None, headers: Mapping[str, str] | None
) -> JSONResponse:
    """A refusal, as a problem of RFC 9457."""
    return JSONResponse(problem(status, detail, reason), status, headers, media_type=PROBLEM)
