"""Selections of subscriptions, as requests of the administration say them."""

from typing import Annotated

from fastapi import HTTPException
from pydantic import BaseModel, Field

from filters import FilterError, Reason, Topic, parse_clark, parse_topics, quoted
from filters.dialects import TOPIC_CONCRETE
from gateway.delivery.status import Condition
from gateway.subscriptions.listing import Order
from mediation.model.requests import SubscriptionSelection
from mediation.model.versions import Version


class Selected(BaseModel, extra="forbid"):
    """Some subscriptions: those for which all that is given holds."""

    topic: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description="They cover this topic: `storms/coast`, `{urn:w}storms/coast`."
    )
    consumer: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        None, description="The consumer's address begins so; with `*` or `?` it is like this."
    )
    spec: Version | None = None
    state: list[Condition] = Field([], description="Any of these.", max_length=8)
    owner: Annotated[str, Field(min_length=1, max_length=256)] | None = None

    def selection(self) -> SubscriptionSelection:
        """The selection meant.

        Raises:
            FilterError: ``topic`` is not a topic.
        """
        states = frozenset(state.value for state in self.state)
        topic = None if self.topic is None else _topic(self.topic)
        spec = None if self.spec is None else self.spec.value
        return SubscriptionSelection(topic, self.consumer, spec, states, self.owner)


class Listing(Selected):
    """A page of a selection."""

    after: str = Field("", max_length=64, description="The `next` of an answer.")
    limit: int = Field(100, ge=1, le=1000)
    sort: Order | None = Field(
        None,
        description="The list of the moment, sorted; by state, those that fail come first. Of more "
        "than 20,000 subscriptions only a selection is sorted.",
    )
    descending: bool = False

    @property
    def start(self) -> int:
        """Where a sorted list goes on.

        Raises:
            HTTPException: ``after`` is of a list in the order of ids.
        """
        if self.after and not (self.after.isascii() and self.after.isdigit()):
            raise HTTPException(422, "after: must be the `next` of a list that is sorted so.")
        return int(self.after or 0)


class Chosen(Selected):
    """The subscriptions to end."""

    all: bool = False
    id: list[Annotated[str, Field(min_length=1, max_length=256)]] = Field([], max_length=100)
    dry_run: bool = Field(False, description="Say which they are, and change nothing.")
    limit: int = Field(1000, ge=1, le=1000, description="How many at most.")
    after: str = Field("", max_length=64, description="The `next` of an answer.")

    def chosen(self) -> list[str] | SubscriptionSelection:
        """The subscriptions meant.

        Raises:
            HTTPException: Nothing is chosen, or in two ways.
            FilterError: ``topic`` is not a topic.
        """
        selection = self.selection()
        if bool(self.id) + self.all + (selection != SubscriptionSelection()) != 1:
            raise HTTPException(
                422,
                "Choose subscriptions in one way: by `id`, by `topic`, `consumer`, `spec`, "
                "`state` and `owner`, or with `all=true`.",
            )
        return self.id or selection


class Deleted(BaseModel, extra="forbid"):
    """The subscriptions that ended, or would."""

    number: int
    ids: list[str]
    next: str | None = Field(None, description="Pass it as `after` to go on; null at the end.")


def _topic(text: str) -> Topic:
    """Read a topic: a path, with namespaces in braces, or with prefixes that are known.

    Raises:
        FilterError: It is none.
    """
    try:
        topics = (parse_clark(text),) if "{" in text else parse_topics(text, TOPIC_CONCRETE, ())
    except ValueError as error:
        raise FilterError(Reason.TOPIC_INVALID, f"{quoted(text)} is not a topic") from error
    if len(topics) != 1:
        raise FilterError(Reason.TOPICS_SEVERAL, f"{quoted(text)} is not one topic")
    return topics[0]
