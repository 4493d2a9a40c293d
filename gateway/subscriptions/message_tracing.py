"""Tracing: the deliveries of a message, as far as memory and the store know of them."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from filters import Reason
from gateway.model.dead_letter_reasons import DeadLetter
from gateway.observing.traces import MessageTraces, Trace, delivered_as, ids_of
from gateway.security.principals import tenant_of
from gateway.security.quotas import QuotaExceeded
from gateway.store import Store, dead_letters, messages
from mediation.tenants import key_in, tenant_of_source, topic_without_tenant

MOST = 100
"""Deliveries that wait, and dead letters, that are named of one message."""
MOST_LOOKING = 8
"""Ids of deliveries that are looked for in one tenant, or in all: one, and others that wait."""
_DELIVERY = re.compile(r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""The form of ids that consumers are told."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A delivery that waits in the store. Times are POSIX seconds."""

    subscription: str
    since: float
    attempts: int
    due: float


@dataclass(slots=True)
class Traced:
    """The known fate of one message of *tenant*. ``trace`` is None where only the store
    knows of it."""

    id: str
    tenant: str
    topic: str | None
    trace: Trace | None = None
    waiting: list[Waiting] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)

    @property
    def ends(self) -> tuple[Mapping[str, int], Sequence[tuple[str, str]]]:
        """The numbers of deliveries by their ends, and the first of them by name."""
        return ({}, ()) if self.trace is None else self.trace.ends()


class MessageTracing:
    """Traces messages: by the id of their publisher, of a notification
    that they held, or of a delivery."""

    def __init__(self, traces: MessageTraces, store: Store) -> None:
        self._traces = traces
        self._store = store
        self._looking: Counter[str | None] = Counter()
        self._turns: dict[str | None, asyncio.Lock] = {}

    async def trace(self, message: str, tenant: str | None = None) -> list[Traced]:
        """Find the traces of *message*, of one *tenant* or of all; empty if it is not known.

        Raises:
            StoreUnavailable: The store cannot be read.
            QuotaExceeded: ``RATE``: too many ids of deliveries are looked for.
        """
        found = self._traces.find(message, tenant)
        ids = list(ids_of(message))
        if not found and _DELIVERY.fullmatch(message):
            found, named = await self._look_through(message, tenant)
            ids = [*(trace.id for trace in found), *named, message]
        return await self._with_stored(found, list(dict.fromkeys(ids)), tenant)

    async def _look_through(
        self, delivery: str, tenant: str | None
    ) -> tuple[list[Trace], list[str]]:
        """Find what was delivered with the id *delivery*: the traces, and the ids in the store. To
        look through both takes up to 0.1 s, in which nobody writes to the store: so it is done for
        one of a tenant at a time.

        Raises:
            QuotaExceeded: ``RATE``: many of the tenant's wait already.
        """
        if self._looking[tenant] >= MOST_LOOKING:
            text = "Too many deliveries are looked for: ask again in a moment."
            raise QuotaExceeded(Reason.RATE, text, retry_after=1.0)
        self._looking[tenant] += 1
        try:
            async with self._turns.setdefault(tenant, asyncio.Lock()):
                traces = [one for one in self._traces.snapshot() if tenant in (None, one.tenant)]
                found = await asyncio.to_thread(delivered_as, traces, delivery)
                named = partial(messages.ids_delivered_as, delivery=delivery, tenant=tenant)
                return found, await self._store.submit(named)
        finally:
            self._looking[tenant] -= 1

    async def _with_stored(
        self, found: Sequence[Trace], ids: Sequence[str], tenant: str | None
    ) -> list[Traced]:
        traced = {key_in(trace.tenant, trace.id): _traced(trace, tenant) for trace in found}
        waiting = partial(messages.waiting_of, ids=ids, limit=MOST, tenant=tenant)
        for row in await self._store.submit(waiting):
            whose = tenant_of_source(row.source)
            one = traced.setdefault(key_in(whose, row.id), Traced(row.id, whose, row.topic))
            one.waiting.append(Waiting(row.subscription, row.since, row.attempts, row.due))
        died = partial(dead_letters.of_messages, ids=ids, limit=MOST, tenant=tenant)
        for letter in await self._store.submit(died):
            id_, whose = letter.published, tenant_of(letter.death.owner)
            fresh = Traced(id_, whose, letter.death.topic)
            traced.setdefault(key_in(whose, id_), fresh).dead.append(letter)
        return list(traced.values())


def _traced(trace: Trace, tenant: str | None) -> Traced:
    """A trace as who sees the messages of *tenant*, or of all, is shown it."""
    topic = trace.topic
    if tenant and topic is not None:
        topic = topic_without_tenant(topic)
    return Traced(trace.id, trace.tenant, str(topic) if topic else None, trace)
