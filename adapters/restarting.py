"""An adapter that is made anew when it fails, so that one that raises ends no gateway.

            start                    deliveries raise, or end
    made ---------> runs ---------------------------------------> failed
                     ^                                              |
                     +--- made of the same URL, started anew <------+  after a pause that grows

What was not settled comes again, as after a restart of the gateway: that is what every adapter
promises. Meanwhile publications and new interests are refused with `AdapterUnavailable`.
"""

import asyncio
import random
import traceback
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import structlog

from adapters import (
    Adapter,
    AdapterState,
    AdapterUnavailable,
    Capabilities,
    Delivery,
    Interest,
    SharedAdapter,
)
from filters import Refused
from mediation import Notification

SHORTEST, LONGEST = 0.25, 30.0
"""Seconds before an adapter that failed is made anew: doubled each time, and somewhere between half
of it and all."""
STEADY = 5.0
"""Seconds for which it has to run to count as recovered."""
STARTING, CLOSING = 60.0, 5.0
"""Seconds that an adapter gets to start anew, and one that failed to let go of its system."""
MAX_TEXT = 200

_log = structlog.get_logger("dragoman.adapter")


class RestartingAdapter:
    """Whatever adapter *make* gives, one after the other; itself an `Adapter`.

    Args:
        make: Makes one, not started; it may raise.
        clean: Takes secrets out of a text for the log.
    """

    def __init__(self, make: Callable[[], Adapter], clean: Callable[[str], str] = str) -> None:
        self._make = make
        self._clean = clean
        self._adapter = make()
        self._interests: dict[Interest, None] = {}
        self._partitions: dict[int, None] = {}
        self._shares = False
        self._up = False
        self._closed = asyncio.Event()
        self._delay = SHORTEST
        self._failures = 0
        """Since it last ran for `STEADY` seconds."""
        self._state: AdapterState | None = None
        """Ours, since the first failure."""
        self._recovery: asyncio.TimerHandle | None = None

    @property
    def capabilities(self) -> Capabilities:
        return self._adapter.capabilities

    @property
    def state(self) -> AdapterState | None:
        """The adapter's own while it runs; None where it says none and has never failed."""
        if self._state is not None and not self._state.connected:
            return self._state
        state = getattr(self._adapter, "state", None)
        return state if isinstance(state, AdapterState) else self._state

    async def start(self, interests: Collection[Interest]) -> None:
        """As `Adapter.start`: one that cannot be started for the first time is refused."""
        self._interests = dict.fromkeys(interests)
        await self._adapter.start(interests)
        self._up = True

    async def publish(self, notifications: Sequence[Notification]) -> None:
        """As `Adapter.publish`, whatever the adapter raises."""
        adapter = self._running()
        try:
            await adapter.publish(notifications)
        except Refused:
            raise
        except Exception as exc:
            raise AdapterUnavailable(f"the adapter failed: {self._text(exc)}") from exc

    async def want(self, interest: Interest) -> None:
        adapter = self._running()
        try:
            await adapter.want(interest)
        except Refused:
            raise
        except Exception as exc:
            raise AdapterUnavailable(f"the adapter failed: {self._text(exc)}") from exc
        self._interests[interest] = None

    async def unwant(self, interest: Interest) -> None:
        self._interests.pop(interest, None)
        if self._up:
            await self._adapter.unwant(interest)

    def share(self) -> None:
        self._shares = True
        self._shared.share()

    async def adopt(self, interest: Interest) -> None:
        self._interests[interest] = None
        if self._up:
            await self._shared.adopt(interest)

    def take(self, partition: int) -> None:
        self._partitions[partition] = None
        if self._up:
            self._shared.take(partition)

    async def release(self, partition: int) -> None:
        self._partitions.pop(partition, None)
        if self._up:
            await self._shared.release(partition)

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """As `Adapter.deliveries`, of one adapter after the other; ends when it is closed."""
        while not self._closed.is_set():
            try:
                if not self._up:
                    await self._start_anew()
                async for delivery in self._adapter.deliveries():
                    yield delivery
                if self._closed.is_set():
                    return
                raise RuntimeError("its deliveries ended")
            except Exception as exc:
                await self._fail(exc)

    async def close(self) -> None:
        self._closed.set()
        self._up = False
        self._forget_recovery()
        await self._adapter.close()

    @property
    def _shared(self) -> SharedAdapter:
        return cast(SharedAdapter, self._adapter)

    def _running(self) -> Adapter:
        if not self._up and self._failures:
            raise AdapterUnavailable(
                "the adapter failed, and is started anew", retry_after=max(1.0, self._delay)
            )
        return self._adapter

    async def _fail(self, failure: Exception) -> None:
        """Say it, let go of the adapter, and wait."""
        self._up = False
        self._forget_recovery()
        text = self._text(failure)
        now = datetime.now(UTC)
        state = self._state or AdapterState(True, now)
        since = now if state.connected else state.since
        self._state = replace(
            state, connected=False, since=since, last_error=text, last_error_at=now
        )
        if not self._failures:
            _log.error("adapter.failed", reason=text, at=_place(failure))
        self._failures += 1
        try:
            async with asyncio.timeout(CLOSING):
                await self._adapter.close()
        except Exception as exc:
            _log.debug("adapter.not-closed", reason=self._text(exc))
        pause, self._delay = self._delay * random.uniform(0.5, 1.0), min(2 * self._delay, LONGEST)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._closed.wait()

    async def _start_anew(self) -> None:
        """Make and start another, with all that is wanted by now."""
        self._adapter = self._make()
        if self._shares:
            self._shared.share()
        started = tuple(self._interests)
        async with asyncio.timeout(STARTING):
            await self._adapter.start(started)
            await self._catch_up(started)
        for partition in self._partitions:
            self._shared.take(partition)
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
        """Ask for what was wanted, and let go of what no longer is, while it started."""
        known = dict.fromkeys(started)
        while known.keys() != self._interests.keys():
            for interest in [one for one in self._interests if one not in known]:
                await (self._shared.adopt if self._shares else self._adapter.want)(interest)
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

    def _text(self, failure: Exception) -> str:
        line = next(iter(str(failure).strip().splitlines()), "")
        name = type(failure).__name__
        return self._clean(f"{name}: {line}" if line else name)[:MAX_TEXT]


def _place(failure: Exception) -> str:
    """Where *failure* was raised: the innermost line of its traceback."""
    frames = traceback.extract_tb(failure.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
