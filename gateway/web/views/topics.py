"""Topics, and whose they are."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from gateway.web.catalogue import KnownTopic


class OwnerView(BaseModel, extra="forbid"):
    """The entity that a topic belongs to."""

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


def topic_view(topic: KnownTopic) -> TopicView:
    """The view of *topic*."""
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
