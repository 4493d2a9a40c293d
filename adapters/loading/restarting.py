"""An adapter that is made anew when it fails, so that one that raises ends no gateway.

            start                    deliveries raise, or end
    made ---------> runs ---------------------------------------> failed
                     ^                                              |
                     +--- made of the same URL, started anew <------+  after a pause that grows

Unsettled messages come again, as after a restart of the gateway: every adapter promises that.
Meanwhile publications and new interests are refused with `AdapterUnavailable`.

    it raises in             that leads to
    publish, want, unwant    AdapterUnavailable: whoever asks knows what to do then
    adopt, take, release     it is made anew: what it did not do is known here, and nobody else asks
    close                    a line in the log
    what tells something     an answer that does no harm
"""

import asyncio
import random
import traceback
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Self

import structlog

from adapters.loading.entry_points import load, without_password
from adapters.protocol import (
    Adapter,
    AdapterFailed,
    AdapterState,
    AdapterUnavailable,
    Capabilities,
    Delivery,
    Interest,
    Sharing,
)
from filters import Refused
from mediation.model.messages import Notification

SHORTEST, LONGEST = 0.25, 30.0
"""Seconds before an adapter that failed is made anew: doubled each time, and somewhere between half
of it and all."""
STEADY = 5.0
"""Seconds for which it has to run to count as recovered."""
STARTING, CLOSING = 60.0, 5.0
"""Seconds that an adapter gets to start anew, and to let go of its system, or of a partition."""
MAX_TEXT = 200
AT_ONCE = (Exception, asyncio.CancelledError)
"""What an adapter raises in a call that does not wait: nobody can have cancelled that, so a
CancelledError is of a future that the adapter looked at."""

_log = structlog.get_logger("dragoman.adapter")


