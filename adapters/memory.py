"""``memory:``, a messaging system inside the process, for trials and tests. It is not durable.

It is also the shortest complete example of the adapter protocol: a queue, a window of unsettled
messages, and the ids that publishers used lately.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Self

from adapters.interests import Interests
from adapters.options import Options
from adapters.protocol import (
    AdapterUnavailable,
    Capabilities,
    Interest,
    Isolated,
    PublicationRefused,
    Refusal,
)
from mediation.model.messages import Notification

PREFETCH = 256
MAX_MESSAGES = 50_000
MAX_OCTETS = 64 * 2**20
"""Bytes of the payloads and attachments that may wait or be unsettled; more is refused."""

REMEMBERED = 600.0
"""Seconds for which a publisher's id is remembered."""
MAX_REMEMBERED = 100_000


class MemoryDelivery:
    """A message that was taken from the queue."""

    __slots__ = ("_adapter", "_notification", "_settled")

    partition = 0
    redelivered = False

    def __init__(self, adapter: "MemoryAdapter", notification: Notification) -> None:
        self._adapter = adapter
        self._notification = notification
        self._settled = False

    @property
    def notification(self) -> Notification:
        return self._notification

    def settle(self) -> None:
        if not self._settled:
            self._settled = True
            self._adapter._settle(self._notification)


class MemoryAdapter:
    """The adapter of ``memory:``. Setting ``prefetch``: how many messages may be unsettled."""

    def __init__(self, *, prefetch: int = PREFETCH) -> None:
        self.capabilities = Capabilities(durable=False, prefetch=prefetch)
        self._interests = Interests()
        self._queue: deque[Notification] = deque()
        self._unsettled = 0
        self._octets = 0
        self._ids: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._changed = asyncio.Event()
        self._open = False

    @classmethod
    def from_url(cls, url: str, *, data: Path, settings: Mapping[str, str]) -> Self:
        options = Options(url, settings)
        prefetch = options.number("prefetch", PREFETCH, least=1, most=100_000)
        options.finish()
        return cls(prefetch=prefetch)

    @classmethod
    def isolate(
        cls, url: str, settings: Mapping[str, str], *, name: str, through: int | None = None
    ) -> Isolated:
        return Isolated(url, settings)

    async def remove(self) -> Collection[str]:
        return ()

    async def start(self, interests: Collection[Interest]) -> None:
        self._interests.replace(interests)
        self._open = True

    async def publish(self, notifications: Sequence[Notification]) -> None:
        if not self._open:
            raise AdapterUnavailable("the messaging system is closed")
        too_large = [one for one in notifications if one.octets > MAX_OCTETS]
        if too_large:
            await self.publish([one for one in notifications if one.octets <= MAX_OCTETS])
            words = f"it is larger than the memory for messages, {MAX_OCTETS} bytes"
            raise PublicationRefused([Refusal(one, words) for one in too_large])
        octets = sum(notification.octets for notification in notifications)
        if (
            len(self._queue) + self._unsettled + len(notifications) > MAX_MESSAGES
            or self._octets + octets > MAX_OCTETS
        ):
            raise AdapterUnavailable("too many messages wait in memory")
        for notification in notifications:
            if not self._repeats(notification) and self._interests.cover(notification.topic):
                self._queue.append(notification)
                self._octets += notification.octets
        self._changed.set()

    async def want(self, interest: Interest) -> None:
        self._interests.add(interest)

    async def unwant(self, interest: Interest) -> None:
        self._interests.discard(interest)

    async def deliveries(self) -> AsyncIterator[MemoryDelivery]:
        while self._open:
            if self._queue and self._unsettled < self.capabilities.prefetch:
                self._unsettled += 1
                yield MemoryDelivery(self, self._queue.popleft())
            else:
                self._changed.clear()
                await self._changed.wait()

    async def close(self) -> None:
        self._open = False
        self._changed.set()

    def _settle(self, notification: Notification) -> None:
        self._unsettled -= 1
        self._octets -= notification.octets
        self._changed.set()

    def _repeats(self, notification: Notification) -> bool:
        """Return True if this publisher used the id lately, and remember the id."""
        now = time.monotonic()
        ids = self._ids
        while ids and (len(ids) >= MAX_REMEMBERED or next(iter(ids.values())) < now - REMEMBERED):
            ids.popitem(last=False)
        identity = (notification.source, notification.id)
        if identity in ids:
            return True
        ids[identity] = now
        return False
