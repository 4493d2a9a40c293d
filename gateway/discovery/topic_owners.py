"""Owners of the topics on which messages of topic discovery travel: one entity or node each, which
the name of the topic says."""

from datetime import UTC, datetime
from uuid import UUID

from filters import Topic
from mediation.discovery import (
    Creator,
    Descriptors,
    Role,
    Synopsis,
    SynopsisType,
    TopicAdvertisement,
    role_of,
)
from mediation.names import TDN

ALWAYS = datetime(9999, 1, 1, tzinfo=UTC)
"""The end of a right that has none."""
_ALWAYS_KNOWN = datetime(1970, 1, 1, tzinfo=UTC)


def owner_of(topic: Topic) -> str | None:
    """Return whose topic of topic discovery *topic* is; None if it is everybody's, or is not a
    topic of topic discovery."""
    steps = topic.steps
    if steps[0].namespace != TDN:
        return None
    if steps[0].name == "Entity" and len(steps) == 2:
        return steps[1].name
    if steps[0].name == "Services" and len(steps) == 4:
        return steps[3].name
    return None


def advertisement_of_owner(owner: str | None) -> TopicAdvertisement | None:
    """Return an advertisement that says that the topic of *owner* is its own. Nobody publishes one:
    the topic's id is the digits of the owner's identifier, as a UUID."""
    if owner is None:
        return None
    role = role_of(owner)
    try:
        topic_id = UUID(owner.removeprefix("" if role is None else role.value))
    except ValueError:
        return None
    return TopicAdvertisement(
        topic_id, "", Creator(owner if role is Role.ENTITY else ""), _ALWAYS_KNOWN, ALWAYS,
        Descriptors(), Synopsis(SynopsisType.PATH),
    )  # fmt: skip