class RestartingAdapter:
    """An `Adapter` that is the adapters that *make* returns, one after the other.

    Args:
        make: Makes an adapter, not started; it may raise.
        clean: Takes secrets out of a text for the log.
    """

    def __init__(self, make: Callable[[], Adapter], clean: Callable[[str], str] = str) -> None:
        self._make = make
        self._clean = clean
        self._adapter = make()
        self._inner = self._adapter.capabilities
        """The capabilities of the adapter that runs; kept because ours are asked for with every
        message."""
        self.capabilities = self._own_capabilities()
        self._interests: dict[Interest, None] = {}
        self._partitions: dict[int, None] = {}
        self._shares = False
        self._up = False
        self._closed = asyncio.Event()
        self._delay = SHORTEST
        self._failures = 0
        """Failures since it last ran for `STEADY` seconds."""
        self._state: AdapterState | None = None
        """Our own state, None before the first failure."""
        self._recovery: asyncio.TimerHandle | None = None
        self._yields = False
        """Somebody takes what it yields, and would notice that it ends."""
        self._given_up: tuple[str, str, asyncio.Task[None]] | None = None
        """Why the adapter that runs is to be made anew, where it raised, and what closes it."""

    @property
    def state(self) -> AdapterState | None:
        """The adapter's own state while it runs; None if it reports none and has never failed."""
        if self._state is not None and not self._state.connected:
            return self._state
        state = None
        if self._inner.reporting is not None:
            with suppress(*AT_ONCE):
                state = self._inner.reporting()
        return state or self._state

    @classmethod
    def from_url(cls, url: str, *, data: Path, settings: Mapping[str, str]) -> Self:
        """Wrap the adapter that `load` makes of the same arguments.

        Raises:
            AdapterError: As `load`.
        """
        make = partial(load, url, data=data, settings=settings)
        return cls(make, partial(without_password, url=url))

    async def start(self, interests: Collection[Interest]) -> None:
        """As `Adapter.start`: one that cannot be started for the first time is refused."""
        self._interests = dict.fromkeys(interests)
        await self._adapter.start(interests)
        self._up = True

    async def publish(self, notifications: Sequence[Notification]) -> None:
        """As `Adapter.publish`, whatever the adapter raises."""
        adapter = self._running()
        with self._raising(AdapterFailed):
            await adapter.publish(notifications)

    async def want(self, interest: Interest) -> None:
        adapter = self._running()
        with self._raising(AdapterUnavailable):
            await adapter.want(interest)
        self._interests[interest] = None

    async def unwant(self, interest: Interest) -> None:
        self._interests.pop(interest, None)
        if self._up:
            with self._raising(AdapterUnavailable):
                await self._adapter.unwant(interest)

    def share(self) -> None:
        self._shares = True
        self._sharing.share()
        self._learn_capabilities()  # A system may have fewer powers while it is shared.

    async def adopt(self, interest: Interest) -> None:
        self._interests[interest] = None
        if self._up:
            with self._giving_up():
                await self._sharing.adopt(interest)

    def take(self, partition: int) -> None:
        self._partitions[partition] = None
        if self._up:
            with self._giving_up():
                self._sharing.take(partition)

    async def release(self, partition: int) -> None:
        self._partitions.pop(partition, None)
        if self._up:
            with self._giving_up():
                async with asyncio.timeout(CLOSING):
                    await self._sharing.release(partition)

    def arrived(self, delivery: Delivery) -> float:
        """As `Sharing.arrived`; now, where that cannot be told: then all is learnt that other
        gateways have subscribed to until now."""
        try:
            return self._sharing.arrived(delivery)
        except AT_ONCE:
            return asyncio.get_running_loop().time()

    def refusal_of(self, notification: Notification) -> str | None:
        """As `RefusalMemory.refusal_of`; what cannot be told is found out by publishing."""
        refusals = self._inner.refusals
        try:
            return None if refusals is None else refusals.refusal_of(notification)
        except AT_ONCE:
            return None

    def forget(self, notification: Notification) -> None:
        if self._inner.refusals is not None:
            with suppress(*AT_ONCE):
                self._inner.refusals.forget(notification)

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """As `Adapter.deliveries`, of one adapter after the other; ends when it is closed."""
        while not self._closed.is_set():
            try:
                if not self._up:
                    await self._start_anew()
                self._yields = True
                async for delivery in self._adapter.deliveries():
                    yield delivery
                if self._closed.is_set():
                    return
                raise RuntimeError("its deliveries ended")
            except BaseException as exc:
                if _is_ours(exc):
                    raise
                await self._fail(exc)
            finally:
                self._yields = False

    async def close(self) -> None:
        """As `Adapter.close`, within `CLOSING` seconds, whatever the adapter does: the gateway has
        more to close."""
        self._closed.set()
        self._up = False
        self._forget_recovery()
        if self._given_up is not None:
            await self._given_up[-1]
        if reason := await self._close_adapter():
            _log.error("adapter.not-closed-at-the-end", reason=reason)

    @property
    def _sharing(self) -> Sharing:
        if self._inner.sharing is None:
            raise AdapterUnavailable("the adapter cannot be shared by several gateways")
        return self._inner.sharing

    def _learn_capabilities(self) -> None:
        self._inner = self._adapter.capabilities
        self.capabilities = self._own_capabilities()

    def _own_capabilities(self) -> Capabilities:
        """Return the adapter's capabilities with the powers that pass through here."""
        inner = self._inner
        return replace(
            inner,
            reporting=lambda: self.state,
            sharing=None if inner.sharing is None else self,
            refusals=None if inner.refusals is None else self,
        )

    @contextmanager
    def _raising(self, error: type[AdapterUnavailable]) -> Iterator[None]:
        """Turn what the adapter raises, and no adapter may, into *error*."""
        try:
            yield
        except Refused:
            raise
        except BaseException as exc:
            if _is_ours(exc):
                raise
            raise error(f"the adapter failed: {self._text(exc)}") from exc

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Have the adapter made anew where it raises, with what it was told here.

        Closed, it yields nothing more, so that `deliveries` goes on with another one. Where nobody
        takes what it yields, the gateway stops: then it is closed soon, and until then what has
        been delivered is settled through it.
        """
        try:
            yield
        except BaseException as exc:
            if _is_ours(exc):
                raise
            if not self._up:
                return  # It failed meanwhile, or is closed.
            if not self._yields:
                _log.error("adapter.failed", reason=self._text(exc), at=_place(exc))
                return
            self._up = False
            closing = asyncio.get_running_loop().create_task(self._let_go())
            self._given_up = self._text(exc), _place(exc), closing

    async def _let_go(self) -> None:
        """Close an adapter that failed."""
        if reason := await self._close_adapter():
            _log.debug("adapter.not-closed", reason=reason)

    async def _close_adapter(self) -> str:
        """Close the adapter; why it could not be closed, "" where it was.

        In a task of its own: one that raises, hangs, or swallows a cancellation holds up nobody.
        """
        adapter = self._adapter

        async def close() -> None:
            await adapter.close()

        closing = asyncio.get_running_loop().create_task(close())
        closing.add_done_callback(_note_failure)
        try:
            await asyncio.wait((closing,), timeout=CLOSING)
        finally:
            closing.cancel()  # That does nothing where it has ended.
        if not closing.done():
            return f"it took longer than {CLOSING:g} seconds"
        error = asyncio.CancelledError() if closing.cancelled() else closing.exception()
        return "" if error is None else self._text(error)

    def _running(self) -> Adapter:
        if not self._up and (self._failures or self._given_up is not None):
            raise AdapterUnavailable(
                "the adapter failed, and is started anew", retry_after=max(1.0, self._delay)
            )
        return self._adapter

    async def _fail(self, failure: BaseException) -> None:
        """Log *failure*, close the adapter, and wait before the next attempt."""
        self._up = False
        self._forget_recovery()
        text, place, closing = self._text(failure), _place(failure), None
        if self._given_up is not None:  # Its deliveries ended because of that.
            text, place, closing = self._given_up
        now = datetime.now(UTC)
        state = self._state or AdapterState(True, now)
        since = now if state.connected else state.since
        self._state = replace(
            state, connected=False, since=since, last_error=text, last_error_at=now
        )
        if not self._failures:
            _log.error("adapter.failed", reason=text, at=place)
        self._failures += 1
        await (closing or self._let_go())
        self._given_up = None
        pause, self._delay = self._delay * random.uniform(0.5, 1.0), min(2 * self._delay, LONGEST)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._closed.wait()

    async def _start_anew(self) -> None:
        """Make and start another adapter, with all that is wanted by now."""
        self._adapter = self._make()
        self._learn_capabilities()
        if self._shares:
            self._sharing.share()
            self._learn_capabilities()
        started = tuple(self._interests)
        async with asyncio.timeout(STARTING):
            await self._adapter.start(started)
            await self._catch_up(started)
        for partition in self._partitions:
            self._sharing.take(partition)
        self._up = True
        if self._state is not None:
            self._state = replace(
                self._state,
                connected=True,
                since=datetime.now(UTC),
                reconnects=self._state.reconnects + 1,
            )
        self._recovery = asyncio.get_running_loop().call_later(STEADY, self._recovered)

    async def _catch_up(self, started: tuple[Interest, ...]) -> None:
        """Want and unwant what has changed since *started*, while the adapter started."""
        known = dict.fromkeys(started)
        while known.keys() != self._interests.keys():
            for interest in [one for one in self._interests if one not in known]:
                await (self._sharing.adopt if self._shares else self._adapter.want)(interest)
                known[interest] = None
            for interest in [one for one in known if one not in self._interests]:
                await self._adapter.unwant(interest)
                del known[interest]

    def _recovered(self) -> None:
        self._recovery = None
        _log.info("adapter.recovered", failures=self._failures)
        self._failures, self._delay = 0, SHORTEST

    def _forget_recovery(self) -> None:
        if self._recovery is not None:
            self._recovery.cancel()
            self._recovery = None

    def _text(self, failure: BaseException) -> str:
        line = next(iter(str(failure).strip().splitlines()), "")
        name = type(failure).__name__
        return self._clean(f"{name}: {line}" if line else name)[:MAX_TEXT]


def _is_ours(error: BaseException) -> bool:
    """Whether *error* is no failure of an adapter: the running task is cancelled, or the process
    ends. An adapter that waits for a task or future of its own, which was cancelled, raises
    CancelledError, too, though nobody has cancelled who called it."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return not isinstance(error, Exception)


def _note_failure(closing: asyncio.Task[None]) -> None:
    if not closing.cancelled():
        closing.exception()  # Else asyncio would say that nobody asked for it.


def _place(failure: BaseException) -> str:
    """Return where *failure* was raised: the innermost line of its traceback."""
    frames = traceback.extract_tb(failure.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
