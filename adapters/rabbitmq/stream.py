"""pika's connection, with a short way for what every message costs.

    octets ──┬─ whole deliveries, acks, nacks ──> who consumes, who publishes
             └─ all other frames ───────────────> pika ──> who consumes, who publishes

    messages, acknowledgements ──┬─> one write for each turn of the event loop
    pika's frames ───────────────┘

Each frame is handed on before the next one is looked at, so the two ways never change the order.
What the short way has no words for (`adapters.rabbitmq.frames`) goes pika's way, and arrives all
the same. Acknowledgements may wait a moment for others: one frame for sixteen messages, and sixteen
messages in answer, cost both sides less than one for one.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pika.adapters.asyncio_connection import AsyncioConnection
from pika.exceptions import InvalidFrameError

from adapters.prefetch import HELD
from adapters.rabbitmq.frames import (
    ACK,
    AROUND,
    DELIVER,
    FRAME_END,
    METHOD,
    NACK,
    START,
    Properties,
    read_answer,
    read_content,
    read_delivery,
)
from adapters.rabbitmq.transport import LoopServices

Answered = Callable[[int, bool, bool], None]
"""Takes the tag that the broker answered for, whether all up to it, and whether it refused."""
Arrived = Callable[[int, bool, str, str, Properties, bytes], None]
"""Takes delivery tag, whether it was delivered before, exchange, routing key, properties, body."""


class ShortWay(Protocol):
    """A channel that can be reached past pika."""

    number: int
    answered: Answered | None

    @property
    def is_open(self) -> bool: ...

    def has_consumer(self, consumer: bytes) -> bool:
        """Whether there is one of that consumer tag."""

    def deliver(
        self,
        consumer: bytes,
        tag: int,
        redelivered: bool,
        exchange: str,
        key: str,
        properties: Properties,
        body: bytes,
    ) -> None:
        """A message has come for *consumer*."""

    def flush(self) -> None:
        """Write what was put off."""


class Stream(AsyncioConnection):  # type: ignore[misc]  # pika has no types
    """A connection of pika's that runs in the event loop.

    pika gives its transport each frame by itself, and takes one apart through six layers. Past it
    a message of 1 KiB is published and confirmed in 20 us of processor time, and consumed and
    acknowledged in 30; through it that took 55 each.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._gathered: list[bytes] = []
        self._scheduled = False
        """`_emit` is about to be called."""
        self._late: list[ShortWay] = []
        self._timer: Any = None
        """Ends the wait of those."""
        self._rest = b""
        """Octets of what has not come whole, and was not handed on."""
        self.short_ways: dict[int, ShortWay] = {}
        """By channel."""
        super().__init__(*arguments, custom_ioloop=LoopServices(), **options)

    @property
    def largest_body(self) -> int:
        """Octets of a body that one frame carries."""
        return int(self._body_max_length)

    # ---------------------------------------------------------------------------------------- out

    def send(self, pieces: Iterable[bytes]) -> None:
        """Send whole frames in this turn."""
        self._gathered += pieces
        if not self._scheduled:
            self._schedule()

    def flush_later(self, channel: ShortWay) -> None:
        """Call its `flush` with the next write, or within `HELD`."""
        self._late.append(channel)
        if self._timer is None:
            self._timer = self.ioloop.call_later(HELD, self._on_timer)

    def flush_soon(self) -> None:
        """Flush those that wait at the end of this turn."""
        if not self._scheduled:
            self._schedule()

    def _on_timer(self) -> None:
        self._timer = None
        if self._late:
            self._emit()

    def flush(self) -> None:
        """Have all channels write what they put off: before what may close them."""
        late, self._late = self._late, []
        for channel in late:
            channel.flush()

    def _adapter_emit_data(self, data: bytes) -> None:
        self.send((data,))

    def _schedule(self) -> None:
        self._scheduled = True
        self.ioloop.call_soon(self._emit)

    def _emit(self) -> None:
        self.flush()
        self._scheduled = False
        gathered, self._gathered = self._gathered, []
        if gathered and self._transport is not None:
            self._transport.write(b"".join(gathered))

    def _adapter_disconnect_stream(self) -> None:
        self._emit()
        super()._adapter_disconnect_stream()

    def pause_writing(self) -> None:
        """The transport says that much waits to be sent: who publishes bounds it."""

    def resume_writing(self) -> None:
        """The transport says that it has sent most of it."""

    # ----------------------------------------------------------------------------------------- in

    def _init_connection_state(self) -> None:
        self._rest = b""
        super()._init_connection_state()

    def _on_data_available(self, data_in: bytes) -> None:
        if self._frame_buffer or not (self._rest or self.short_ways):
            super()._on_data_available(data_in)
            return
        data = self._rest + data_in if self._rest else data_in
        self._rest = b""
        at = 0
        while at + START.size <= len(data):
            kind, number, size = START.unpack_from(data, at)
            if size > self._body_max_length:
                raise InvalidFrameError(f"a frame of {size} octets")
            end = at + AROUND + size
            if end > len(data):
                break
            if kind == METHOD and (channel := self.short_ways.get(number)) is not None:
                behind = self._take(channel, data, at, end)
                if behind is None:
                    break
                if behind:
                    self.bytes_received += behind - at
                    at = behind
                    continue
            # By itself: pika copies what is behind a frame once more for each.
            super()._on_data_available(data[at:end])
            at = end
        self._rest = data[at:]

    def _take(self, channel: ShortWay, data: bytes, at: int, end: int) -> int | None:
        """Hand on the message or the answer whose method frame lies between *at* and *end*.

        Returns:
            Where what was handed on ends; 0 where that is pika's to read; None: it has not come
            whole.
        """
        method = data[at + START.size : at + START.size + 4]
        if data[end - 1] != FRAME_END or not channel.is_open:
            return 0
        if method == DELIVER:
            delivery = read_delivery(data, at, end - 1)
            if delivery is None or not channel.has_consumer(delivery[0]):
                return 0
            content = read_content(data, end, channel.number, self._body_max_length)
            if content is None:
                return 0
            if isinstance(content, int):
                return None
            properties, body, end = content
            channel.deliver(*delivery, properties, body)
            return end
        if method in (ACK, NACK) and channel.answered is not None:
            answer = read_answer(data, at, end - at - AROUND)
            if answer is not None:
                channel.answered(*answer, method == NACK)
                return end
        return 0
