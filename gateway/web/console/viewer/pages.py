"""The pages of the Message Viewer: those that run, and one of them with its messages."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request
from starlette.responses import Response

from filters import Expression, FilterError, Refused
from filters.xpath import parse
from gateway.client import base_url
from gateway.client.calling import SCHEMES
from gateway.client.errors import GatewayError
from gateway.routes import Dependency
from gateway.web.console.forms import first, read_form, redirect
from gateway.web.console.page_routes import Given, PageRoute
from gateway.web.console.viewer.versions import SPOKEN, read_version
from gateway.web.console.viewer.viewer import SOAP_TCP_URLS, KeptMessage, Viewer, Wanted, Way
from gateway.web.console.viewer.viewers import Viewers
from gateway.web.csrf import refuse_other_origins
from mediation.client import SPECS
from mediation.model.versions import Version

LATEST = 50
"""Messages of a page."""
CHARACTERS = 4096
"""Of a message in the list; the whole of it is a link away."""


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message as a page shows it.

    Attributes:
        text: Its payloads indented, or the envelope as it came.
        cut: Whether it goes on.
    """

    number: int
    time: str
    topics: tuple[str, ...]
    text: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ViewerPages:
    """What the pages work with.

    Attributes:
        here: The URL of this gateway, which a form has at first.
        pulls: Whether it says at first that messages are fetched.
    """

    viewers: Viewers
    here: str
    pulls: bool


router = APIRouter(prefix="/console/viewer", include_in_schema=False, route_class=PageRoute)
VIEWERS = Dependency[ViewerPages]()
Pages = Annotated[ViewerPages, Depends(VIEWERS)]


@router.get("")
async def list_viewers(console: Given, pages: Pages) -> Response:
    """The form that begins one, and those that there are."""
    return await console.rendering.page(
        "viewers.html",
        viewers=pages.viewers.all,
        versions=[one.value for one in SPOKEN],
        given={
            "url": pages.here,
            "spec": Version.WSN_1_3.value,
            "way": "pull" if pages.pulls else "push",
        },
        said="",
        here="viewer",
    )


@router.post("", dependencies=[Depends(refuse_other_origins)])
async def begin(request: Request, console: Given, pages: Pages) -> Response:
    """Begin to view what a form says, and show it."""
    form = await read_form(request)
    try:
        viewer = pages.viewers.begin(read_wanted(form))
    except (Refused, GatewayError) as refused:
        return await console.rendering.page(
            "viewers.html",
            422,
            viewers=pages.viewers.all,
            versions=[one.value for one in SPOKEN],
            given={name: first(form, name) for name in form},
            said=str(refused),
            here="viewer",
        )
    return redirect(f"/console/viewer/{viewer.id}")


@router.get("/{id}")
async def show(id: str, request: Request, console: Given, pages: Pages) -> Response:
    """One viewer: its checks, and its latest messages, brief or whole."""
    viewer = _find(pages, id)
    whole = request.query_params.get("whole") == "true"
    latest = viewer.messages[: -LATEST - 1 : -1]
    messages = [_cut(await shown_message(viewer, one, whole=whole)) for one in latest]
    return await console.rendering.page(
        "viewer.html",
        viewer=viewer,
        checks=viewer.checks,  # Rendered in a thread, which has no loop.
        messages=messages,
        whole=whole,
        here="viewer",
    )


@router.get("/{id}/messages.jsonl")
async def save(id: str, pages: Pages) -> Response:
    """The messages that are kept as a file: a JSON object a line, the oldest first."""
    viewer = _find(pages, id)
    kept = viewer.messages
    for one in kept:
        await viewer.read(one)
    written = await asyncio.to_thread(_write, kept)  # Of up to 4 MiB.
    headers = {
        "content-disposition": 'attachment; filename="messages.jsonl"',
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }
    return Response(written, media_type="application/jsonl", headers=headers)


@router.get("/{id}/messages/{number}")
async def show_message(id: str, number: int, console: Given, pages: Pages) -> Response:
    """One message, brief and whole."""
    viewer = _find(pages, id)
    kept = next((one for one in viewer.messages if one.number == number), None)
    if kept is None:
        raise HTTPException(404, "This message is not kept any more.")
    return await console.rendering.page(
        "viewed_message.html",
        viewer=viewer,
        brief=await shown_message(viewer, kept, whole=False),
        whole=await shown_message(viewer, kept, whole=True),
        headers=kept.message.headers,
        here="viewer",
    )


