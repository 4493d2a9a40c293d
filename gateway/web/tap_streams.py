"""Messages that pass, as Server-Sent Events to who watches.

    event     what it says
    --------  ------------------------------------------------------------------------------
    message   a message as JSON, half a second after it passed
    lost      what the watcher was not told, since it began; when that changes

Nothing that is shown is consumed, and nothing waits for who watches: what there is no room for is
dropped, and counted.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from filters import Filter, FilterSet, compile
from gateway.http import answer_without_end, until_gone
from gateway.observing.masking import HIDDEN, Mask
from gateway.observing.taps import PassingMessage, Taps, Watcher
from gateway.observing.traces import MessageTraces
from gateway.web.server_sent_events import (
    HEARTBEAT,
    Awaited,
    EventWriter,
    until_first,
    write_event,
)
from gateway.web.views.tap import TapLosses, tap_message, write_tap_message
from mediation.rendering import filter_event_of

TICK = 0.25
"""Seconds from one look at what passed to the next."""
OCTETS = 64 * 2**20
"""Bytes of payloads that one thread evaluates: libxml2 keeps the names that a thread parsed for as
long as that lives."""


class TapStream(Response):
    """A response without an end of its own.

    Args:
        filter: Says which messages are watched: topics at once, contents in a thread.
        sample: The share of the messages of these topics.
        payload: Whether payloads are shown.
        mask: Hides fields of these.
        tenant: Whose messages alone are watched; None: all.
        refused: Returns when who watches may no more.

    Raises:
        FilterError: *filter* cannot be evaluated.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        taps: Taps,
        traces: MessageTraces,
        draining: Callable[[], bool],
        filter: Filter,
        *,
        sample: float,
        payload: bool,
        mask: Mask,
        refused: Awaited,
        tenant: str | None = None,
    ) -> None:
        super().__init__()
        self._refused = refused
        self._taps = taps
        self._traces = traces
        self._draining = draining
        self._payload = payload
        self._mask = mask
        self._watcher = Watcher(
            compile(Filter(topics=filter.topics)).selects, sample=sample, tenant=tenant
        )
        compile(filter)
        self._contents = PayloadSelection(filter) if filter.contents else None
        self._told = TapLosses(passed_over=0, dropped=0, not_evaluated=0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = EventWriter(send)
        answer_without_end(scope)
        leaving = asyncio.ensure_future(until_first(partial(until_gone, receive), self._refused))
        try:
            with self._taps.watching(self._watcher):
                await writer.start()
                await self._pour(writer, leaving)
            await writer.end()
        finally:
            leaving.cancel()
            if self._contents is not None:
                self._contents.close()

    async def _pour(self, writer: EventWriter, leaving: "asyncio.Future[None]") -> None:
        loop = asyncio.get_running_loop()
        beat = loop.time() + HEARTBEAT
        while not self._draining():
            await asyncio.wait((leaving,), timeout=TICK)
            if leaving.done():
                return
            passed = self._watcher.take(time.time())
            if passed and self._contents is not None:
                passed = await self._contents.select(passed)
            payloads = await self._payloads(passed)
            written = b"".join(map(self._event, passed, payloads)) + self._losses()
            if written:
                await writer.write(written)
                beat = loop.time() + HEARTBEAT
            elif loop.time() >= beat:
                await writer.beat()
                beat = loop.time() + HEARTBEAT

    async def _payloads(self, passed: Sequence[PassingMessage]) -> Sequence[bytes | None]:
        """What is shown of the payloads of *passed*."""
        if not self._payload:
            return [None] * len(passed)
        payloads = [one.notification.payload for one in passed]
        if not (payloads and self._mask.names):
            return payloads
        hide = self._mask.document
        masked = await asyncio.to_thread(lambda: [hide(each) for each in payloads])
        return [HIDDEN.encode() if each is None else each for each in masked]

    def _event(self, passing: PassingMessage, payload: bytes | None) -> bytes:
        trace = self._traces.of(passing.notification)
        record = tap_message(passing, trace, payload=payload)
        return write_event(write_tap_message(record), event="message")

    def _losses(self) -> bytes:
        """What was not told, where that has changed."""
        losses = TapLosses(
            passed_over=self._watcher.passed_over,
            dropped=self._watcher.dropped,
            not_evaluated=self._contents.not_evaluated if self._contents is not None else 0,
        )
        if losses == self._told:
            return b""
        self._told = losses
        return write_event(losses.model_dump_json(), event="lost")


class PayloadSelection:
    """Selects messages by a filter, in a thread that is replaced when it has met much.

    Attributes:
        not_evaluated: Messages on which the filter costs too much to be evaluated here.
    """

    def __init__(self, filter: Filter) -> None:
        self._filter = filter
        self.not_evaluated = 0
        self._begin()

    def _begin(self) -> None:
        self._thread = ThreadPoolExecutor(1, "tap")
        self._filters: FilterSet[str] | None = None
        self._octets = 0

    async def select(self, passed: Sequence[PassingMessage]) -> list[PassingMessage]:
        """Those of *passed* that the filter takes."""
        self._octets += sum(one.notification.octets for one in passed)
        if self._octets > OCTETS:
            self.close()
            self._begin()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._select, passed)

    def _select(self, passed: Sequence[PassingMessage]) -> list[PassingMessage]:
        if self._filters is None:
            self._filters = FilterSet()
            self._filters.add("", self._filter)
        selected = []
        for one in passed:
            matching = self._filters.begin(filter_event_of(one.notification))
            self.not_evaluated += bool(matching.deferred)
            if matching.keys:
                selected.append(one)
        return selected

    def close(self) -> None:
        """End the thread, when it has done what it was asked for."""
        self._thread.shutdown(wait=False)
