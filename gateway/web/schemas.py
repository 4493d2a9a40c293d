"""``/schemas/NAME``: the types of Grid SOAP Events, and the own ones of this gateway, in XML Schema
and RDDL."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from mediation.grid_events import TYPE_DOCUMENTS, DeclaredTypes

PREFIX = "/schemas/"


def schema_routes(own: DeclaredTypes) -> list[BaseRoute]:
    """The routes of the documents."""
    return [
        Route(f"{PREFIX}{name}", partial(_serve, *document), methods=["GET"])
        for name, document in {**TYPE_DOCUMENTS, **own.documents}.items()
    ]


async def _serve(media_type: str, octets: bytes, _: Request) -> Response:
    return Response(octets, media_type=media_type)
