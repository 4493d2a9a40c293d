"""Messages that are delivered once more, because a subscriber asked for the current ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gateway.delivery.dispatchers import Dispatchers
from gateway.delivery.entry import Entry
from gateway.security.keys import message_urn
from mediation.model.messages import Notification


@dataclass(frozen=True, slots=True)
class Resend:
    """A `Delivery` that no messaging system waits for."""

    notification: Notification
    partition: int = 0
    redelivered: bool = False

    def settle(self) -> None:
        """Nobody waits."""


def resend(dispatchers: Dispatchers, entry: Entry, notifications: Sequence[Notification]) -> None:
    """Deliver *notifications* to *entry* once more, with message ids of their own: a consumer that
    leaves out repeats has seen those that they repeat."""
    for notification in notifications:
        fresh = replace(notification, id=f"{notification.id}#{message_urn()}")
        dispatchers.accept_here(Resend(fresh), [entry])
