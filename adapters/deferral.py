"""Filters that may be expensive: evaluated beside delivery, while everybody else gets the message.

    message -- decided at once --------------------------------------> yielded
                 |
                 +-- deferred, or behind one that is: queue -> jail --> yielded, the second part

One message is evaluated at a time, in the order of arrival. A subscription whose filter waits here
gets all its messages through here until the queue has none of it, so their order holds. The message
is settled when both parts are.

What keeps up with anything that strangers ask: one message takes its budget at most; a filter that
exceeded its own is over budget, for `COOL_DOWN` seconds, wherever it would be deferred again; and
when `MOST` messages wait, what comes is not evaluated.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from time import monotonic

from adapters.protocol import Delivery
from filters import Deferred, Matching
from filters.matching.jail import Jail, judge
from mediation import Notification

logger = logging.getLogger(__name__)

MOST = 256
"""Messages that wait for evaluation; and never more than half of what may be unsettled."""
COOL_DOWN = 1.0


@dataclass(frozen=True, slots=True)
class Matched:
    """A message, or one of two parts of it, with those that it goes to. No key is in both parts.

    *delivery* is the part's own: the message is settled when all parts are.
    """

    delivery: Delivery
    keys: Sequence[str]
    over_budget: Sequence[str] = ()
    """Their filters exceeded their budget: nobody knows whether they match."""
    unevaluated: Sequence[str] = ()
    """Their filters had no turn, by no fault of theirs."""


class _Part:
    """One of several deliveries of one message."""

    __slots__ = ("_settled", "_shared")

    def __init__(self, shared: "_Shared") -> None:
        self._shared = shared
        self._settled = False

    @property
    def notification(self) -> Notification:
        return self._shared.delivery.notification

    @property
    def partition(self) -> int:
        return self._shared.delivery.partition

    @property
    def redelivered(self) -> bool:
        return self._shared.delivery.redelivered

    def settle(self) -> None:
        if not self._settled:
            self._settled = True
            self._shared.parts -= 1
            if self._shared.parts == 0:
                self._shared.delivery.settle()


@dataclass(slots=True)
class _Shared:
    delivery: Delivery
    parts: int = 2


@dataclass(slots=True)
class _Job:
    """What is evaluated of one message, and who waits behind."""

    delivery: Delivery
    behind: list[str]
    """Decided at once, but an earlier message of theirs is under evaluation."""
    deferred: list[Deferred[str]] = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        return self.behind + [key for deferred in self.deferred for key in deferred.keys]


class Deferral:
    """The queue in front of the jail.

    Args:
        is_wanted: Whether a key still has a filter: those of others are not evaluated.
        most: Messages that wait.
    """

    def __init__(self, is_wanted: Callable[[str], bool], *, most: int = MOST) -> None:
        self._is_wanted = is_wanted
        self._most = most
        self._jail = Jail()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="filters")
        self._queue: deque[_Job] = deque()
        self._done: deque[Matched] = deque()
        self._evaluated: asyncio.Future[None] | None = None
        self._under_way: Counter[str] = Counter()
        self._cooling: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many messages, or second parts of them, are under way or to be yielded."""
        return len(self._queue) + len(self._done)

    @property
    def idle(self) -> bool:
        """Nothing is under way, and nothing is to be yielded."""
        return not (self._queue or self._done)

    def divide(self, delivery: Delivery, matching: Matching[str]) -> Matched | None:
        """What of a message goes on at once; the rest is queued. None where nothing does; what
        matches nobody is settled."""
        if not (matching.deferred or self._under_way):
            return _unless_nobody(Matched(delivery, matching.keys))
        over_budget: list[str] = []
        deferred = self._uncooled(matching.deferred, over_budget)
        unevaluated: list[str] = []
        if deferred and len(self._queue) >= self._most:
            unevaluated = [key for one in deferred for key in one.keys]
            deferred = []
        under_way = self._under_way
        now = [key for key in matching.keys if key not in under_way]
        behind = [key for key in matching.keys if key in under_way]
        if not (behind or deferred):
            return _unless_nobody(Matched(delivery, now, over_budget, unevaluated))
        if now or over_budget or unevaluated:
            shared = _Shared(delivery)
            self._put(_Job(_Part(shared), behind, deferred))
            return Matched(_Part(shared), now, over_budget, unevaluated)
        self._put(_Job(delivery, behind, deferred))
        return None

    def take(self) -> Matched | None:
        """What has been evaluated and goes to somebody, if anything has; in order."""
        while self._done:
            matched = _unless_nobody(self._done.popleft())
            if matched is not None:
                return matched
        return None

    def evaluated(self) -> asyncio.Future[None]:
        """Done when there is something to take again; asked for when `take` gave None."""
        if self._evaluated is None or self._evaluated.done():
            self._evaluated = asyncio.get_running_loop().create_future()
        return self._evaluated

    async def close(self) -> None:
        """Let go of the process. What waits stays unsettled, and comes again."""
        if self._task is not None:
            self._task.cancel()
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)
        self._jail.close()

    def _put(self, job: _Job) -> None:
        self._under_way.update(job.keys)
        self._queue.append(job)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        while self._queue:
            job = self._queue[0]
            self._done.append(await self._evaluate(job))
            self._queue.popleft()
            for key in job.keys:
                self._under_way[key] -= 1
                if not self._under_way[key]:
                    del self._under_way[key]
            if self._evaluated is not None and not self._evaluated.done():
                self._evaluated.set_result(None)

    async def _evaluate(self, job: _Job) -> Matched:
        keys, over_budget, unevaluated = list(job.behind), list[str](), list[str]()
        deferred = [
            one
            for one in self._uncooled(job.deferred, over_budget)
            if any(map(self._is_wanted, one.keys))
        ]
        questions = [(one.expressions, one.documents) for one in deferred]
        try:
            if not questions:
                return Matched(job.delivery, keys, over_budget)
            loop = asyncio.get_running_loop()
            verdicts = await loop.run_in_executor(self._thread, judge, self._jail, questions)
        except Exception:  # One message must not end the evaluation of all others.
            logger.exception("filters cannot be evaluated")
            unevaluated = [key for one in deferred for key in one.keys]
        else:
            for one, verdict in zip(deferred, verdicts, strict=True):
                if verdict is None:
                    over_budget += one.keys
                    self._cool(one.keys)
                elif verdict:
                    keys += one.keys
        return Matched(job.delivery, keys, over_budget, unevaluated)

    def _cool(self, keys: Sequence[str]) -> None:
        until = monotonic() + COOL_DOWN
        for key in keys:
            self._cooling.pop(key, None)
            self._cooling[key] = until

    def _uncooled(
        self, deferred: Sequence[Deferred[str]], over_budget: list[str]
    ) -> list[Deferred[str]]:
        """*deferred* without those who are over budget for now: they become *over_budget*."""
        now = monotonic()
        while self._cooling and self._cooling[first := next(iter(self._cooling))] <= now:
            del self._cooling[first]
        if not self._cooling:
            return list(deferred)
        left = []
        for one in deferred:
            over_budget += (key for key in one.keys if key in self._cooling)
            keys = [key for key in one.keys if key not in self._cooling]
            if keys:
                left.append(replace(one, keys=keys))
        return left


def _unless_nobody(matched: Matched) -> Matched | None:
    if matched.keys or matched.over_budget or matched.unevaluated:
        return matched
    matched.delivery.settle()
    return None
