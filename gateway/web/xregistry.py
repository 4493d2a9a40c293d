"""``/xregistry``: the topics as a read-only endpoint registry of xRegistry 1.0
(https://github.com/xregistry/spec, release candidate 4, the last that there was)."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from gateway.routes import Dependency
from gateway.web.catalogue import KnownTopic, TopicCatalogue
from gateway.web.catalogue.asyncapi import content_type_of, draft_of, title_of
from gateway.web.parameters import PAGE
from gateway.web.refusals import REFUSALS
from gateway.web.validation import JsonRoute, explain
from mediation.discovery import Schema, SchemaType, read_json_schema


class RegistryRoute(JsonRoute):
    """A route that refuses a request in the registry's own form of an error."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def in_its_form(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                title = f"The request cannot be processed as provided: {explain(error.errors())}"
                subject = request.url.path.removeprefix(router.prefix) or "/"
                return _error(400, "spec.md#bad_request", title, subject)

        return in_its_form


@dataclass(frozen=True, slots=True)
class RegistryParts:
    """What the routes of the registry work with."""

    base: str
    topics: TopicCatalogue


_REFUSED: dict[str, Any] = {
    "description": "It cannot be done; `title` says why, in the registry's own form of an error.",
    "content": {"application/json": {"schema": {"type": "object"}}},
}
router = APIRouter(
    prefix="/xregistry",
    tags=["topics"],
    route_class=RegistryRoute,
    responses={**REFUSALS, "4XX": _REFUSED},
)
PARTS = Dependency[RegistryParts]()
Given = Annotated[RegistryParts, Depends(PARTS)]

LARGEST_PAGE = 500
"""Endpoints of one answer, however many were asked for."""
MESSAGE = "event"
"""The id of the one message of an endpoint."""
SPECVERSION = "1.0-rc4"
_ERRORS = "https://github.com/xregistry/spec/blob/main/core"
_APIS = frozenset({"/capabilitiesoffered", "/export", "/model", "/modelsource"})
"""What a registry may have besides, and this one has not."""


async def _find_root(request: Request, response: Response) -> str:
    """The URL of the registry as it was asked for, which each answer names."""
    root = f"{str(request.base_url).rstrip('/')}/xregistry"
    response.headers["Link"] = f"<{root}>;rel=xregistry-root"
    return root


Root = Annotated[str, Depends(_find_root)]


@router.get("")
async def registry(parts: Given, root: Root) -> dict[str, Any]:
    """The registry."""
    extent = await parts.topics.extent()
    return {
        "specversion": SPECVERSION,
        "registryid": "dragoman",
        "self": root,
        "xid": "/",
        "epoch": extent.epoch,
        "name": "Topics at Dragoman",
        "createdat": _text(parts.topics.started),
        "modifiedat": _text(extent.changed),
        "endpointsurl": f"{root}/endpoints",
        "endpointscount": extent.count,
    }


@router.get("/capabilities")
async def capabilities(_: Root) -> dict[str, Any]:
    """What of xRegistry there is."""
    return {
        "available": ["/capabilities"],
        "flags": [],
        "ignores": [],
        "mutable": [],
        "pagination": True,
        "shortself": False,
        "specversions": [SPECVERSION],
    }


@router.get("/endpoints")
async def endpoints(
    parts: Given,
    root: Root,
    response: Response,
    after: Annotated[str, Query(pattern="^[0-9a-t-]{0,64}$")] = "",
    limit: Annotated[int, Query(ge=1)] = PAGE,
) -> dict[str, Any]:
    """Topics in the order of their ids, *limit* of them at most; the header ``Link`` has the next
    page."""
    page = await parts.topics.page(after, min(limit, LARGEST_PAGE))
    if page.next is not None:
        url = f"{root}/endpoints?limit={limit}&after={page.next}"
        response.headers["Link"] += f", <{url}>;rel=next"
    return {topic.id: _endpoint(topic, root, parts.base) for topic in page.topics}


@router.get("/endpoints/{id}", response_model=None)
async def endpoint(id: str, parts: Given, root: Root) -> dict[str, Any] | JSONResponse:
    """One topic."""
    topic = await parts.topics.one(id)
    return _not_found(f"/endpoints/{id}") if topic is None else _endpoint(topic, root, parts.base)


