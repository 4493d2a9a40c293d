"""Publishers that wait for a broker's confirmation, each under a deadline."""

import asyncio
from collections.abc import Callable, Iterable

from adapters.protocol import AdapterError, AdapterUnavailable


class Publication:
    """The wait of one publisher: until *done*, or *deadline* by the event loop's clock."""

    __slots__ = ("deadline", "done")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def confirm(self) -> None:
        """End the wait: the broker has all of it."""
        if not self.done.done():
            self.done.set_result(None)

    def refuse(self, text: str, retry_after: float) -> None:
        """End the wait with `AdapterUnavailable`: the broker may have none of it."""
        self.fail(AdapterUnavailable(text, retry_after=retry_after))

    def fail(self, error: AdapterError) -> None:
        """End the wait with *error*."""
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # Its publisher may have given up.


class Deadlines:
    """Refuses publications that are not confirmed in time. One timer serves all, because nearly all
    are confirmed long before it ends.

    Args:
        waiting: All that are not confirmed, the oldest first.
        retry_after: Seconds after which a publisher may try again.
    """

    def __init__(self, waiting: Callable[[], Iterable[Publication]], retry_after: float) -> None:
        self._waiting = waiting
        self._retry_after = retry_after
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, publication: Publication) -> None:
        """Watch *publication*: a timer that runs is for one whose deadline is no later."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(publication.deadline, self._on_time)

    def close(self) -> None:
        """Stop the timer: no publication waits any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for publication in self._waiting():
            if publication.done.done():
                continue
            if publication.deadline > now:
                self.watch(publication)
                return
            publication.refuse("the broker did not confirm in time", self._retry_after)
