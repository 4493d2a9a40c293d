"""The last messages that were accepted, as they came and as they were understood, where a setting
wants some: for those who look for what went wrong. Bounded, and in memory."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mediation.model.messages import Notification
from mediation.tenants import OWNER, EventKey, event_key, key_in, tenant_of_event

OCTETS = 64 * 2**20
"""Bytes of all messages that are kept, as they came and as they were understood."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as it came.

    Attributes:
        path: Where it came to; empty where the transport has no paths.
        headers: The fields of the request; none where the transport has none.
        body: The envelope, in UTF-8; of a package its root part; of another request its body.
        attachments: How many parts the package had beside that.
    """

    path: str
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    attachments: int = 0


@dataclass(slots=True)
class RecentMessage:
    """A message that was accepted *at* a POSIX time.

    Attributes:
        by: Who published it.
        arrival: None where it came in a sequence of reliable messages, or was made here.
    """

    notification: Notification
    at: float
    by: str
    arrival: Arrival | None = None

    @property
    def octets(self) -> int:
        """Bytes that it takes, about; what several share counts for each."""
        came = len(self.arrival.body) if self.arrival is not None else 0
        return self.notification.octets + came

    @property
    def place(self) -> str:
        """A name that no other message that is kept has: the id, with the tenant of one that is
        not the default tenant's, since two tenants may choose one id."""
        id_, tenant = self.notification.id, tenant_of_event(self.notification)
        return f"{OWNER}{tenant}:{id_}" if tenant or id_.startswith(OWNER) else id_


class RecentMessages:
    """The last messages, by their tenants and the ids that their publishers gave.

    Args:
        messages: How many are kept.
        octets: Their bytes.
    """

    def __init__(self, messages: int, octets: int = OCTETS) -> None:
        self._most = messages
        self._most_octets = octets
        self._octets = 0
        self._messages: OrderedDict[EventKey, RecentMessage] = OrderedDict()

    def accepted(self, notification: Notification, by: str, now: float) -> None:
        """Keep a message that was taken from *by*."""
        key = event_key(notification)
        former = self._messages.pop(key, None)
        if former is not None:
            self._octets -= former.octets
        one = self._messages[key] = RecentMessage(notification, now, by)
        self._octets += one.octets
        self._shrink()

    def came(self, notifications: Iterable[Notification], arrival: Arrival) -> None:
        """Keep how *notifications* came, which were accepted just now."""
        for notification in notifications:
            one = self._messages.get(event_key(notification))
            if one is not None:
                self._octets -= one.octets
                one.arrival = arrival
                self._octets += one.octets
        self._shrink()

    def _shrink(self) -> None:
        while self._messages and (
            len(self._messages) > self._most or self._octets > self._most_octets
        ):
            _, oldest = self._messages.popitem(last=False)
            self._octets -= oldest.octets

    def find(self, id_: str, tenant: str | None = None) -> RecentMessage | None:
        """The message with this id, of one *tenant*, or the last of any."""
        if tenant is not None:
            return self._messages.get(key_in(tenant, id_))
        return next((one for one in self.newest() if one.notification.id == id_), None)

    def newest(self, tenant: str | None = None) -> list[RecentMessage]:
        """All that are kept, of one *tenant* or of all, the newest first."""
        newest = reversed(self._messages.values())
        return [one for one in newest if tenant in (None, tenant_of_event(one.notification))]