@router.get("/endpoints/{id}/messages", response_model=None)
async def messages(id: str, parts: Given, root: Root) -> dict[str, Any] | JSONResponse:
    """One, where the owner of the topic says what its events look like; else none."""
    topic = await parts.topics.one(id)
    if topic is None:
        return _not_found(f"/endpoints/{id}")
    return {} if topic.schema is None else {MESSAGE: _message(topic, topic.schema, root)}


@router.get("/endpoints/{id}/messages/{message}", response_model=None)
async def message(id: str, message: str, parts: Given, root: Root) -> dict[str, Any] | JSONResponse:
    """What an event of a topic looks like."""
    topic = await parts.topics.one(id)
    if topic is None or topic.schema is None or message != MESSAGE:
        return _not_found(f"/endpoints/{id}/messages/{message}")
    return _message(topic, topic.schema, root)


# Errors, as "Error Processing" of the core specification and of its HTTP binding has them.


@router.get("/{path:path}", include_in_schema=False)
async def nothing(path: str, request: Request) -> JSONResponse:
    """All other paths."""
    if f"/{path}" not in _APIS:
        return _not_found(f"/{path}")
    title = "The specified API is not supported: {}."
    return _error(404, "http.md#api_not_found", title, request.url.path)


@router.api_route(
    "{path:path}", methods=["POST", "PUT", "PATCH", "DELETE"], include_in_schema=False
)
async def unchangeable(path: str, request: Request) -> JSONResponse:
    """Whatever would change something."""
    action = request.method
    title = "The specified action (" + action + ") is not supported for: {}."
    args = {"args": {"action": action}}
    return _error(405, "spec.md#action_not_supported", title, path or "/", args)


def _not_found(xid: str) -> JSONResponse:
    title = "The targeted entity ({}) cannot be found."
    return _error(404, "spec.md#not_found", title, xid)


def _error(
    status: int, type: str, title: str, subject: str, more: Mapping[str, Any] | None = None
) -> JSONResponse:
    said = {"type": f"{_ERRORS}/{type}", "title": title.replace("{}", subject), "subject": subject}
    headers = {"Allow": "GET"} if status == 405 else None
    return JSONResponse({**said, **(more or {})}, status, headers)


def _endpoint(topic: KnownTopic, root: str, base: str) -> dict[str, Any]:
    url = f"{root}/endpoints/{topic.id}"
    said: dict[str, Any] = {
        "endpointid": topic.id,
        "self": url,
        "xid": f"/endpoints/{topic.id}",
        "epoch": topic.revision,
        "name": title_of(topic),
        "labels": _labels(topic),
        "createdat": _text(topic.created or topic.changed),
        "modifiedat": _text(topic.changed),
        "usage": ["subscriber"],
        "protocol": "HTTP",
        "protocoloptions": {
            "endpoints": [{"uri": f"{base}/soap"}],
            "deployed": True,
            "method": "POST",
        },
        "messagesurl": f"{url}/messages",
        "messagescount": 0 if topic.schema is None else 1,
    }
    if topic.texts:
        said["description"] = "\n\n".join(topic.texts)
    if topic.topic is not None:
        said["channel"] = topic.topic
    return said


def _message(topic: KnownTopic, schema: Schema, root: str) -> dict[str, Any]:
    xid = f"/endpoints/{topic.id}/messages/{MESSAGE}"
    found = None if schema.type is SchemaType.XSD else read_json_schema(schema)
    return {
        "messageid": MESSAGE,
        "self": f"{root}{xid}",
        "xid": xid,
        "epoch": topic.revision,
        "name": "An event",
        "createdat": _text(topic.created or topic.changed),
        "modifiedat": _text(topic.changed),
        "dataschemaformat": "XSD/1.0" if found is None else f"JsonSchema/{draft_of(found)}",
        "dataschema": schema.text if found is None else found,
        "datacontenttype": content_type_of(schema),
    }


def _labels(topic: KnownTopic) -> dict[str, str]:
    owner = topic.owner
    labels = {
        "origin": topic.origin.value,
        "owner": None if owner is None else owner.id,
        "owner-name": None if owner is None else owner.name,
        "institution": None if owner is None else owner.institution,
        "node": topic.node,
        "expires": None if topic.expires is None else _text(topic.expires),
        "synopsis": topic.synopsis,
        "keywords": ",".join(topic.keywords),
        "encrypted": "true" if topic.encrypted else None,
        "signed-by": None if topic.signers is None else topic.signers.value,
    }
    return {name: value for name, value in labels.items() if value}


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
