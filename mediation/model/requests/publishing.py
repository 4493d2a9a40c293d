"""Publications, the registrations of publishers, current messages, and their answers."""

from dataclasses import dataclass

from filters import Expression, Topic
from mediation.model.expiry import UNSPECIFIED, Expiry
from mediation.model.messages import EndpointReference, Notification
from mediation.model.values import checked_dataclass
from mediation.model.versions import Wsa


@dataclass(frozen=True, slots=True)
class GetCurrentMessage:
    topic: Topic


@dataclass(frozen=True, slots=True)
class SetAside:
    """A NotificationMessage whose topic cannot be read, and why. The payload of ``notification`` is
    that message, with every namespace in scope declared on it; ``id`` is the one that its event
    gets when it can be read."""

    notification: Notification
    why: str


# Frozen at run time, too: `PublishInSequence`, which is frozen, could not be made of it otherwise.
@dataclass(frozen=True, slots=True)
class Publish:
    """Events; their ``source`` and ``time`` are the caller's, given to `mediation.read`.
    ``answered``: the publisher waits for `Published`, as WS-Messenger's clients do.
    ``acknowledged``: it waits for `Acknowledged`; there may be no event at all, in a heartbeat.
    ``set_aside`` are messages among them that cannot be taken yet."""

    notifications: tuple[Notification, ...]
    answered: bool = False
    acknowledged: bool = False
    set_aside: tuple[SetAside, ...] = ()

    @property
    def first_id(self) -> str:
        """The id of the first event."""
        return (self.notifications or [one.notification for one in self.set_aside])[0].id


@dataclass(frozen=True, slots=True)
class RegisterPublisher:
    """Announce a publisher, and the *topics* of its notifications: none means any. With *demand* it
    publishes to who subscribes at it, and is to be subscribed at while somebody wants its topics.
    """

    publisher: EndpointReference | None = None
    topics: tuple[Expression, ...] = ()
    demand: bool = False
    expires: Expiry = UNSPECIFIED


@dataclass(frozen=True, slots=True)
class DestroyRegistration:
    """End the registration to whose address it was sent."""


@dataclass(frozen=True, slots=True)
class CurrentMessage:
    notification: Notification


@checked_dataclass(frozen=True, slots=True)
class PublisherRegistered:
    """The answer to RegisterPublisher: the addresses of the registration, and of where to send
    notifications. ``wsa`` is the version of the publisher's own reference, where it had one."""

    registration: str
    consumer: str
    wsa: Wsa | None = None


@checked_dataclass(frozen=True, slots=True)
class Published:
    """The answer to a publication of WS-Messenger's clients: the id of its first event."""

    track_id: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The answer to a delivery whose sender waits for an acknowledgement (WS-Management): its
    events are durable."""
