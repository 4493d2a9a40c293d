"""The progress of sequences while their messages come: how far each is published, and the tasks
that wait for that."""

import asyncio
from collections import OrderedDict

from gateway.reliability.records import IncomingSequence
from gateway.sequences.delivering import Progress, Turn

KEPT = 10_000
"""Sequences whose progress is remembered while nothing happens to them; the one that was seen
longest ago goes first."""


class PublishingProgress:
    """The progress of one sequence, as far as this process knows it.

    Attributes:
        published: The highest number that the messaging system is known to have.
        delivered: The highest number of which that is committed, too.
        sequence: The sequence as it was committed last.
        work: The task that publishes its messages now.
        turn: The messages that are leased for that task to publish next.
    """

    __slots__ = ("_waiting", "delivered", "published", "sequence", "turn", "work")

    def __init__(self) -> None:
        self.published = 0
        self.delivered = 0
        self.sequence: IncomingSequence | None = None
        self.work: asyncio.Task[None] | None = None
        self.turn: Turn | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def at_work(self) -> bool:
        return self.work is not None and not self.work.done()

    def next_turn(self) -> Turn | None:
        """Take the messages that are leased; they are returned once."""
        turn, self.turn = self.turn, None
        return turn

    async def reached(self, number: int) -> None:
        """Return once *number* is published, or nothing works on that."""
        if self.delivered >= number or not self.at_work:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((number, future))
        await future

    def advance(self, progress: Progress) -> None:
        """Note the progress, and tell the tasks that wait for it."""
        self.delivered = max(self.delivered, progress.delivered)
        self.sequence = progress.sequence or self.sequence
        self._tell(self.delivered)

    def rest(self) -> None:
        """Tell all waiting tasks that nothing works on it any more."""
        self._tell(None)

    def _tell(self, upto: int | None) -> None:
        waiting, self._waiting = self._waiting, []
        for number, future in waiting:
            if upto is not None and number > upto:
                self._waiting.append((number, future))
            elif not future.done():
                future.set_result(None)


class ProgressBySequence:
    """The progress of sequences by identifier, of as many as are remembered."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._tails: OrderedDict[str, PublishingProgress] = OrderedDict()

    def of(self, identifier: str) -> PublishingProgress:
        """The progress of a sequence that exists."""
        tail = self._tails.pop(identifier, None) or PublishingProgress()
        self._tails[identifier] = tail
        if len(self._tails) > self._most:
            for name, oldest in self._tails.items():
                if not oldest.at_work and oldest is not tail:
                    del self._tails[name]
                    break
        return tail

    def known(self, identifier: str) -> PublishingProgress | None:
        """The progress of a sequence, where it is remembered."""
        return self._tails.get(identifier)

    def working(self) -> list["asyncio.Task[None]"]:
        """The tasks under way."""
        return [tail.work for tail in self._tails.values() if tail.work and not tail.work.done()]
