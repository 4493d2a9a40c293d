"""Messages that wait for one subscription: in memory, and in the store."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from gateway.delivery import Dispatchers, Entry
from gateway.delivery.outbox import PendingDelivery
from gateway.delivery.states import State
from gateway.store import Store, waiting_deliveries


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that waits, by its publisher's id. Times are POSIX seconds.

    Attributes:
        stored: It waits in the store; else in memory, and soon.
        due: When it may be sent; None: at its turn.
    """

    id: str
    topic: str | None
    since: float
    octets: int
    attempts: int
    due: float | None
    stored: bool


class WaitingMessages:
    """Lists what waits."""

    def __init__(self, store: Store, dispatchers: Dispatchers) -> None:
        self._store = store
        self._dispatchers = dispatchers

    async def page(
        self, entry: Entry, after: int | None, limit: int
    ) -> tuple[Sequence[WaitingMessage], int | None]:
        """What waits for *entry* at a position behind *after*, in its order, and the position to go
        on behind; at the end of it what is in memory alone.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        query = partial(waiting_deliveries.listed, subscription=entry.id, after=after, limit=limit)
        rows = await self._store.submit(query)
        found = [
            WaitingMessage(
                row.id, row.topic, row.since, row.octets, row.attempts, row.due or None, True
            )
            for row in rows
        ]
        if len(rows) == limit:
            return found, rows[-1].position
        in_memory = list(self._in_memory(entry))[: limit - len(rows)]
        return [*found, *in_memory], None

    def _in_memory(self, entry: Entry) -> Iterable[WaitingMessage]:
        for outbox in self._dispatchers.outboxes(entry):
            under_way = sorted(outbox.in_flight, key=lambda one: one.position)
            for pending in (*under_way, *outbox.live):
                for one in pending.carried if pending in outbox.in_flight else (pending,):
                    if one.state is State.LIVE and not one.heartbeat:
                        yield _waiting(one)


def _waiting(pending: PendingDelivery) -> WaitingMessage:
    notification = pending.message.notification
    topic = str(notification.topic) if notification.topic else None
    return WaitingMessage(
        notification.id, topic, pending.since, pending.octets, pending.attempts, None, False
    )
