"""Slow filters: evaluated beside delivery, while all other subscribers get the message.

    message -- decided at once --------------------------------> yielded
                 |
                 +-- deferred, or behind one that is:
                       one queue a share -- in turn --> worker --> yielded, another part

Subscriptions whose filters are accounted together are a *share*. One message is evaluated for one
share at a time, and each share's messages in the order of arrival; next is the share that has taken
the least time. While a filter of a subscription waits here, all messages of the subscription come
through here, so their order holds. The message is settled when all of its parts are.

Three limits bound what strangers can cost: a message takes at most its budget for one share; a
filter that exceeded its own budget counts as over budget for `COOL_DOWN` seconds instead of being
deferred again; and a share has its part of the `MOST` messages that may wait: messages beyond that
are not evaluated for it, however many messages of others wait.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush, heapreplace
from itertools import count
from time import monotonic, perf_counter

from adapters.filtering.unwanted import settle_unwanted
from adapters.protocol import Delivery
from filters import Deferred, Expression, Matching, Question, Worker, evaluate_questions
from mediation.model.messages import Notification

logger = logging.getLogger(__name__)

MOST = 256
"""The most messages that wait for evaluation; never more than half of what may be unsettled, except
for the few that `LEAST` grants each share."""
LEAST = 4
"""Messages that may always wait for one share, however many shares there are, while fewer than one
and a half times `MOST` wait in all."""
COOL_DOWN = 1.0
TURNS = 64
"""Jobs that are done in a row before other tasks of the event loop run, should none of them
wait."""
REMEMBERED = 1024
"""Shares whose time taken is remembered, beside those for which something waits."""

Share = Hashable
"""The subscriptions whose filters are accounted together; None is common to all others."""


@dataclass(frozen=True, slots=True)
class Matched:
    """A message, or one of several parts of it, with the keys that it goes to. No key is in two
    parts.

    Each part has a *delivery* of its own; the message is settled when all parts are.
    """

    delivery: Delivery
    keys: Sequence[str]
    over_budget: Sequence[str] = ()
    """Keys whose filters exceeded their budget, so that it is unknown whether they match."""
    unevaluated: Sequence[str] = ()
    """Keys whose filters were not evaluated because the queue was full; not counted against the
    subscriber."""
    unreadable: str = ""
    """Why the message could not be read, "" if it could: nobody gets it."""


@dataclass(slots=True, eq=False)
class _Message:
    """A message under evaluation: its unsettled parts, its jobs in queues, and the verdicts so
    far."""

    delivery: Delivery
    parts: int = 0
    jobs: int = 0
    verdicts: dict[tuple[Expression, ...], bool] = field(default_factory=dict)


class _Part:
    """A part's delivery: one of several deliveries of one message."""

    __slots__ = ("_message", "_settled")

    def __init__(self, message: _Message) -> None:
        self._message = message
        self._settled = False
        message.parts += 1

    @property
    def notification(self) -> Notification:
        return self._message.delivery.notification

    @property
    def partition(self) -> int:
        return self._message.delivery.partition

    @property
    def redelivered(self) -> bool:
        return self._message.delivery.redelivered

    def settle(self) -> None:
        if not self._settled:
            self._settled = True
            self._message.parts -= 1
            if self._message.parts == 0:
                self._message.delivery.settle()


