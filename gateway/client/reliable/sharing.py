"""What several threads do at the same time shares a commit: who comes while another one commits
goes with the next."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Entry(Generic[T]):
    item: T
    done: bool = False
    error: Exception | None = None


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
        self._turn = threading.Lock()
        self._waiting: list[_Entry[T]] = []

    def run(self, item: T) -> None:
        """Have *item* done, in this thread or in another one."""
        entry = _Entry(item)
        with self._lock:
            self._waiting.append(entry)
        while not entry.done:
            with self._turn:
                if not entry.done:  # Else who had the turn before took it along.
                    self._do_some()
        if entry.error is not None:
            raise entry.error

    def _do_some(self) -> None:
        with self._lock:
            some, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        try:
            errors = self._work([entry.item for entry in some])
        except Exception as error:
            errors = [error] * len(some)
        except BaseException:
            errors = [RuntimeError("the thread that committed for others was ended")] * len(some)
            raise
        finally:
            for entry, found in zip(some, errors, strict=True):
                entry.error, entry.done = found, True
