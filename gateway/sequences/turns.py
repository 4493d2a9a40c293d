"""`Turns`: publish the next messages of sequences, for as long as there are some."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import structlog

from filters import Reason, Refused
from gateway.reliability.party import Party
from gateway.reliability.records import InvokerMessage
from gateway.reliability.steps import Step, begin
from gateway.reliability.storage import StorageManager
from gateway.security.keys import public_id
from gateway.sequences import register
from gateway.sequences.contents import read_content
from gateway.sequences.delivering import LEASE, Progress, Turn, lease, published
from gateway.sequences.progress import ProgressBySequence, PublishingProgress
from gateway.sequences.storage import run_in
from gateway.store import Store, StoreUnavailable
from mediation.model.messages import Notification

AT_WORK = 256
"""Sequences that are published at a time, of those that workers find: what comes meanwhile is
published as it comes."""
_log = structlog.get_logger("dragoman.sequences")
_PASSING = frozenset({Reason.UNAVAILABLE, Reason.RATE, Reason.INTERNAL})


def passes(reason: Reason) -> bool:
    """Return whether messages that were refused for *reason* may be taken when they come again."""
    return reason in _PASSING


class Turns:
    """Publishes the next messages of sequences.

    Args:
        publish: Publishes events; they are durable when it returns.
        woken: Set when a worker has to look what is due.
        lease_seconds: For which what is next is this gateway's.
        at_work: The number of sequences being published above which workers look for no more.

    Attributes:
        messages: The numbers of messages in sequences, by outcome.
    """

    def __init__(
        self,
        store: Store,
        publish: Callable[[Sequence[Notification]], Awaitable[None]],
        make_party: Callable[[StorageManager], Party],
        woken: asyncio.Event,
        lease_seconds: float = LEASE,
        at_work: int = AT_WORK,
    ) -> None:
        self._store = store
        self._lease_seconds = lease_seconds
        self._publish_all = publish
        self._make_party = make_party
        self._woken = woken
        self.tails = ProgressBySequence()
        self._at_work = at_work
        self._tasks: set[asyncio.Task[None]] = set()
        self.messages = dict.fromkeys(("published", "empty", "repeated", "dropped", "refused"), 0)

    def start(self, tail: PublishingProgress, turn: Turn) -> None:
        """Publish *turn*. Where its messages are being published already, for a lease that has run
        out, that goes on with this one: no two do the same."""
        tail.turn = turn
        if not tail.at_work:
            tail.work = asyncio.create_task(self._deliver(tail))
            self._tasks.add(tail.work)
            tail.work.add_done_callback(self._done)

    @property
    def has_place(self) -> bool:
        """Return whether workers may start more."""
        return len(self._tasks) < self._at_work

    def _done(self, task: "asyncio.Task[None]") -> None:
        if not self.has_place:
            self._woken.set()  # A sequence that found no place is due.
        self._tasks.discard(task)

    async def settle(self, identifier: str, seconds: float) -> None:
        """Publish what can be published now; what takes more than *seconds*, or comes meanwhile
        without end, is not waited for."""
        turn = await self.lease(identifier)
        tail = self.tails.known(identifier)
        if turn is not None:
            tail = self.tails.of(identifier)
            self.start(tail, turn)
        if tail is not None and tail.work is not None:
            await asyncio.wait({tail.work}, timeout=seconds)

    async def lease(self, identifier: str) -> Turn | None:
        def work(storage: StorageManager) -> Turn | None:
            with begin(self._make_party(storage), time.time()) as step:
                return self.lease_in(step, identifier)

        return await run_in(self._store, work, identifier)

    def lease_in(self, step: Step, identifier: str) -> Turn | None:
        """Lease the next messages, as a part of *step*."""
        return lease(step, identifier, self._lease_seconds)

    async def _deliver(self, tail: PublishingProgress) -> None:
        """Publish the leased messages, then the next ones, for as long as there are some."""
        try:
            turn = tail.next_turn()
            while turn is not None:
                count = await self._publish(tail, turn)
                newer = tail.next_turn()
                if newer is None:  # Else the lease ran out, and all is noted for that one.
                    progress, another = await self._note(turn, count)
                    tail.advance(progress)
                    newer = tail.next_turn() or another
                turn = newer
        except StoreUnavailable:
            self._woken.set()  # Published or not, it is leased still: it is looked at after that.
        except Exception:
            _log.exception("sequence.internal-error")
            self._woken.set()
        finally:
            tail.rest()

    async def _note(self, turn: Turn, count: int) -> tuple[Progress, Turn | None]:
        """Note that *count* messages of *turn* are published, and lease the next ones."""

        def work(storage: StorageManager) -> tuple[Progress, Turn | None]:
            with begin(self._make_party(storage), time.time()) as step:
                progress = published(step, turn, count)
                register.grow(step.tx.connection, turn.identifier, -progress.octets)
                another: Turn | None = None
                if count == len(turn.messages):
                    another = self.lease_in(step, turn.identifier)
                return progress, another

        return await run_in(self._store, work, turn.identifier)

    async def _publish(self, tail: PublishingProgress, turn: Turn) -> int:
        """Publish the messages of *turn*; how many of them need not be published any more."""
        waiting = [message for message in turn.messages if message.number > tail.published]
        if waiting and self._is_late(turn):
            return len(turn.messages) - len(waiting)
        try:
            await self._publish_messages(tail, waiting)
        except Refused as refused:
            if not passes(refused.reason):
                return await self._publish_each(tail, turn, waiting)
            self._failed(turn, refused)
            return len(turn.messages) - len(waiting)
        return len(turn.messages)

    async def _publish_each(
        self, tail: PublishingProgress, turn: Turn, waiting: Sequence[InvokerMessage]
    ) -> int:
        """Publish each message by itself, and leave out the one that is refused for good."""
        done = len(turn.messages) - len(waiting)
        for message in waiting:
            if self._is_late(turn):
                return done
            try:
                await self._publish_messages(tail, [message])
            except Refused as refused:
                if passes(refused.reason):
                    self._failed(turn, refused)
                    return done
                self.messages["refused"] += 1
                _log.warning(
                    "sequence.message-refused",
                    sequence=public_id(turn.identifier),
                    number=message.number,
                    reason=refused.reason.value,
                    text=str(refused)[:500],
                )
                tail.published = max(tail.published, message.number)
            done += 1
        return done

    async def _publish_messages(
        self, tail: PublishingProgress, messages: Sequence[InvokerMessage]
    ) -> None:
        events = [each for message in messages for each in read_content(message.envelope)]
        if events:
            await self._publish_all(events)
        for message in messages:
            self.messages["published" if message.envelope else "empty"] += 1
            tail.published = max(tail.published, message.number)

    def _is_late(self, turn: Turn) -> bool:
        """Return whether so little is left of the lease that another gateway could publish the
        same."""
        late = time.time() > turn.publish_until
        if late:
            self._woken.set()
        return late

    def _failed(self, turn: Turn, refused: Refused) -> None:
        sequence = public_id(turn.identifier)
        self._woken.set()
        _log.warning("sequence.not-published", sequence=sequence, text=str(refused)[:500])
