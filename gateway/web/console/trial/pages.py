"""The page on which an event is tried: composed in one dialect, seen in another, filtered, sent."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from filters import Refused, Topic, parse_clark
from filters.queries.selectors import Value
from gateway.client.errors import GatewayError
from gateway.client.publication_addresses import publication_path
from gateway.parsing import ParsingThreads
from gateway.routes import Dependency
from gateway.web.console.administration import ask
from gateway.web.console.forms import first, read_form
from gateway.web.console.page_routes import Given, PageRoute, refuse
from gateway.web.console.trial.conversion import (
    ConvertedEvent,
    convert,
    explain_filter,
    read_properties,
    text_of,
    write_properties,
)
from gateway.web.console.viewer.calls import PolicedCaller, TransportChoice
from gateway.web.console.viewer.pages import read_namespaces
from gateway.web.csrf import refuse_other_origins
from mediation.matrix import NOTIFIED, PUBLISHING, Dialect, Fact, Loss

LARGEST = 256 * 1024
"""Bytes of a payload that is tried."""
_TURN = 5.0
"""Seconds that a trial may wait for those before it."""
_EXAMPLE = {
    "source": "wse-2004-08",
    "target": "cloudevents-structured",
    "topic": "storms/coast",
    "payload": '<w:Warning xmlns:w="http://example.org/weather"><w:speed>120</w:speed></w:Warning>',
}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Trial:
    """What a form says.

    Attributes:
        topics, xpath, selector: Of the filter that is tried; empty: none.
        properties: The selector's; no dialect here sends any.
    """

    source: Dialect
    target: Dialect
    topic: Topic
    payload: bytes
    topics: str
    xpath: str
    namespaces: Mapping[str, str]
    selector: str
    properties: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a trial, as text.

    Attributes:
        address: Of the publication.
        verdict: What the filter says and why; empty where there was none.
    """

    address: str
    request_headers: tuple[tuple[str, str], ...]
    request: str
    headers: tuple[tuple[str, str], ...]
    delivered: str
    losses: tuple[tuple[str, str, str], ...]
    never: tuple[str, ...]
    verdict: str


class Trials:
    """Tries events.

    Args:
        base: The gateway's URL, without a slash at its end.
    """

    def __init__(self, transports: TransportChoice, base: str) -> None:
        self._threads = ParsingThreads("trial", wait=_TURN)
        self._transports = transports
        self._base = base

    async def convert(self, trial: Trial) -> tuple[ConvertedEvent, Outcome]:
        """Convert the event, and ask the filter.

        Raises:
            Refused: Something of it cannot be read.
        """
        return await self._run(len(trial.payload), lambda: _try(trial, self._base))

    async def send(self, trial: Trial, event: ConvertedEvent) -> tuple[int, str]:
        """Publish the event at this gateway: the status and the body of the answer.

        Raises:
            GatewayError: There was no answer.
        """
        path = publication_path(trial.source, event.publication, str(trial.topic))
        headers = dict(event.publication.headers)
        async with PolicedCaller(self._transports) as caller:
            answer = await caller.call(
                "POST", self._base + path, body=event.publication.octets, headers=headers
            )
        if not answer.body:
            return answer.status, ""
        return answer.status, await self._run(len(answer.body), lambda: text_of(answer.body))

    def close(self) -> None:
        """Try nothing any more."""
        self._threads.close()

    async def _run(self, octets: int, work: Callable[[], T]) -> T:
        return await self._threads.run(octets, lambda _: work(), "console")


def _read(loss: Loss) -> str:
    """What is read instead; an id is not lost, but another one."""
    return loss.read or ("an id of the delivery's own" if loss.fact is Fact.ID else "")


