"""Group commit: what comes while one transaction commits shares the next one.

    a thread ── run ────┐            ┌─> a thread that waits, if the first in the queue is one's
                        ├─> queue ───┤
    a task ─── submit ──┘            └─> the committing thread, if it is a task's

Whoever comes while nobody commits leads: it commits for all who wait, and then hands the lead to
the first of those who came meanwhile. There is no timer, so that what comes alone waits for nobody.

A thread leads by itself because it waits anyhow. Handed over to another one, a message that is
sent alone into a store in memory takes 220 us, not 86. An event loop may not wait, so that tasks
have the committing thread, which answers all tasks of a loop in one call.

Nobody is answered before the commit that has his item is over, and everybody by the outcome of his
own item. Items are committed in the order in which they came, also that of a task that was
cancelled meanwhile, unless the queue leaves those out whose commit has not begun.
"""

import asyncio
import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E")


class CommitQueue(Generic[E]):
    """The entries that wait for a commit, and whether one of them leads: without threads or tasks.

    Args:
        most: The most entries of one commit.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.waiting: deque[E] = deque()
        self.led = False
        """Whether somebody commits, or is to."""

    def add(self, entry: E) -> bool:
        """Let *entry* wait. Returns whether it leads, because nobody does."""
        self.waiting.append(entry)
        leads, self.led = not self.led, True
        return leads

    def take(self) -> list[E]:
        """The entries of the next commit, oldest first: who leads begins with this."""
        return [self.waiting.popleft() for _ in range(min(self._most, len(self.waiting)))]

    def end(self) -> E | None:
        """Give the lead up, after a commit. Returns the entry that has it now, if one waits."""
        self.led = bool(self.waiting)
        return self.waiting[0] if self.waiting else None


class _ThreadEntry(Generic[T]):
    """An item of a thread, which sleeps until the item is done, or until it is to lead."""

    __slots__ = ("_asleep", "done", "item", "leads", "outcome")

    def __init__(self, item: T) -> None:
        self.item = item
        self.done = self.leads = False
        self.outcome: Any = None
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def is_given_up(self) -> bool:
        """Return whether nobody waits for it any more."""
        return False

    def sleep(self) -> None:
        self._asleep.acquire()

    def lead(self) -> None:
        self.leads = True
        self._wake()

    def finish(self, outcome: Any) -> None:
        self.outcome, self.done = outcome, True
        self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # It was woken before, and looked without having slept.
            self._asleep.release()


class _TaskEntry(Generic[T]):
    """An item of a task, which awaits *future*."""

    __slots__ = ("future", "is_given_up", "item")

    def __init__(self, item: T, future: "asyncio.Future[Any]") -> None:
        self.item = item
        self.future = future
        self.is_given_up = future.done


_Entry: TypeAlias = _ThreadEntry[T] | _TaskEntry[T]


class GroupCommit(Generic[T, R]):
    """Has items committed together: those of threads (`run`) and of tasks (`submit`).

    Args:
        commit: Commits the items; returns the result of each, in their order, or the exception that
            is raised to whoever waits for it. It is never called by two threads at once.
        most: The most items of one commit.
        name: Of the committing thread, which is there from the first `submit` until `close`.
        at_end: Is called by the committing thread when it ends.
        leaves_out_cancelled: Whether items of tasks that were cancelled before their commit began
            are left out.

    Attributes:
        under_way: The items that are being committed.
        began: When that began (`time.monotonic`); None while nothing is committed.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[T]], Sequence[R | Exception]],
        most: int,
        *,
        name: str = "group-commit",
        at_end: Callable[[], None] | None = None,
        leaves_out_cancelled: bool = False,
    ) -> None:
        self._commit = commit
        self._name = name
        self._at_end = at_end
        self._leaves_out_cancelled = leaves_out_cancelled
        self._lock = threading.Lock()
        self._queue: CommitQueue[_Entry[T]] = CommitQueue(most)
        self._thread: threading.Thread | None = None
        self._calls: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """For the committing thread: True to commit once, False to see whether it may end."""
        self._closing = False
        self.under_way: Sequence[T] = ()
        self.began: float | None = None

    def __len__(self) -> int:
        """The number of items that wait for a commit to begin."""
        return len(self._queue.waiting)

    def start(self) -> None:
        """Have the committing thread, unless it is there; `submit` does this, too."""
        with self._lock:
            if self._thread is None:
                self._begin()

    def _begin(self) -> None:
        self._closing = False
        self._calls = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._thread.start()

    def run(self, item: T) -> R:
        """Have *item* committed, by this thread or by another one, and wait for that."""
        own = _ThreadEntry(item)
        with self._lock:
            own.leads = self._queue.add(own)
        interrupted: BaseException | None = None
        while not (own.leads or own.done):
            try:
                own.sleep()
            except BaseException as error:  # Others may wait until this thread works for them.
                interrupted = error.with_traceback(None)
        if not own.done:
            self._lead()
        outcome: Any = interrupted or own.outcome
        if isinstance(outcome, BaseException):
            try:
                raise outcome
            finally:
                del own, outcome, interrupted
        result: R = outcome
        return result

    def submit(self, item: T) -> "asyncio.Future[R]":
        """Have *item* committed; the future, of the running event loop, is done after that."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._thread is None:
                self._begin()
            if self._queue.add(_TaskEntry(item, future)):
                self._calls.put(True)
        return future

    def refuse(self, is_refused: Callable[[T], bool], error: Callable[[], Exception]) -> None:
        """Raise an *error* to tasks, from the oldest on, while theirs *is_refused*: these items are
        never committed."""
        refused = []
        with self._lock:
            waiting = self._queue.waiting
            while waiting and isinstance(waiting[0], _TaskEntry) and is_refused(waiting[0].item):
                refused.append(waiting.popleft())
        _answer(refused, [error() for _ in refused])

    def close(self, seconds: float = 0.0) -> None:
        """Have the committing thread end when no task waits, and wait *seconds* for that. What is
        submitted later has a new thread."""
        with self._lock:
            thread, self._closing = self._thread, True
            if thread is not None:
                self._calls.put(False)
        if thread is not None and seconds:
            thread.join(seconds)

    def _work(self) -> None:
        """Commit whenever a task leads: the committing thread."""
        try:
            ended = False
            while not ended:
                # One item does not end the thread of all, whatever it raises: SystemExit, a
                # CancelledError of asyncio's. Whoever waits for it was told.
                with suppress(BaseException):
                    while self._calls.get():
                        self._lead()
                    ended = self._may_end()
        finally:
            if self._at_end is not None:
                self._at_end()

    def _may_end(self) -> bool:
        """Return whether the committing thread ends now. If not, because somebody leads, it is
        asked once more when nobody does."""
        with self._lock:
            if not self._queue.led:
                self._thread = None
            return self._thread is None

    def _lead(self) -> None:
        """Commit for those who wait, once, and hand the lead on."""
        with self._lock:
            entries = self._queue.take()
        if self._leaves_out_cancelled:
            entries = [each for each in entries if not each.is_given_up()]
        self.under_way, self.began = [each.item for each in entries], time.monotonic()
        outcomes: Sequence[R | Exception] | None = None
        try:
            outcomes = self._outcomes()
        finally:
            self.under_way, self.began = (), None
            if outcomes is None:
                outcomes = [RuntimeError("the thread was ended")] * len(entries)
            try:
                _answer(entries, outcomes)
            finally:  # Else nobody would ever commit again.
                with self._lock:
                    self._hand_on()

    def _hand_on(self) -> None:
        following = self._queue.end()
        if isinstance(following, _ThreadEntry):
            following.lead()
        elif following is not None or (self._closing and self._thread is not None):
            self._calls.put(following is not None)

    def _outcomes(self) -> Sequence[R | Exception]:
        if not self.under_way:
            return ()
        number = len(self.under_way)
        try:
            outcomes = self._commit(self.under_way)
        except Exception as error:
            return [error] * number
        if len(outcomes) != number:
            return [RuntimeError(f"a commit of {number} had {len(outcomes)} results")] * number
        return outcomes


def _answer(entries: Sequence[_Entry[Any]], outcomes: Sequence[Any]) -> None:
    """Tell each of those who wait the outcome of his item; tasks of a loop in one call."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]]
    by_loop = defaultdict(list)
    for entry, outcome in zip(entries, outcomes, strict=True):
        if isinstance(entry, _ThreadEntry):
            entry.finish(outcome)
        else:
            future = entry.future
            by_loop[future.get_loop()].append((future, outcome))
    for loop, answers in by_loop.items():
        with suppress(RuntimeError):  # The loop is closed: nobody waits.
            loop.call_soon_threadsafe(_settle, answers)


def _settle(answers: Sequence[tuple["asyncio.Future[Any]", Any]]) -> None:
    for future, outcome in answers:
        if future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
