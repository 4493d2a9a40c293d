"""Messages that are kept whole: the last ones in memory, and in the store those that wait or
died."""

from collections.abc import Sequence
from functools import partial

from gateway.observing.recent_messages import RecentMessage, RecentMessages
from gateway.store import Store, messages
from mediation.model.messages import Notification


class KeptMessages:
    """Finds messages that are kept whole.

    Args:
        recent: The last messages; None where none are kept.
    """

    def __init__(self, store: Store, recent: RecentMessages | None) -> None:
        self._store = store
        self._recent = recent

    def recent(self, id_: str, tenant: str | None = None) -> RecentMessage | None:
        """The message with this id, of one *tenant* or of all, where it is one of the last."""
        return self._recent.find(id_, tenant) if self._recent is not None else None

    def newest(self, tenant: str | None = None) -> Sequence[RecentMessage]:
        """The last messages, of one *tenant* or of all, the newest first; none where none are
        kept."""
        return self._recent.newest(tenant) if self._recent is not None else ()

    async def for_subscription(
        self, id_: str, subscription: str, tenant: str
    ) -> Notification | None:
        """The message with this id, as it was for *subscription*, which is of *tenant*; None where
        it is not kept.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        recent = self.recent(id_, tenant)
        if recent is not None:
            return recent.notification
        query = partial(messages.of_subscription, id=id_, subscription=subscription)
        return await self._store.submit(query)

    async def find(self, id_: str, tenant: str | None = None) -> Notification | None:
        """The message with this id, of one *tenant* or of all; None where it is not kept.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        recent = self.recent(id_, tenant)
        if recent is not None:
            return recent.notification
        return await self._store.submit(partial(messages.with_id, id=id_, tenant=tenant))
