"""Bookmarks of services of WS-Management that the gateway is subscribed at: it tells them to go on
behind the last one when it subscribes anew."""

import time
from collections.abc import Callable
from functools import partial

import structlog

from gateway.model.sources import Source
from gateway.store import Store, bookmarks
from gateway.store.bookmarks import Machine

MOST_BOOKMARKS = 100_000
"""Bookmarks that are kept of all sources."""
BOOKMARK_AGE = 30 * 86400.0
"""Seconds after which a bookmark makes room for others."""

_log = structlog.get_logger("dragoman.sources")


class HeldBookmarks:
    """Keeps the last bookmark of each source."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def keep(self, source: Source, bookmark: bytes) -> None:
        """Keep the bookmark of a delivery whose events are durable; it is durable on return."""
        operation = partial(
            bookmarks.note,
            machine=known_as(source),
            subscription="",
            bookmark=bookmark,
            now=self._clock(),
            of_owner=None,
            in_all=MOST_BOOKMARKS,
            age=BOOKMARK_AGE,
        )
        if not await self._store.submit(operation):
            _log.warning("source.bookmark-dropped", source=source.id)

    async def last(self, source: Source) -> bytes | None:
        """The last bookmark of a source."""
        found = await self._store.submit(partial(bookmarks.noted, machine=known_as(source)))
        return found.get("")

    async def refused(self, source: Source) -> None:
        """Forget the bookmark of a source that does not know it any more."""
        await self._store.submit(partial(bookmarks.forget, machine=known_as(source)))
        _log.warning("source.bookmark-refused", source=source.id)


def known_as(source: Source) -> Machine:
    """Under which name the bookmarks of a source are kept."""
    return Machine(source.owner, f"source:{source.id}")
