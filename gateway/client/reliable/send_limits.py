"""`SendLimits`: bound the messages on their way, in all and of each sequence."""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Lane(Generic[T]):
    """The messages of one key, in the order in which they came; *busy* of them are on their way."""

    __slots__ = ("busy", "items", "key", "listed")

    def __init__(self, key: str) -> None:
        self.key = key
        self.items: deque[T] = deque()
        self.busy = 0
        self.listed = False
        """It stands among those that something is taken of next."""


class _Host(Generic[T]):
    """The lanes to one host, and those of which something may be taken, in turn."""

    __slots__ = ("lanes", "name", "ready", "workers")

    def __init__(self, name: str) -> None:
        self.name = name
        self.lanes: dict[str, _Lane[T]] = {}
        self.ready: deque[_Lane[T]] = deque()
        self.workers = 0


class SendLimits(Generic[T]):
    """Has items worked on, at most *of_a_lane* of each lane at a time and *of_a_host* of each host,
    whose lanes have their turns: in one, items begin until *of_a_lane* are worked on, since what
    goes together is taken together on the other side. What has nothing to do is forgotten: no task
    waits.

    To be used in one event loop.

    Args:
        work: Does one of them; it raises nothing.
        spawn: Starts a task.
    """

    def __init__(
        self,
        work: Callable[[T], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        of_a_lane: int,
        of_a_host: int,
    ) -> None:
        self._work = work
        self._spawn = spawn
        self._of_a_lane = of_a_lane
        self._of_a_host = of_a_host
        self._hosts: dict[str, _Host[T]] = {}

    def __len__(self) -> int:
        """Count the lanes in use."""
        return sum(len(host.lanes) for host in self._hosts.values())

    def add(self, to: str, key: str, item: T) -> None:
        """Have *item* worked on, in its turn."""
        host = self._hosts.get(to)
        if host is None:
            host = self._hosts[to] = _Host(to)
        lane = host.lanes.get(key)
        if lane is None:
            lane = host.lanes[key] = _Lane(key)
        lane.items.append(item)
        self._list(host, lane)
        self._begin(host)

    def _list(self, host: _Host[T], lane: _Lane[T], *, goes_on: bool = False) -> None:
        """List it, if something of it may begin; *goes_on*: it is its turn still."""
        if not lane.listed and lane.items and lane.busy < self._of_a_lane:
            lane.listed = True
            if goes_on:
                host.ready.appendleft(lane)
            else:
                host.ready.append(lane)

    def _begin(self, host: _Host[T]) -> None:
        if host.ready and host.workers < self._of_a_host:
            host.workers += 1
            self._spawn(self._run(host))

    async def _run(self, host: _Host[T]) -> None:
        try:
            while host.ready:
                lane = host.ready.popleft()
                lane.listed = False
                item = lane.items.popleft()
                lane.busy += 1
                if lane.items:
                    self._list(host, lane, goes_on=True)
                if host.ready:
                    self._begin(host)
                try:
                    await self._work(item)
                finally:
                    lane.busy -= 1
                    if lane.items:
                        self._list(host, lane)
                    elif not lane.busy:
                        del host.lanes[lane.key]
        finally:
            host.workers -= 1
            if not host.lanes and not host.workers:
                del self._hosts[host.name]
