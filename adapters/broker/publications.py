"""Publications on their way to a broker: what waits, what is in flight, what is not taken.

    add --> waiting --take--> in flight --confirmed--> done
              ^                   |
              |                   +-- refused, in the broker's words: its publisher is told
              |                   |
              +---- suspects <----+-- the connection fell

A broker refuses some messages by ending the channel or the connection, and does not say which of
those in flight it means. So all that were in flight are suspects, and go again in windows that
shrink by `SHRINK` with each fall, and grow with each confirmation, until the one that the
connection falls over is alone. What has felled it twice, the last time alone, is refused, where the
broker's words say that it means the message, or it has confirmed others since; else it may be the
broker that is failing, and the publisher is told to come again. Nobody else waits longer than that.
"""

import asyncio
import logging
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from adapters.broker.confirms import Deadlines, Publication
from adapters.broker.refusals import Lesson, Refusals
from adapters.protocol import AdapterUnavailable, PublicationRefused, Refusal
from mediation.model.messages import Notification

SHRINK = 8
"""How many times smaller the window is after each fall."""
PROMPT = 10.0
"""Seconds after it was sent, within which a message counts as the cause of a fall."""
SUSPECTS = 1000
"""Messages whose falls are remembered after their publishers were told to come again."""
RECOVERY = 3.0
"""Seconds for which publishers wait for another connection, after one fell."""
LOST = "the connection to the broker was lost"

logger = logging.getLogger(__name__)


class Outgoing:
    """One message on its way. ``destinations`` are the names by which it may be forbidden, the
    widest first; ``octets`` the bytes that count against the broker's limit."""

    __slots__ = (
        "batch", "destinations", "doubt", "falls", "notification", "octets", "sent", "suspected",
    )  # fmt: skip

    def __init__(
        self, notification: Notification, destinations: tuple[str, ...], octets: int
    ) -> None:
        self.notification = notification
        self.destinations = destinations
        self.octets = octets
        self.batch: _Batch
        self.doubt = ""
        """Why the broker does not have it although it answers, such as no queue for it."""
        self.falls = 0
        """How many connections fell while it was in flight."""
        self.suspected = 0.0
        """When the first of them fell, by the event loop's clock."""
        self.sent = 0.0

    @property
    def identity(self) -> tuple[str, str]:
        return self.notification.source, self.notification.id


@dataclass(frozen=True, slots=True)
class Fall:
    """The end of a channel or a connection through which messages were in flight.

    ``by_message``: the broker ended it, so that a message may be the reason. ``said``: its *words*
    say that one is.
    """

    words: str
    by_message: bool = False
    said: bool = False


class _Batch(Publication):
    """The wait of one publisher for all of its messages."""

    __slots__ = ("failure", "refusals", "remaining")

    def __init__(self, remaining: int, deadline: float) -> None:
        super().__init__(deadline)
        self.remaining = remaining
        self.failure = ""
        self.refusals: list[Refusal] = []

    def one_ended(self, retry_after: float) -> None:
        """Note the end of one message; with the last one the wait ends."""
        self.remaining -= 1
        if self.remaining:
            return
        if self.failure:
            self.refuse(self.failure, retry_after)
        elif self.refusals:
            self.fail(PublicationRefused(self.refusals))
        else:
            self.confirm()


OutgoingT = TypeVar("OutgoingT", bound=Outgoing)


