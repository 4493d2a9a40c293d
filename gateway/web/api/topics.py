"""``/api/v1/topics``: the topics that are known here, and whose they are."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from filters import FilterError
from filters.dialects import QUERY_STRING
from filters.queries import Query as TopicQuery
from filters.queries import compile_query
from gateway.observing.traces import MessageTraces, Trace, latest_by_topic
from gateway.routes import Dependency
from gateway.web.catalogue import Page, TopicCatalogue
from gateway.web.catalogue.asyncapi import asyncapi_document
from gateway.web.parameters import PAGE
from gateway.web.validation import JsonRoute
from gateway.web.views.topics import TopicView, topic_view


@dataclass(frozen=True, slots=True)
class TopicParts:
    """What the routes of topics work with."""

    base: str
    topics: TopicCatalogue
    traces: MessageTraces

    async def latest(self) -> Mapping[str, Trace]:
        """The last message of each topic. In a thread: of 10,000 it takes some milliseconds."""
        return await asyncio.to_thread(latest_by_topic, self.traces.snapshot())


router = APIRouter(prefix="/topics", tags=["topics"], route_class=JsonRoute)
PARTS = Dependency[TopicParts]()
Given = Annotated[TopicParts, Depends(PARTS)]

ASYNCAPI_TYPE = "application/vnd.aai.asyncapi+json;version=3.0.0"


class TopicPage(BaseModel, extra="forbid"):
    topics: list[TopicView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


@router.get(
    "",
    response_model=TopicPage,
    responses={200: {"content": {ASYNCAPI_TYPE: {"schema": {"type": "object"}}}}},
)
async def list_topics(
    parts: Given,
    after: Annotated[str, Query(pattern="^[0-9a-t-]{0,64}$")] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = PAGE,
    format: Annotated[
        Literal["rows", "asyncapi"],
        Query(description="`asyncapi`: as a document of AsyncAPI 3.0.0."),
    ] = "rows",
    q: Annotated[
        str | None,
        Query(
            description="Words that must all occur in the name of a topic, in what it is about or "
            'in whose it is; `"in quotes"` as they stand.',
            min_length=1,
            max_length=1024,
        ),
    ] = None,
) -> Any:
    """Topics in the order of their ids: those that are advertised, then those of topic sets and
    those that were published on. A page of a search may have few, and a `next` all the same."""
    if q is None:
        page = await parts.topics.page(after, limit)
    else:
        page = await parts.topics.search(_read_words(q), after, limit)
    if format == "asyncapi":
        return await asyncio.to_thread(_asyncapi, page, parts.base)
    latest = await parts.latest()
    views = [topic_view(topic, latest.get(topic.topic or "")) for topic in page.topics]
    return TopicPage(topics=views, next=page.next)


def _asyncapi(page: Page, base: str) -> JSONResponse:
    """Write *page* as AsyncAPI. In a thread: to read a JSON Schema of 16 KB takes 1.2 ms, and a
    page may have 500."""
    return JSONResponse(asyncapi_document(page, base), media_type=ASYNCAPI_TYPE)


def _read_words(text: str) -> TopicQuery:
    try:
        return compile_query(QUERY_STRING, text)
    except FilterError as error:
        raise HTTPException(422, f"q: {error.text}") from error


@router.get("/{id}")
async def show_topic(id: str, parts: Given) -> TopicView:
    """One topic."""
    topic = await parts.topics.one(id)
    if topic is None:
        raise HTTPException(404, "There is no such topic.")
    return topic_view(topic, (await parts.latest()).get(topic.topic or ""))
