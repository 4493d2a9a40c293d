"""Bookmarks that sources of WS-Management give with their deliveries: they are told to go on behind
the last one when they are subscribed at anew. And the contexts in which events are pulled."""

import time
from collections.abc import Callable, Mapping
from functools import partial

import structlog
from sqlalchemy import Connection

from gateway.delivery import PartitionShare
from gateway.model.sources import Source
from gateway.store import Store, bookmarks
from gateway.store.bookmarks import Machine

MOST_BOOKMARKS = 100_000
"""Bookmarks that are kept of all sources."""
BOOKMARK_AGE = 30 * 86400.0
"""Seconds after which a bookmark makes room for others."""

_CONTEXT = "context"
"""The name under which the context of a source's subscription is kept, beside its bookmark."""
_log = structlog.get_logger("dragoman.sources")


class Bookmarks:
    """Keeps the last bookmarks of sources."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def keep(
        self,
        machine: Machine,
        bookmark: bytes,
        subscription: str = "",
        *,
        of_owner: int | None = None,
    ) -> bool:
        """Keep the bookmark of a delivery whose events are durable; it is durable on return.

        Args:
            subscription: The name of what is wanted of the machine.
            of_owner: The most that the machine's owner may have.

        Returns:
            Whether it is kept: there are not too many.
        """
        return await self._store.submit(
            partial(
                self.note,
                machine=machine,
                bookmark=bookmark,
                subscription=subscription,
                of_owner=of_owner,
            )
        )

    def note(
        self,
        connection: Connection,
        machine: Machine,
        bookmark: bytes,
        subscription: str = "",
        *,
        of_owner: int | None = None,
    ) -> bool:
        """`keep`, in a transaction of the store."""
        return bookmarks.note(
            connection,
            machine,
            subscription,
            bookmark,
            now=self._clock(),
            of_owner=of_owner,
            in_all=MOST_BOOKMARKS,
            age=BOOKMARK_AGE,
        )

    async def of(self, machine: Machine) -> Mapping[str, bytes]:
        """The last bookmarks of a machine, by the names of what is wanted of it."""
        return await self._store.submit(partial(bookmarks.noted, machine=machine))

    async def forget(self, machine: Machine) -> None:
        """Forget the bookmarks of a machine."""
        await self._store.submit(partial(bookmarks.forget, machine=machine))


class HeldBookmarks:
    """Those of the sources that the gateway is subscribed at."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._bookmarks = Bookmarks(store, clock)

    async def keep(self, source: Source, bookmark: bytes) -> None:
        """Keep the bookmark of a delivery whose events are durable; it is durable on return."""
        if not await self._bookmarks.keep(known_as(source), bookmark):
            _log.warning("source.bookmark-dropped", source=source.id)

    async def last(self, source: Source) -> bytes | None:
        """The last bookmark of a source."""
        return (await self._bookmarks.of(known_as(source))).get("")

    async def keep_context(
        self,
        source: Source,
        share: PartitionShare,
        key: str,
        context: bytes,
        bookmark: bytes | None = None,
    ) -> None:
        """Keep in which *context* the next events of the subscription with *key* are pulled, and
        behind which bookmark a later one goes on; both are durable on return.

        Raises:
            Fenced: Another gateway keeps the source.
            StoreUnavailable: Nothing was changed.
        """
        kept = {_CONTEXT: f"{key}\n".encode() + context}
        if bookmark is not None:
            kept[""] = bookmark

        def operation(connection: Connection) -> bool:
            share.check(connection)
            noted = [
                self._bookmarks.note(connection, known_as(source), mark, name)
                for name, mark in kept.items()
            ]
            return all(noted)

        if not await self._store.submit(operation):
            _log.warning("source.bookmark-dropped", source=source.id)

    async def context(self, source: Source, key: str) -> bytes | None:
        """The context of the subscription with *key*."""
        found = (await self._bookmarks.of(known_as(source))).get(_CONTEXT, b"")
        of, _, context = found.partition(b"\n")
        return context if of == key.encode() else None

    async def refused(self, source: Source) -> None:
        """Forget the bookmark of a source that does not know it any more."""
        await self._bookmarks.forget(known_as(source))
        _log.warning("source.bookmark-refused", source=source.id)


def known_as(source: Source) -> Machine:
    """Under which name the bookmarks of a source are kept."""
    return Machine(source.owner, f"source:{source.id}")