class Publications(Generic[OutgoingT]):
    """The messages that are not confirmed, in their order.

    Args:
        adapter: Its name in the log.
        retry_after: Seconds until there may be a connection again.
        teaches: What the words of a refusal say about other messages.
        messages: The most that may wait and be in flight, and their *octets*; more is refused.
        seconds: That the broker gets to confirm a publication.
        stalled: Seconds after which the publisher of one that it did not confirm may come again.
    """

    def __init__(
        self,
        adapter: str,
        *,
        retry_after: Callable[[], float],
        teaches: Callable[[OutgoingT, str], Lesson] = lambda _message, _words: Lesson(),
        messages: int = 2000,
        octets: int = 64 * 2**20,
        seconds: float = 15.0,
        stalled: float = 1.0,
    ) -> None:
        self._adapter = adapter
        self._most = messages
        self._most_octets = octets
        self._seconds = seconds
        self._retry_after = retry_after
        self._teaches = teaches
        self.known = Refusals()
        self.waiting: deque[OutgoingT] = deque()
        self.flying: dict[OutgoingT, None] = {}
        self._octets = 0
        self._window: float = math.inf
        self._suspects = 0
        """How many of those that wait or are in flight have felled a connection."""
        self._former: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()
        """The falls of messages whose publishers were told to come again."""
        self._confirmed = -math.inf
        """When the broker last confirmed something."""
        self._named = False
        """True if it has refused a message by name on this connection, and may end it for that."""
        self._in_doubt = False
        """True if it has confirmed nothing since it fell over a message again and again."""
        self._recovering: asyncio.TimerHandle | None = None
        self._batches: dict[_Batch, None] = {}
        self._deadlines = Deadlines(lambda: self._batches, retry_after=stalled)

    def add(self, messages: Sequence[OutgoingT]) -> asyncio.Future[None]:
        """Add the messages of one publisher. Returns a future that is done when the broker has
        confirmed them all, or raises `AdapterUnavailable` or `PublicationRefused`.

        Raises:
            AdapterUnavailable: There is no room for them.
        """
        octets = sum(message.octets for message in messages)
        count = len(self.waiting) + len(self.flying)
        if count and (
            count + len(messages) > self._most or self._octets + octets > self._most_octets
        ):
            raise AdapterUnavailable("too many messages wait for the broker")
        batch = _Batch(len(messages), asyncio.get_running_loop().time() + self._seconds)
        for message in messages:
            message.batch = batch
            if self._former and (former := self._former.get(message.identity)):
                message.falls, message.suspected = former
                self._suspects += 1
        if self._suspects and math.isinf(self._window):
            self._shrink(self._suspects)
        self.waiting.extend(messages)
        self._octets += octets
        self._batches[batch] = None
        self._deadlines.watch(batch)
        return batch.done

    def take(self, messages: int = 500, octets: int = 4 * 2**20) -> list[OutgoingT]:
        """Take what may be sent now, at most so many *messages* and, beyond the first, so many
        *octets*. It counts as sent."""
        taken: list[OutgoingT] = []
        now = asyncio.get_running_loop().time()
        while self.waiting and len(taken) < messages and self._has_place():
            message = self.waiting[0]
            octets -= message.octets
            if taken and octets < 0:
                break
            self.waiting.popleft()
            if message.batch.done.done():
                self._end(message)  # Its publisher has gone, or was told to come again.
            elif self.known and (words := self._words_for(message)):
                self._tell(message, words)
            else:
                message.sent = now
                self.flying[message] = None
                taken.append(message)
        return taken

    def confirmed(self, message: OutgoingT) -> None:
        """The broker has *message*."""
        if message.doubt:
            self.failed(message, message.doubt)
            return
        self._confirmed = asyncio.get_running_loop().time()
        self._in_doubt = False
        self._window += 1
        if message.falls:
            self._former.pop(message.identity, None)
        self._end(message)

    def failed(self, message: OutgoingT, why: str) -> None:
        """The broker does not have *message*, and may take it later."""
        message.batch.failure = why
        self._end(message)

    def refused(self, message: OutgoingT, words: str) -> None:
        """The broker will never take *message*, in its *words*."""
        self.known.learn(self._teaches(message, words), words, message.identity)
        logger.warning(
            "adapter.publication_refused",
            extra={
                "adapter": self._adapter,
                "id": message.notification.id[:200],
                "destination": message.destinations[-1][:200],
                "octets": message.octets,
                "reason": words,
            },
        )
        self._tell(message, words)

    def declined(self, message: OutgoingT, words: str, *, said: bool) -> None:
        """The broker refused *message* by name; where nothing is *said* of whether for good, as in
        `fell`."""
        self._named = True
        self._suspect(message)
        if not self._convict(message, words, said=said, times=1 if said else 2):
            self._remember(message)
            self.failed(message, f"the broker refused a message: {words}")

    def put_back(self) -> None:
        """Send again what is in flight: the broker let go of it, for no fault of its own."""
        self.waiting.extendleft(reversed(self.flying))
        self.flying.clear()

    def fell(self, fall: Fall) -> bool:
        """Note that the connection, or the channel, has ended. Returns True if another one is to be
        opened at once: messages wait for it. Else all publishers are told to come again."""
        flying = list(self.flying)
        if self._named and fall.by_message:
            self.put_back()
            self._await_connection()
            return True
        prompt = asyncio.get_running_loop().time() - PROMPT
        by_message = fall.by_message and any(one.sent >= prompt for one in flying)
        if self._in_doubt or not by_message:
            self.give_up()
            return False
        self._shrink(len(flying))
        for message in flying:
            self._suspect(message)
        if len(flying) > 1 or flying[0].falls == 1:
            self.put_back()
        elif not self._convict(flying[0], fall.words, said=fall.said, times=2):
            self._in_doubt = True
            self._remember(flying[0])
            self.failed(flying[0], LOST)
        self._await_connection()
        return True

    @property
    def recovering(self) -> bool:
        """True while another connection is opened because one fell: publishers may wait for it."""
        return self._recovering is not None

    def recovered(self) -> None:
        """Note that there is a connection."""
        self._named = False
        if self._recovering is not None:
            self._recovering.cancel()
            self._recovering = None

    def give_up(self, why: str = LOST) -> None:
        """Tell all publishers to come again."""
        self.recovered()
        for message in (*self.flying, *self.waiting):
            if message.falls:
                self._remember(message)
            message.batch.refuse(why, self._retry_after())
        self.flying.clear()
        self.waiting.clear()
        self._batches.clear()
        self._octets = self._suspects = 0
        self._window = math.inf
        self._deadlines.close()

    def refuse_all(self, why: str, retry_after: float) -> None:
        """Tell all publishers to come again; what is in flight may still be confirmed."""
        for batch in self._batches:
            batch.refuse(why, retry_after)

    def refusal_of(self, message: OutgoingT) -> str | None:
        """Return the words with which the like of *message* was refused lately, None if nothing is
        known against it."""
        return self._words_for(message) or None

    def forget(self, message: OutgoingT) -> None:
        """Forget what is known against *message*."""
        self.known.forget(message.identity, message.destinations, message.octets)
        self._former.pop(message.identity, None)

    def _has_place(self) -> bool:
        return len(self.flying) < self._window

    def _shrink(self, count: int) -> None:
        self._window = max(1, min(self._window, count) // SHRINK)

    def _suspect(self, message: OutgoingT) -> None:
        if not message.falls:
            self._suspects += 1
            message.suspected = asyncio.get_running_loop().time()
        message.falls += 1

    def _convict(self, message: OutgoingT, words: str, *, said: bool, times: int) -> bool:
        """Refuse *message*, if it is known to be the one that the broker does not take."""
        if message.falls < times or not (said or self._confirmed > message.suspected):
            return False
        self._former.pop(message.identity, None)
        self.refused(message, words)
        return True

    def _remember(self, message: OutgoingT) -> None:
        self._former[message.identity] = message.falls, message.suspected
        self._former.move_to_end(message.identity)
        if len(self._former) > SUSPECTS:
            self._former.popitem(last=False)

    def _await_connection(self) -> None:
        if self._recovering is None:
            loop = asyncio.get_running_loop()
            self._recovering = loop.call_later(RECOVERY, self.give_up)

    def _words_for(self, message: OutgoingT) -> str:
        return self.known.words_for(message.identity, message.destinations, message.octets)

    def _tell(self, message: OutgoingT, words: str) -> None:
        message.batch.refusals.append(Refusal(message.notification, words))
        self._end(message)

    def _end(self, message: OutgoingT) -> None:
        """Let go of *message*, whatever became of it."""
        self.flying.pop(message, None)
        self._octets -= message.octets
        if message.falls:
            self._suspects -= 1
        if not self._suspects:
            self._window = math.inf
        message.batch.one_ended(self._retry_after())
        if not message.batch.remaining:
            self._batches.pop(message.batch, None)
