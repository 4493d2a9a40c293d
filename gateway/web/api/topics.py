"""``/api/v1/topics``: the topics that are known here, and whose they are."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from gateway.web.catalogue import KnownTopic
from gateway.web.catalogue.asyncapi import asyncapi_document
from gateway.web.parts import Parts
from gateway.web.validation import JsonRoute
from gateway.web.values import PAGE

router = APIRouter(prefix="/topics", tags=["topics"], route_class=JsonRoute)

ASYNCAPI_TYPE = "application/vnd.aai.asyncapi+json;version=3.0.0"


class OwnerView(BaseModel, extra="forbid"):
    id: str = Field(description="The identifier of an entity, which its key gives.")
    name: str | None
    institution: str | None


class TopicView(BaseModel, extra="forbid"):
    """A topic."""

    id: str
    origin: Literal["advertised", "topic-set", "seen"]
    topic: str | None = Field(
        description="In Clark's notation; null: its events are known by what they hold."
    )
    owner: OwnerView | None
    node: str | None = Field(description="The node that signed whose it is.")
    created: datetime | None
    expires: datetime | None
    synopsis: str | None = Field(description="How its events are marked: path, integer, tags, ...")
    mark: str | None
    encrypted: bool
    paths: list[str]
    texts: list[str]
    keywords: list[str]


class TopicPage(BaseModel, extra="forbid"):
    topics: list[TopicView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


@router.get("", response_model=TopicPage)
async def list_topics(
    web: Parts,
    after: Annotated[str, Query(pattern="^[0-9a-t-]{0,64}$")] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = PAGE,
    format: Annotated[
        Literal["rows", "asyncapi"],
        Query(description="`asyncapi`: as a document of AsyncAPI 3.0.0."),
    ] = "rows",
) -> Any:
    """Topics in the order of their ids: those that are advertised, then those of topic sets and
    those that were published on."""
    page = await web.topics.page(after, limit)
    if format == "asyncapi":
        return JSONResponse(asyncapi_document(page, web.base), media_type=ASYNCAPI_TYPE)
    return TopicPage(topics=[_view(topic) for topic in page.topics], next=page.next)


@router.get("/{id}")
async def show_topic(id: str, web: Parts) -> TopicView:
    """One topic."""
    topic = await web.topics.one(id)
    if topic is None:
        raise HTTPException(404, "There is no such topic.")
    return _view(topic)


def _view(topic: KnownTopic) -> TopicView:
    owner = topic.owner
    return TopicView(
        id=topic.id,
        origin=topic.origin.value,
        topic=topic.topic,
        owner=None
        if owner is None
        else OwnerView(id=owner.id, name=owner.name, institution=owner.institution),
        node=topic.node,
        created=topic.created,
        expires=topic.expires,
        synopsis=topic.synopsis,
        mark=topic.mark,
        encrypted=topic.encrypted,
        paths=list(topic.paths),
        texts=list(topic.texts),
        keywords=list(topic.keywords),
    )