@router.post("/{id}", dependencies=[Depends(refuse_other_origins)])
async def act(id: str, request: Request, pages: Pages) -> Response:
    """Pause, resume, clear or stop a viewer."""
    viewer = _find(pages, id)
    form = await read_form(request)
    match first(form, "action"):
        case "pause":
            viewer.pause()
        case "resume":
            viewer.resume()
        case "clear":
            viewer.clear()
        case "stop":
            await viewer.close()
        case _:
            raise HTTPException(404, "There is no such action.")
    whole = "?whole=true" if first(form, "whole") == "true" else ""
    return redirect(f"/console/viewer/{id}{whole}")


def read_wanted(form: Mapping[str, Sequence[str]]) -> Wanted:
    """What a form wants to view.

    Raises:
        GatewayError: Its URL is none, or its specification, XPath or prefixes are not.
    """
    url, xpath = first(form, "url").strip(), first(form, "xpath").strip()
    base_url(url.partition("?")[0], SCHEMES)
    version = read_version(first(form, "spec"))
    namespaces = read_namespaces(first(form, "ns"))
    if xpath:
        check_xpath(xpath, namespaces)
    return Wanted(
        url,
        version,
        first(form, "topic").strip() or None,
        xpath or None,
        namespaces,
        _way(first(form, "way"), url, version),
    )


def _way(text: str, url: str, version: Version) -> Way:
    """The way that *text* names, at a broker at *url*.

    Raises:
        GatewayError: It is none, or cannot be gone.
    """
    try:
        way = Way(text or Way.PUSH.value)
    except ValueError:
        raise GatewayError(f"{text!r} is no way in which messages come") from None
    over_tcp = url.lower().startswith(SOAP_TCP_URLS)
    if over_tcp and way is Way.PULL:
        raise GatewayError("messages are fetched over HTTP: name the URL of the broker's HTTP")
    if (over_tcp or way is Way.SOAP_TCP) and version not in SPECS:
        raise GatewayError(f"{version.value} is not spoken over SOAP.TCP")
    return way


def check_xpath(xpath: str, namespaces: Mapping[str, str]) -> None:
    """Check an XPath.

    Raises:
        GatewayError: It cannot be read.
    """
    try:
        parse(Expression(xpath, namespaces=tuple(sorted(namespaces.items()))))
    except FilterError as error:
        raise GatewayError(f"XPath: {error.text}") from error


def read_namespaces(text: str) -> dict[str, str]:
    """Read prefixes with their URIs, ``w=urn:w v=urn:v``.

    Raises:
        GatewayError: They are written otherwise.
    """
    pairs = [one.partition("=") for one in text.split()]
    if any(not prefix.isidentifier() or not uri for prefix, _, uri in pairs):
        raise GatewayError("prefixes are written w=http://example.org/weather, with blanks between")
    return {prefix: uri for prefix, _, uri in pairs}


async def shown_message(viewer: Viewer, kept: KeptMessage, *, whole: bool) -> ShownMessage:
    """A message, brief (its payloads, where it has any) or whole (as it came)."""
    message = await viewer.read(kept)
    if whole or not message.notifications:
        text = message.octets.decode("utf-8", "replace")
    else:
        text = "\n".join(await viewer.payloads_of(kept))
    topics = tuple(str(one.topic) for one in message.notifications if one.topic is not None)
    return ShownMessage(kept.number, message.time.isoformat(), topics, text)


def _cut(message: ShownMessage) -> ShownMessage:
    if len(message.text) <= CHARACTERS:
        return message
    return ShownMessage(
        message.number, message.time, message.topics, message.text[:CHARACTERS], cut=True
    )


def _write(messages: Sequence[KeptMessage]) -> str:
    return "".join(json.dumps(_record(one), ensure_ascii=False) + "\n" for one in messages)


def _record(kept: KeptMessage) -> dict[str, object]:
    message = kept.message
    return {
        "number": kept.number,
        "received": message.time.isoformat(timespec="milliseconds"),
        "notifications": [
            {
                "topic": None if one.topic is None else str(one.topic),
                "action": one.action,
                "message_id": one.message_id,
                "payload": one.payload.decode("utf-8", "replace"),
            }
            for one in message.notifications
        ],
        "headers": message.headers,
        "envelope": message.octets.decode("utf-8", "replace"),
    }


def _find(pages: ViewerPages, id: str) -> Viewer:
    viewer = pages.viewers.find(id)
    if viewer is None:
        raise HTTPException(404, "There is no such viewer any more.")
    viewer.seen()
    return viewer