def _try(trial: Trial, base: str) -> tuple[ConvertedEvent, Outcome]:
    event = convert(trial.source, trial.target, trial.payload, trial.topic, base)
    verdict = ""
    if trial.topics or trial.xpath or trial.selector:
        verdict = explain_filter(
            trial.payload,
            trial.topic,
            topics=trial.topics,
            xpath=trial.xpath,
            namespaces=trial.namespaces,
            selector=trial.selector,
            properties=trial.properties,
        )
    outcome = Outcome(
        base + publication_path(trial.source, event.publication, str(trial.topic)),
        event.publication.headers,
        text_of(event.publication.octets),
        event.headers,
        text_of(event.octets),
        tuple((one.fact.value, one.said, _read(one)) for one in event.losses),
        event.never,
        verdict,
    )
    return event, outcome


router = APIRouter(prefix="/console/try", include_in_schema=False, route_class=PageRoute)
TRIALS = Dependency[Trials]()
Parts = Annotated[Trials, Depends(TRIALS)]


@router.get("")
async def form(
    request: Request, console: Given, message: Annotated[str, Query(max_length=2048)] = ""
) -> Response:
    """The form, with an example in it, or with a *message* that is kept, by its id."""
    if not message:
        return await _page(console, _EXAMPLE)
    answer = await ask(request, "GET", f"/messages/{message}", {"content": True, "limit": LARGEST})
    if not answer.succeeded:
        return await refuse(console, answer)
    kept = next(filter(None, (one["content"] for one in answer.value["messages"])), None)
    if kept is None:
        return await _page(console, _EXAMPLE, said="This message is not kept whole.")
    return await _page(console, {**_EXAMPLE, **_form_of(kept["understood"])})


def _form_of(understood: Mapping[str, Any]) -> dict[str, str]:
    """What a form has for a message, as it was understood."""
    return {
        "topic": understood["topic"] or "",
        "payload": understood["payload"]["text"],
        "properties": write_properties(understood["properties"]),
    }


@router.post("", dependencies=[Depends(refuse_other_origins)])
async def show(request: Request, console: Given, trials: Parts) -> Response:
    """Show what an event is in two dialects, and publish it where that is asked for."""
    fields = await read_form(request)
    given = {name: first(fields, name) for name in fields}
    try:
        trial = read_trial(fields)
        event, outcome = await trials.convert(trial)
        answer = await trials.send(trial, event) if given.get("action") == "send" else None
    except (Refused, GatewayError, ValueError) as refused:
        said = refused.text if isinstance(refused, Refused) else str(refused)
        return await _page(console, given, said=said, status=422)
    return await _page(console, given, outcome=outcome, answer=answer)


async def _page(
    console: Given,
    given: Mapping[str, str],
    *,
    said: str = "",
    outcome: Outcome | None = None,
    answer: tuple[int, str] | None = None,
    status: int = 200,
) -> Response:
    return await console.rendering.page(
        "try.html",
        status,
        sources=PUBLISHING,
        targets=NOTIFIED,
        given=given,
        said=said,
        outcome=outcome,
        answer=answer,
        here="try",
    )


def read_trial(fields: Mapping[str, Sequence[str]]) -> Trial:
    """What a form says.

    Raises:
        GatewayError: A dialect, the topic, a property or a prefix is none, or the payload too
            large.
    """
    payload = first(fields, "payload").encode()
    if len(payload) > LARGEST:
        raise GatewayError(f"the payload has more than {LARGEST // 1024} KiB")
    try:
        topic = parse_clark(first(fields, "topic").strip())
    except ValueError as error:
        raise GatewayError(f"the topic is none: {error}") from error
    return Trial(
        _dialect(PUBLISHING, first(fields, "source")),
        _dialect(NOTIFIED, first(fields, "target")),
        topic,
        payload,
        first(fields, "topics").strip(),
        first(fields, "xpath").strip(),
        read_namespaces(first(fields, "ns")),
        first(fields, "selector").strip(),
        read_properties(first(fields, "properties")),
    )


def _dialect(offered: Sequence[Dialect], name: str) -> Dialect:
    found = next((one for one in offered if one.name == name), None)
    if found is None:
        raise GatewayError(f"{name!r} is no dialect that can be tried here")
    return found