@dataclass(slots=True, eq=False)
class _Job:
    """The evaluation of one message for one share, and the keys of the share that wait behind
    it."""

    message: _Message
    delivery: Delivery
    behind: list[str] = field(default_factory=list)
    """Keys that match already, but of which an earlier message is under evaluation."""
    deferred: list[Deferred[str]] = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        return self.behind + [key for deferred in self.deferred for key in deferred.keys]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Verdicts, None for those over budget, and the seconds that they took."""

    verdicts: Sequence[bool | None]
    seconds: float


@dataclass(slots=True, eq=False)
class _Request:
    """Questions, and the future for the answer."""

    questions: Sequence[Question]
    answer: asyncio.Future["Evaluated | None"]


@dataclass(slots=True, eq=False)
class _ShareQueue:
    """The queue of one share, and the seconds that it has taken. A new share starts with the
    seconds of the share that had taken the least, so that it does not go before all others."""

    taken: float
    queue: deque[_Job | _Request] = field(default_factory=deque)


class SlowFilters:
    """The queues of deferred messages in front of the worker process.

    Args:
        is_wanted: Returns True if a key still has a filter; other keys are not evaluated.
        share_of: The share of a key.
        most: Messages that wait.
    """

    def __init__(
        self,
        is_wanted: Callable[[str], bool],
        share_of: Callable[[str], Share] = lambda _: None,
        *,
        most: int = MOST,
    ) -> None:
        self._is_wanted = is_wanted
        self._share_of = share_of
        self._most = most
        self._worker = Worker()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="filters")
        self._queues: dict[Share, _ShareQueue] = {}
        """The shares for which something waits or is under evaluation."""
        self._next: list[tuple[float, int, Share]] = []
        """A heap of these shares: seconds taken, and a number to break ties."""
        self._numbers = count()
        self._least = 0.0
        """The seconds that the share that was served last had taken then."""
        self._ahead: dict[Share, float] = {}
        """The seconds taken by shares without a queue, if more than `_least`; kept while any share
        waits."""
        self._messages = 0
        self._done: deque[Matched] = deque()
        self._evaluated: asyncio.Future[None] | None = None
        self._under_way: Counter[str] = Counter()
        self._cooling: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        """Return the number of messages under evaluation and of parts to be yielded."""
        return self._messages + len(self._done)

    @property
    def idle(self) -> bool:
        """True if nothing is under evaluation, and nothing is to be yielded."""
        return not (self._messages or self._done)

    def queue_slow(self, delivery: Delivery, matching: Matching[str]) -> Matched | None:
        """Queue the part of a message that has to wait, and return the part that goes on at once,
        None if nothing waits. A message that matches no key is settled."""
        if not (matching.deferred or self._under_way):
            return _unless_nobody(Matched(delivery, matching.keys))
        over_budget: list[str] = []
        unevaluated: list[str] = []
        deferred: dict[Share, list[Deferred[str]]] = {}
        for one in self._uncooled(matching.deferred, over_budget):
            for share, keys in self._by_share(one.keys).items():
                if self._has_room(share):
                    deferred.setdefault(share, []).append(replace(one, keys=keys))
                else:
                    unevaluated += keys
        under_way = self._under_way
        now = [key for key in matching.keys if key not in under_way]
        behind = self._by_share([key for key in matching.keys if key in under_way])
        for share in [one for one in behind if one is not None and not self._has_room(one)]:
            unevaluated += behind.pop(share)  # If queued, the message would hold up all others.
        shares = [*deferred, *(share for share in behind if share not in deferred)]
        if not shares:
            return _unless_nobody(Matched(delivery, now, over_budget, unevaluated))
        message = _Message(delivery)
        whole = len(shares) == 1 and not (now or over_budget or unevaluated)
        for share in shares:
            part = delivery if whole else _Part(message)
            self._queue_job(
                share, _Job(message, part, behind.get(share, []), deferred.get(share, []))
            )
        if not (now or over_budget or unevaluated):
            return None
        return Matched(_Part(message), now, over_budget, unevaluated)

    async def evaluate(self, share: Share, questions: Sequence[Question]) -> Evaluated | None:
        """Find out whether all expressions of each of *questions*, which are about one message, are
        true, in the turn of *share*; None if too much waits for the share, or nothing can be
        evaluated."""
        if self._closed or not self._has_room(share):
            return None
        asked = _Request(questions, asyncio.get_running_loop().create_future())
        self._enqueue(share, asked)
        return await asked.answer

    def take_evaluated(self) -> Matched | None:
        """Return the next part that has been evaluated and matches some key, None if there is
        none."""
        while self._done:
            matched = _unless_nobody(self._done.popleft())
            if matched is not None:
                return matched
        return None

    def evaluated(self) -> asyncio.Future[None]:
        """Return a future that is done when there is something to take again; for use after
        `take_evaluated` returned None."""
        if self._evaluated is None or self._evaluated.done():
            self._evaluated = asyncio.get_running_loop().create_future()
        return self._evaluated

    async def close(self) -> None:
        """End the worker process. Messages that wait stay unsettled, and come again."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        for share_queue in self._queues.values():
            for job in share_queue.queue:
                if isinstance(job, _Request) and not job.answer.done():
                    job.answer.set_result(None)
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)
        self._worker.close()

    def _by_share(self, keys: Sequence[str]) -> dict[Share, list[str]]:
        found: dict[Share, list[str]] = {}
        for key in keys:
            found.setdefault(self._share_of(key), []).append(key)
        return found

    def _has_room(self, share: Share) -> bool:
        """Return True if one message more may wait for *share*, within its part of all."""
        share_queue = self._queues.get(share)
        waiting = len(share_queue.queue) if share_queue is not None else 0
        shares = len(self._queues) + (share_queue is None)
        part = self._most if shares == 1 else max(LEAST, self._most // shares)
        return waiting < min(part, self._most) and self._messages < self._most * 3 // 2

    def _queue_job(self, share: Share, job: _Job) -> None:
        self._under_way.update(job.keys)
        job.message.jobs += 1
        self._messages += job.message.jobs == 1
        self._enqueue(share, job)

    def _enqueue(self, share: Share, job: _Job | _Request) -> None:
        share_queue = self._queues.get(share)
        if share_queue is None:
            taken = max(self._least, self._ahead.pop(share, 0.0))
            share_queue = self._queues[share] = _ShareQueue(taken)
            heappush(self._next, (taken, next(self._numbers), share))
        share_queue.queue.append(job)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        turns = 0
        while self._next:
            # The share stays first in the heap meanwhile: a new share has taken as much, or more.
            _, number, share = self._next[0]
            share_queue = self._queues[share]
            self._least = share_queue.taken
            job = share_queue.queue[0]
            started = perf_counter()
            if isinstance(job, _Request):
                await self._answer(job)
            else:
                self._done.append(await self._evaluate(job))
            share_queue.taken += perf_counter() - started
            share_queue.queue.popleft()
            if share_queue.queue:
                heapreplace(self._next, (share_queue.taken, number, share))
            else:
                heappop(self._next)
                del self._queues[share]
                self._leave(share, share_queue.taken)
            if isinstance(job, _Job):
                self._finish(job)
            turns += 1
            if turns % TURNS == 0:
                await asyncio.sleep(0)

    def _leave(self, share: Share, taken: float) -> None:
        """Note that nothing waits for *share* now, and remember what it has taken, so that it does
        not come back as if it had taken nothing."""
        if not self._queues:
            self._ahead.clear()
            return
        if len(self._ahead) >= REMEMBERED:
            self._ahead = {one: than for one, than in self._ahead.items() if than > self._least}
        if len(self._ahead) < REMEMBERED:
            self._ahead[share] = taken

    def _finish(self, job: _Job) -> None:
        job.message.jobs -= 1
        self._messages -= job.message.jobs == 0
        for key in job.keys:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]
        if self._evaluated is not None and not self._evaluated.done():
            self._evaluated.set_result(None)

    async def _answer(self, asked: _Request) -> None:
        if asked.answer.done():
            return  # The caller has given up.
        started = perf_counter()
        answer = None
        try:
            answer = Evaluated(await self._judge(asked.questions), perf_counter() - started)
        except Exception:
            logger.exception("filters.not_evaluated", extra={"filters": len(asked.questions)})
        if not asked.answer.done():
            asked.answer.set_result(answer)

    async def _judge(self, questions: Sequence[Question]) -> list[bool | None]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, evaluate_questions, self._worker, questions)

    async def _evaluate(self, job: _Job) -> Matched:
        keys, over_budget, unevaluated = list(job.behind), list[str](), list[str]()
        known = job.message.verdicts
        deferred = []
        for one in self._uncooled(job.deferred, over_budget):
            verdict = known.get(one.expressions)  # Another share has the same filter.
            if verdict is not None:
                keys += one.keys if verdict else ()
            elif any(map(self._is_wanted, one.keys)):
                deferred.append(one)
        if not deferred:
            return Matched(job.delivery, keys, over_budget)
        try:
            verdicts = await self._judge([(one.expressions, one.documents) for one in deferred])
        except Exception:  # One message must not end the evaluation of all others.
            logger.exception("filters.not_evaluated", extra={"filters": len(deferred)})
            unevaluated = [key for one in deferred for key in one.keys]
        else:
            for one, verdict in zip(deferred, verdicts, strict=True):
                if verdict is None:
                    over_budget += one.keys
                    self._cool(one.keys)
                    continue
                known[one.expressions] = verdict
                keys += one.keys if verdict else ()
        return Matched(job.delivery, keys, over_budget, unevaluated)

    def _cool(self, keys: Sequence[str]) -> None:
        until = monotonic() + COOL_DOWN
        for key in keys:
            self._cooling.pop(key, None)
            self._cooling[key] = until

    def _uncooled(
        self, deferred: Sequence[Deferred[str]], over_budget: list[str]
    ) -> list[Deferred[str]]:
        """Return *deferred* without the keys that are over budget for now, which are added to
        *over_budget*."""
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
    settle_unwanted(matched.delivery)
    return None
