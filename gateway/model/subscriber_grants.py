"""The right by which a subscriber was given a message, kept with it while it waits in a mailbox."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

PROPERTY = "dragoman-grant"
"""The property of a dead letter of a mailbox that has the grant of its message."""


@dataclass(frozen=True, slots=True)
class SubscriberGrant:
    """The right by which a mailbox was given a message.

    Attributes:
        owner: Of the subscription.
        topics: Of the events in it, in Clark notation; None: an event without a topic.
        delegation: The id of the delegation that the subscription rests on, where there is one.
    """

    owner: str
    topics: tuple[str | None, ...]
    delegation: str | None = None

    def to_text(self) -> str:
        return json.dumps([self.owner, self.delegation, *self.topics], separators=(",", ":"))


def grant_from(text: str) -> SubscriberGrant:
    """Read what `SubscriberGrant.to_text` wrote."""
    owner, delegation, *topics = json.loads(text)
    return SubscriberGrant(owner, tuple(topics), delegation)


Holds: TypeAlias = Callable[[SubscriberGrant], bool]
"""Whether a grant is still good; called in any thread."""
