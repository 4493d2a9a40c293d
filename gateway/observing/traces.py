"""What became of the messages that were accepted last, for those who ask where one is.

Bounded, and in memory: what waits and what died the store knows for longer.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from filters import Topic
from mediation.model.messages import Notification
from mediation.rendering import delivery_id_of
from mediation.tenants import EventKey, event_key, key_in, tenant_of_event

KEPT = 10_000
"""Messages that are remembered; those that came first are forgotten."""
NAMED = 50
"""Subscriptions of one message that are remembered by name."""
MOST_OF_ONE = 256
"""Notifications of one publication that are looked for by its id."""


class Subscriber(Protocol):
    """Whom a delivery is for."""

    @property
    def id(self) -> str: ...


class Followed(Protocol):
    """A message on its way."""

    @property
    def notification(self) -> Notification: ...

    @property
    def resolved(self) -> Sequence[tuple[Subscriber, str]]:
        """The ends of deliveries that never were in the store."""


class Trace:
    """What became of one message. Times are POSIX seconds.

    Attributes:
        tenant: Whose it is; empty for the default tenant's.
        accepted: When it was taken from its publisher here; None where that was elsewhere, or
            before the start.
        by: Who published it.
        dialect: What that publisher speaks; empty where it is not known.
        matched: How many subscriptions it matched; None while it was not matched here.
        ended: How many deliveries came to which end.
        named: The first of these, each with its subscription.
    """

    __slots__ = (
        "accepted", "by", "dialect", "ended", "id", "matched", "message", "named", "source",
        "tenant", "topic",
    )  # fmt: skip

    def __init__(self, id_: str, source: str, topic: Topic | None, tenant: str = "") -> None:
        self.id = id_
        self.tenant = tenant
        self.source = source
        self.topic = topic
        self.accepted: float | None = None
        self.by = self.dialect = ""
        self.matched: int | None = None
        self.message: Followed | None = None
        """While deliveries of it are neither at their end nor durable."""
        self.ended: dict[str, int] = {}
        self.named: list[tuple[str, str]] = []

    def note(self, message: Followed) -> None:
        """Take over how deliveries of *message*, which is let go of, ended."""
        self.message = None
        for entry, end in message.resolved:
            self.end(entry.id, end)

    def end(self, subscription: str, end: str) -> None:
        """Note that the delivery for *subscription* came to its *end*."""
        self.ended[end] = self.ended.get(end, 0) + 1
        if len(self.named) < NAMED:
            self.named.append((subscription, end))

    def counts(self) -> Mapping[str, int]:
        """How many deliveries ended how by now."""
        if self.message is None:
            return self.ended
        counts = dict(self.ended)
        for _, end in self.message.resolved:
            counts[end] = counts.get(end, 0) + 1
        return counts

    def ends(self) -> tuple[Mapping[str, int], Sequence[tuple[str, str]]]:
        """How many deliveries ended how by now, and the first of them by name."""
        now = Trace(self.id, self.source, self.topic)
        now.ended, now.named = dict(self.ended), list(self.named)
        for entry, end in self.message.resolved if self.message is not None else ():
            now.end(entry.id, end)
        return now.ended, now.named


class MessageTraces:
    """The traces of the *kept* messages that came last, by their tenants and the ids that their
    publishers gave."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._traces: OrderedDict[EventKey, Trace] = OrderedDict()
        self._tenants: Counter[str] = Counter()
        """How many traces there are of each tenant but the default one."""

    def accepted(self, notification: Notification, by: str, now: float, dialect: str = "") -> None:
        """Note that *notification* was taken from *by*, who speaks *dialect*."""
        trace = self._of(notification)
        trace.accepted, trace.by, trace.dialect = now, by, dialect

    def matched(self, message: Followed, number: int) -> None:
        """Note that *message* matched a *number* of subscriptions."""
        trace = self._of(message.notification)
        trace.matched = (trace.matched or 0) + number
        trace.message = message

    def settled(self, message: Followed) -> None:
        """Note how the deliveries of *message* ended that were never in the store."""
        trace = self.of(message.notification)
        if trace is not None and trace.message is message:
            trace.note(message)

    def delivered(self, notification: Notification, subscription: str) -> None:
        """Note a delivery that had waited in the store."""
        trace = self.of(notification)
        if trace is not None:
            trace.end(subscription, "delivered")

    def _of(self, notification: Notification) -> Trace:
        tenant = tenant_of_event(notification)
        key = key_in(tenant, notification.id)
        trace = self._traces.get(key)
        if trace is None:
            trace = Trace(notification.id, notification.source, notification.topic, tenant)
            self._traces[key] = trace
            if tenant:
                self._tenants[tenant] += 1
            if len(self._traces) > self._kept:
                _, oldest = self._traces.popitem(last=False)
                self._forget_of(oldest.tenant)
        return trace

    def _forget_of(self, tenant: str) -> None:
        if tenant:
            self._tenants[tenant] -= 1
            if not self._tenants[tenant]:
                del self._tenants[tenant]

    def of(self, notification: Notification) -> Trace | None:
        """The trace of a notification."""
        return self._traces.get(event_key(notification))

    def find(self, message: str, tenant: str | None = None) -> list[Trace]:
        """The traces of what was published with this id, of one *tenant* or of all: one, or one of
        each notification that it held."""
        if tenant is not None:
            return self._of_tenant(message, tenant)
        found = self._of_tenant(message, "")
        for each in self._tenants:
            first, second = key_in(each, message), key_in(each, f"{message}#1")
            if first in self._traces or second in self._traces:
                found += self._of_tenant(message, each)
        return found

    def _of_tenant(self, message: str, tenant: str) -> list[Trace]:
        keys = (key_in(tenant, one) for one in ids_of(message))
        return [self._traces[key] for key in keys if key in self._traces]

    def snapshot(self) -> list[Trace]:
        """All traces, for a look at them elsewhere than on the event loop."""
        return list(self._traces.values())


def latest_by_topic(traces: Iterable[Trace]) -> Mapping[str, Trace]:
    """The last of *traces*, which are in their order, of each topic, in Clark's notation."""
    latest = {trace.topic: trace for trace in traces if trace.topic is not None}
    return {str(topic): trace for topic, trace in latest.items()}


def ids_of(message: str) -> Iterator[str]:
    """The ids of notifications of a publication with this id."""
    yield message
    for number in range(1, MOST_OF_ONE + 1):
        yield f"{message}#{number}"


def delivered_as(traces: list[Trace], message: str) -> list[Trace]:
    """Those of *traces* of which a delivery has the id *message*, as far as it is remembered by
    name."""
    return [
        trace
        for trace in traces
        if any(
            delivery_id_of(trace.source, trace.id, subscription) == message
            for subscription, _ in trace.ends()[1]
        )
    ]
