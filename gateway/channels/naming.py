"""Keeps the gateway's own entry in a directory, and looks for the parent of its channel there.

The directory may be away: it is asked again, later and later, and nothing else waits for it.
"""

import asyncio
from collections.abc import Callable, Iterator

import structlog

from filters import Refused
from gateway.channels.directory import Directory, parent_of
from gateway.observing.samples import Sample, counters
from gateway.security.resource_addresses import shown
from mediation import EndpointReference

FIRST_RETRY = 5.0
"""Seconds after which a directory that is away is asked again; each time twice as long, up to the
interval."""
_log = structlog.get_logger("dragoman.directory")


class Naming:
    """Binds at start and at intervals.

    Args:
        name: The distinguished name of our entry.
        reference: What it says.
        interval: Seconds between two times.
        found: Told of the parent each time it is looked up; of None where there is none.

    Attributes:
        parent: The parent's reference, as it was known last.

    Raises:
        Refused: *name* is no name of an entry.
    """

    def __init__(
        self,
        directory: Directory,
        name: str,
        reference: EndpointReference,
        *,
        interval: float,
        found: Callable[[EndpointReference | None], None] = lambda _: None,
        first_retry: float = FIRST_RETRY,
    ) -> None:
        self._directory = directory
        self._name, self._above = name, parent_of(name)
        self._reference = reference
        self._interval = interval
        self._found = found
        self._first_retry = first_retry
        self.parent: EndpointReference | None = None
        self.outcomes = {"bound": 0, "failed": 0}

    async def run(self) -> None:
        """Keep the entry, until cancelled."""
        failures = 0
        while True:
            try:
                await self._renew()
            except Refused as refused:
                self.outcomes["failed"] += 1
                if not failures:
                    _log.warning("directory.failed", name=self._name, why=refused.text)
                delay = min(self._interval, self._first_retry * 2.0 ** min(failures, 20))
                failures += 1
            else:
                if failures:
                    _log.info("directory.back", name=self._name)
                failures, delay = 0, self._interval
            await asyncio.sleep(delay)

    async def _renew(self) -> None:
        """Bind our entry and look the parent up: whether one works is nothing to the other.

        Raises:
            Refused: One did not.
        """
        try:
            if await self._directory.bind(self._name, self._reference):
                _log.info("directory.bound", name=self._name)
            self.outcomes["bound"] += 1
        except Refused:
            await self._look_up_parent()
            raise
        await self._look_up_parent()

    async def _look_up_parent(self) -> None:
        if self._above is None:
            return
        parent = await self._directory.lookup(self._above)
        if parent != self.parent:
            location = None if parent is None else shown(parent.address)
            _log.info("directory.parent", name=self._above, location=location)
        self.parent = parent
        self._found(parent)

    def metrics(self) -> Iterator[Sample]:
        """How often our entry was bound, and how often the directory failed."""
        yield counters("directory", "Exchanges with the directory.", "outcome", self.outcomes)
