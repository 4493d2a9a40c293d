"""The channels of the gateway with names: those of the settings, and those that operators make."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import structlog

from filters import Reason, Refused, quoted
from gateway.channels.channel_filters import Evaluate, Selector
from gateway.model.channels import CHANNEL_PROPERTY, Channel, Selection
from gateway.observing.samples import Sample, counters, gauge
from gateway.parsing import Parsing
from gateway.publishing.operations import Select
from gateway.security.quotas import QuotaExceeded
from gateway.store import Store, StoreUnavailable
from gateway.store import channels as rows
from mediation.model.messages import Notification

MOST = 1000
FRESH = 2.0
"""Seconds for which channels are believed to be as they were, where other gateways make some."""
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_log = structlog.get_logger("dragoman.channels")


class ChannelUnknown(Refused):
    """There is no such channel."""

    def __init__(self, name: str) -> None:
        super().__init__(Reason.SOURCE_UNKNOWN, f"There is no channel {quoted(name)} here.")


class ChannelTaken(Refused):
    """It cannot be changed so: it is there already, or the settings have it."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(Reason.NOT_ALLOWED, f"The channel {quoted(name)} {why}.")


@dataclass(slots=True)
class _Open:
    channel: Channel
    selector: Selector


class Channels:
    """All channels with names.

    Args:
        evaluate: Evaluates what of a filter is dear.
        shared: Whether other gateways use the store.

    Raises:
        Refused: A channel of the settings has no filter that can be used.
    """

    def __init__(
        self,
        store: Store,
        parsing: Parsing,
        evaluate: Evaluate,
        configured: Iterable[Channel] = (),
        *,
        shared: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._parsing, self._evaluate = parsing, evaluate
        self._shared, self._clock = shared, clock
        self._read_at = -FRESH
        self._open: dict[str, _Open] = {}
        for channel in configured:
            try:
                self._enter(channel)
            except Refused as refused:
                text = f"channels: {channel.name}: {refused.text}"
                raise Refused(refused.reason, text) from refused
        self.outcomes = {"passed": 0, "dropped": 0}

    async def start(self) -> None:
        """Load the channels of the store.

        Raises:
            StoreUnavailable: It cannot be read.
        """
        self._read(await self._store.submit(rows.load))

    @property
    def channels(self) -> list[Channel]:
        """All channels, in the order of their names."""
        return [self._open[name].channel for name in sorted(self._open)]

    def is_known(self, name: str) -> bool:
        """Whether there is a channel of this name, as far as is known."""
        return name in self._open

    async def named(self, name: str) -> Channel:
        """The channel of this name.

        Raises:
            ChannelUnknown: There is none.
        """
        await self._refresh()
        found = self._open.get(name)
        if found is None:
            raise ChannelUnknown(name)
        return found.channel

    async def learn(self) -> list[Channel]:
        """All channels, with those of other gateways."""
        await self._refresh()
        return self.channels

    # What operators do.

    async def add(self, name: str, selection: Selection) -> Channel:
        """Make a channel; it is in the store on return.

        Raises:
            Refused: It has no name or filter that can be used, or is there already.
            QuotaExceeded: There are too many.
        """
        if not NAME.fullmatch(name):
            text = f"{quoted(name)} is not a channel name: 1 to 64 of a-z, 0-9 and . _ -"
            raise Refused(Reason.MESSAGE_INVALID, text)
        await self._refresh()
        if name in self._open:
            raise ChannelTaken(name, "is there already")
        if not await self._put(Channel(name, selection), new=True):
            raise QuotaExceeded(Reason.QUOTA, "There are too many channels.")
        _log.info("channel.added", channel=name)
        return self._open[name].channel

    async def change(self, name: str, selection: Selection) -> Channel:
        """Have a channel take something else from now on.

        Raises:
            Refused: There is none, it is one of the settings, or the filter cannot be used.
        """
        self._check_own(await self.named(name))
        if not await self._put(Channel(name, selection), new=False):
            raise ChannelUnknown(name)
        _log.info("channel.changed", channel=name)
        return self._open[name].channel

    async def check_own(self, name: str) -> None:
        """Check that a channel may be changed.

        Raises:
            Refused: There is none, or it is one of the settings.
        """
        self._check_own(await self.named(name))

    async def remove(self, name: str) -> None:
        """Delete a channel.

        Raises:
            Refused: There is none, or it is one of the settings.
        """
        self._check_own(await self.named(name))
        there = await self._store.submit(partial(rows.delete, name=name))
        self._open.pop(name, None)
        if not there:
            raise ChannelUnknown(name)
        _log.info("channel.removed", channel=name)

    def _check_own(self, channel: Channel) -> None:
        if channel.configured:
            raise ChannelTaken(channel.name, "is one of the settings: change it there")

    async def _put(self, channel: Channel, *, new: bool) -> bool:
        opened = self._opened(channel)
        if not await self._store.submit(partial(rows.put, channel=channel, new=new, most=MOST)):
            return False
        self._open[channel.name] = opened
        return True

    # What comes.

    async def selecting(self, name: str, *, stranger: str | None) -> Select:
        """What makes of notifications those that are published at a channel.

        Args:
            stranger: Who publishes, to whom the time of a dear filter is charged; None for a
                trusted peer.

        Raises:
            ChannelUnknown: There is none.
        """
        channel = await self.named(name)
        return partial(self.select, channel.name, stranger=stranger)

    async def select(
        self, name: str, notifications: tuple[Notification, ...], *, stranger: str | None
    ) -> tuple[Notification, ...]:
        """Those of *notifications* that pass the filter of a channel, as what is published at it.
        What repeats another is one of the same channel.

        Raises:
            Refused: There is no such channel; too much waits for its filter.
        """
        found = self._open.get(name)
        if found is None:
            raise ChannelUnknown(name)
        passing = await found.selector.passing(notifications, stranger=stranger)
        self.outcomes["passed"] += len(passing)
        self.outcomes["dropped"] += len(notifications) - len(passing)
        return tuple(
            replace(
                one,
                source=f"{one.source}#{name}",
                properties={**one.properties, CHANNEL_PROPERTY: name},
            )
            for one in passing
        )

    # The store.

    async def _refresh(self) -> None:
        """Learn what other gateways have changed, from time to time."""
        now = self._clock()
        if not self._shared or now - self._read_at < FRESH:
            return
        self._read_at = now
        try:
            self._read(await self._store.submit(rows.load))
        except StoreUnavailable:
            _log.warning("channels.not-read")

    def _read(self, stored: Iterable[Channel]) -> None:
        """Know *stored* as the channels of the store: where the settings have one of a name, that
        counts."""
        there = {channel.name: channel for channel in stored}
        for name, known in list(self._open.items()):
            if not known.channel.configured and name not in there:
                del self._open[name]
        for name, channel in there.items():
            had = self._open.get(name)
            if had is None or not (had.channel.configured or had.channel == channel):
                try:
                    self._enter(channel)
                except Refused as refused:  # A dialect that is not installed any more.
                    _log.error("channel.unusable", channel=name, why=refused.text)

    def _enter(self, channel: Channel) -> None:
        self._open[channel.name] = self._opened(channel)

    def _opened(self, channel: Channel) -> _Open:
        key = f"channel {channel.name}"
        return _Open(channel, Selector(key, channel.selection, self._parsing, self._evaluate))

    def metrics(self) -> Iterator[Sample]:
        """The number of channels, and what became of events that came to them."""
        yield gauge("channels", "Channels with names.", len(self._open))
        yield counters("channel_events", "Events that came to channels.", "outcome", self.outcomes)
