"""Keeps the gateway's own entry in a directory, and looks for the parent and the children of its
channel there.

The directory may be away: it is asked again, later and later, and nothing else waits for it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from enum import Enum

import structlog

from filters import Refused
from gateway.channels.directory import Directory, DirectoryFailed, parent_of
from gateway.observing.samples import Sample, counters
from gateway.security.resource_addresses import shown
from mediation.model.messages import EndpointReference

FIRST_RETRY = 5.0
"""Seconds after which a directory that is away is asked again; each time twice as long, up to the
interval."""
_log = structlog.get_logger("dragoman.directory")


class Direction(Enum):
    """Which way events go in a hierarchy of channels."""

    DOWN = "down"
    """Each channel has those of its parent."""
    UP = "up"
    """Each has those of its children."""
    BOTH = "both"

    @property
    def up(self) -> bool:
        return self is not Direction.DOWN

    @property
    def down(self) -> bool:
        return self is not Direction.UP


class Naming:
    """Binds at start and at intervals.

    Args:
        name: The distinguished name of our entry.
        reference: What it says.
        interval: Seconds between two times.
        direction: Which way events go, and so who is looked for to subscribe at.
        found: Told of those each time they are looked up.

    Attributes:
        parent: The parent's reference, as it was known last.
        children: Those of the children, as they were known last; they are looked for where events
            go up.

    Raises:
        Refused: *name* is not the name of an entry.
    """

    def __init__(
        self,
        directory: Directory,
        name: str,
        reference: EndpointReference,
        *,
        interval: float,
        direction: Direction = Direction.DOWN,
        found: Callable[[Sequence[EndpointReference]], None] = lambda _: None,
        first_retry: float = FIRST_RETRY,
    ) -> None:
        self._directory = directory
        self._name, self._above = name, parent_of(name)
        self._reference = reference
        self._interval, self._direction = interval, direction
        self._found = found
        self._first_retry = first_retry
        self.parent: EndpointReference | None = None
        self.children: tuple[EndpointReference, ...] = ()
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
        """Bind our entry, and look up who is above and below: whether one works is nothing to the
        other.

        Raises:
            Refused: One did not.
        """
        bound = await self._failure_of(self._bind)
        above = await self._failure_of(self._look_above)
        below = await self._failure_of(self._look_below) if self._direction.up else ""
        if not above and not below:
            parents = [self.parent] if self._direction.down and self.parent is not None else []
            self._found([*parents, *self.children])
        if why := bound or above or below:
            raise DirectoryFailed(why)

    async def _failure_of(self, work: Callable[[], Awaitable[None]]) -> str:
        """Do *work*; why it could not be done."""
        try:
            await work()
        except Refused as refused:
            return refused.text
        return ""

    async def _bind(self) -> None:
        if await self._directory.bind(self._name, self._reference):
            _log.info("directory.bound", name=self._name)
        self.outcomes["bound"] += 1

    async def _look_above(self) -> None:
        if self._above is None:
            return
        parent = await self._directory.lookup(self._above)
        if parent != self.parent:
            location = None if parent is None else shown(parent.address)
            _log.info("directory.parent", name=self._above, location=location)
        self.parent = parent

    async def _look_below(self) -> None:
        entries = await self._directory.children(self._name)
        children = tuple(one.reference for one in entries if one.reference is not None)
        if children != self.children:
            _log.info(
                "directory.children",
                locations=[shown(one.address) for one in children],
                skipped=[one.name for one in entries if one.reference is None],
            )
        self.children = children

    def metrics(self) -> Iterator[Sample]:
        """How often our entry was bound, and how often the directory failed."""
        yield counters("directory", "Exchanges with the directory.", "outcome", self.outcomes)
