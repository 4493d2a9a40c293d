"""What several threads do at the same time shares a commit: who comes while another one commits
goes with the next."""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class _Entry(Generic[T]):
    """What one thread brought, and waits for."""

    def __init__(self, item: T) -> None:
        self.item = item
        self.done = False
        self.error: Exception | None = None
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def wait(self) -> None:
        """Wait until `wake` is called."""
        self._asleep.acquire()

    def wake(self) -> None:
        """Let the thread go on: it is done, or it is its turn to do what waits."""
        self._asleep.release()


class Sharing(Generic[T]):
    """Has what threads bring done by one of them, for all who wait.

    Args:
        work: Does it; None for each, or the exception that is raised to who brought it.
        most: The most at a time.
    """

    def __init__(
        self, work: Callable[[Sequence[T]], Sequence[Exception | None]], most: int
    ) -> None:
        self._work = work
        self._most = most
        self._lock = threading.Lock()
        self._busy = False
        self._waiting: list[_Entry[T]] = []

    def run(self, item: T) -> None:
        """Have *item* done, in this thread or in another one."""
        entry = _Entry(item)
        with self._lock:
            self._waiting.append(entry)
            leads, self._busy = not self._busy, True
        interrupted: BaseException | None = None
        while not leads:
            try:
                entry.wait()
                break
            except BaseException as error:  # Others may wait for what is its turn then.
                interrupted = error.with_traceback(None)
        if not entry.done:  # It is the first of those that wait.
            self._do_some(entry)
        failure = interrupted or entry.error
        if failure is not None:
            try:
                raise failure
            finally:
                del entry, failure, interrupted

    def _errors(self, some: Sequence[_Entry[T]]) -> Sequence[Exception | None]:
        """What went wrong with each of *some*, which are done now."""
        try:
            return self._work([entry.item for entry in some])
        except Exception as error:
            return [error] * len(some)

    def _do_some(self, own: _Entry[T]) -> None:
        with self._lock:
            some, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        errors: Sequence[Exception | None] = [RuntimeError("the thread was ended")] * len(some)
        try:
            errors = self._errors(some)
        finally:
            for entry, found in zip(some, errors, strict=True):
                entry.error, entry.done = found, True
                if entry is not own:
                    entry.wake()
            with self._lock:
                self._busy = bool(self._waiting)
                if self._waiting:
                    self._waiting[0].wake()
