"""``/schemas/NAME``: the types of Grid SOAP Events, in XML Schema and RDDL."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from mediation.grid_events import TYPE_DOCUMENTS

PREFIX = "/schemas/"


def schema_routes() -> list[BaseRoute]:
    """The routes of the documents."""
    return [Route(f"{PREFIX}{name}", _serve, methods=["GET"]) for name in TYPE_DOCUMENTS]


async def _serve(request: Request) -> Response:
    media_type, octets = TYPE_DOCUMENTS[request.url.path.rpartition("/")[2]]
    return Response(octets, media_type=media_type)
