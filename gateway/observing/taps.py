"""Taps: watchers see the messages that pass, and take nothing of them.

Two places feed them: where a message was accepted, and where an attempt to deliver one has ended.
Both ask first whether anybody watches, which is all that it costs while nobody does.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from filters import DEFAULT_TOPIC, Reason, Refused, Topic
from gateway.observing.attempts import Fields
from mediation.model.messages import Notification
from mediation.tenants import EventKey, as_its_tenant_knows_it, event_key, tenant_of_event

WATCHERS = 8
"""Who may watch at a time, of the default tenant, and of all others together."""
WATCHERS_OF_A_TENANT = 2
MESSAGES = 1000
"""Messages that wait for one watcher; what exceeds them is dropped, and counted."""
OCTETS = 16 * 2**20
"""Bytes of their payloads."""
SETTLES = 0.5
"""Seconds for which a message is kept back, so that its deliveries are told with it."""
ATTEMPTS = 10
"""Attempts of one message that are told."""
REMEMBERED = 10_000
"""Messages that a watcher remembers to have seen: retries do not bring them back."""


class TooManyWatch(Refused):
    """There is no room for another watcher."""

    def __init__(self, number: int) -> None:
        super().__init__(Reason.UNAVAILABLE, f"{number} watch already: end one of them.")


@dataclass(slots=True)
class PassingMessage:
    """A message that passes. Times are POSIX seconds.

    Attributes:
        by: Who published it; empty where it was not accepted here, but by the messaging system or
            another gateway.
        attempts: The first that ended, each with the id of its subscription.
        more: Attempts that ended beside these.
    """

    notification: Notification
    at: float
    by: str = ""
    attempts: list[tuple[str, Fields]] = field(default_factory=list)
    more: int = 0


class Watcher:
    """One who watches, with what waits for it. All is done on the event loop.

    Args:
        wants: Says of a topic whether its messages are watched; it costs no more than a lookup.
        sample: The share of the messages of these topics that is watched, above 0 up to 1.
        tenant: Whose messages alone are watched, as that tenant knows them; None: all.

    Attributes:
        passed_over: Messages that the share left out.
        dropped: Messages for which there was no room.
    """

    def __init__(
        self,
        wants: Callable[[Topic], bool],
        *,
        sample: float = 1.0,
        tenant: str | None = None,
        messages: int = MESSAGES,
        octets: int = OCTETS,
    ) -> None:
        self._wants = wants
        self._sample = sample
        self.tenant = tenant
        self._due = 1.0
        """A message is watched when this reaches 1: so the first one is."""
        self._most = messages
        self._most_octets = octets
        self._octets = 0
        self._waiting: OrderedDict[EventKey, PassingMessage] = OrderedDict()
        self._seen: OrderedDict[EventKey, None] = OrderedDict()
        self.passed_over = 0
        self.dropped = 0

    def offer(self, notification: Notification, by: str, now: float) -> PassingMessage | None:
        """Keep a message, unless it is not wanted, left out, or there is no room."""
        if self.tenant is not None:
            if tenant_of_event(notification) != self.tenant:
                return None
            notification = as_its_tenant_knows_it(notification)
        key = event_key(notification)
        known = self._waiting.get(key)
        if known is not None:  # It was delivered before its publisher had its answer.
            known.by = known.by or by
            return known
        if key in self._seen:
            return None
        self._seen[key] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        if not self._wants(notification.topic or DEFAULT_TOPIC):
            return None
        if self._due < 1.0:
            self._due += self._sample
            self.passed_over += 1
            return None
        self._due += self._sample - 1.0
        octets = self._octets + notification.octets
        if len(self._waiting) >= self._most or octets > self._most_octets:
            self.dropped += 1
            return None
        self._octets = octets
        passing = self._waiting[key] = PassingMessage(notification, now, by)
        return passing

    def attempted(self, notification: Notification, subscription: str, attempt: Fields) -> None:
        """Add an attempt to its message; one that was not accepted here is watched from now on."""
        passing = self._waiting.get(event_key(notification))
        if passing is None:
            passing = self.offer(notification, "", attempt[0])
        if passing is None:
            return
        if len(passing.attempts) < ATTEMPTS:
            passing.attempts.append((subscription, attempt))
        else:
            passing.more += 1

    def take(self, now: float) -> list[PassingMessage]:
        """Take the messages that came `SETTLES` seconds before *now* or earlier."""
        taken = []
        while self._waiting:
            first = next(iter(self._waiting.values()))
            if first.at > now - SETTLES and first.at <= now:
                break
            del self._waiting[event_key(first.notification)]
            self._octets -= first.notification.octets
            taken.append(first)
        return taken


class Taps:
    """All who watch.

    Attributes:
        most: How many of the default tenant may, and how many of all others.
        watchers: Whom what passes is offered to; empty while nobody watches.
    """

    def __init__(self, most: int = WATCHERS) -> None:
        self.most = most
        self.watchers: list[Watcher] = []

    @contextmanager
    def watching(self, watcher: Watcher) -> Iterator[None]:
        """Have *watcher* watch for the time of a block.

        Raises:
            TooManyWatch: Too many do.
        """
        own = [one for one in self.watchers if bool(one.tenant) == bool(watcher.tenant)]
        if len(own) >= self.most:
            raise TooManyWatch(self.most)
        if watcher.tenant:
            number = sum(one.tenant == watcher.tenant for one in own)
            if number >= WATCHERS_OF_A_TENANT:
                raise TooManyWatch(number)
        self.watchers.append(watcher)
        try:
            yield
        finally:
            self.watchers.remove(watcher)

    def accepted(self, notification: Notification, by: str, now: float) -> None:
        """Tell who watches of a message that was taken from *by*."""
        for watcher in self.watchers:
            watcher.offer(notification, by, now)

    def attempted(self, notification: Notification, subscription: str, attempt: Fields) -> None:
        """Tell who watches of an attempt to deliver a message."""
        for watcher in self.watchers:
            watcher.attempted(notification, subscription, attempt)
