"""Topics, and whose they are."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from gateway.model.moments import moment_or_none
from gateway.observing.traces import Trace
from gateway.web.catalogue import KnownTopic


class OwnerView(BaseModel, extra="forbid"):
    """The entity that a topic belongs to."""

    id: str = Field(description="The identifier of an entity, which its key gives.")
    name: str | None
    institution: str | None


class LastMessageView(BaseModel, extra="forbid"):
    """The message that was published on a topic last, by the id that its publisher gave it."""

    id: str
    accepted: datetime | None = Field(description="null: at another gateway.")


class SchemaView(BaseModel, extra="forbid"):
    """The schema of a topic's events, as its owner wrote it; nothing that it refers to was
    fetched."""

    type: Literal["application/xml", "application/schema+json"] = Field(
        description="An XML Schema, or a JSON Schema."
    )
    text: str


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
    schema_: SchemaView | None = Field(None, alias="schema")
    signed_by: Literal["creator", "publishers"] | None = Field(
        None, description="Who has to sign its events; null: nobody has to, by its owner's word."
    )
    last_message: LastMessageView | None = Field(
        description="Of the last 10,000 messages of this gateway; null: none of them is on it."
    )


def topic_view(topic: KnownTopic, last: Trace | None) -> TopicView:
    """The view of *topic*, on which the message of *last* was published last."""
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
        schema=None
        if topic.schema is None
        else SchemaView(type=topic.schema.type.value, text=topic.schema.text),
        signed_by=None if topic.signers is None else topic.signers.value,
        last_message=None
        if last is None
        else LastMessageView(id=last.id, accepted=moment_or_none(last.accepted)),
    )
