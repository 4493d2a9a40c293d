"""Base of the tests of an adapter."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.drills.inbox import Inbox
from adapters.protocol import (
    Adapter,
    AdapterState,
    AdapterUnavailable,
    Interest,
)
from filters import Expression, Step, Topic
from filters.dialects import TOPIC_FULL
from mediation.model.messages import Notification

RETRY = 0.05
"""Seconds between two attempts, if a publication is refused for a while."""
TOO_SOON = 0.2
"""Seconds for which nothing may come that should not: time enough to do it wrong."""


class AdapterTrials:
    """Describes the system under test, and makes what its tests need."""

    durable = False
    """True if published messages come again after a restart until they are settled."""

    topics_in_order = True
    """True if messages keep their order across topics. False if a system of several partitions
    keeps only that of each topic."""

    deadline = 10.0
    """Seconds that a test waits for one message."""

    outage = 30.0
    """Seconds within which an adapter refuses what it cannot publish during an outage, and within
    which it is back after one."""

    namespace: str
    """The namespace of this test's topics."""

    def make_adapter(self, data: Path) -> Adapter:
        """Make an adapter that is not started. With the same *data* it is the same system again."""
        raise NotImplementedError

    async def interrupt(self) -> None:
        """Make the system unreachable to the adapters that run: cut their connections, and refuse
        new ones. Override it together with `resume`, for a system that can go away; without both,
        the tests of outages are skipped."""
        raise NotImplementedError

    async def resume(self) -> None:
        """Make the system reachable again. Called at the end of each test that interrupted it."""
        raise NotImplementedError

    def unacceptable(self) -> Sequence[Notification]:
        """Make messages that the system will never take, one of each kind: too large, on a topic
        that nobody may publish to. Override it for a system that refuses any; else the tests of
        refusals are skipped."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _own_namespace(self) -> None:
        self.namespace = f"urn:dragoman:contract:{uuid.uuid4()}"

    @pytest.fixture
    def data(self, tmp_path: Path) -> Iterator[Path]:
        """Give the folder that the adapters of one test may write to."""
        yield tmp_path / "data"

    @asynccontextmanager
    async def running(self, data: Path, *interests: Interest) -> AsyncIterator[Adapter]:
        """Run an adapter, started with *interests* and closed at the end."""
        adapter = self.make_adapter(data)
        await adapter.start(interests)
        try:
            yield adapter
        finally:
            await adapter.close()

    def inbox(self, adapter: Adapter) -> Inbox:
        return Inbox(adapter, self.deadline)

    def topic(self, path: str) -> Topic:
        """Make the topic with the names of *path* in this test's namespace."""
        root, *children = path.split("/")
        return Topic((Step(self.namespace, root), *(Step(None, name) for name in children)))

    def interest(self, path: str) -> Interest:
        """Make an interest in the Full dialect: ``storm``, ``storm//.``, ``storm/*``."""
        return Interest(Expression(f"t:{path}", TOPIC_FULL, (("t", self.namespace),)))

    def notification(self, path: str = "storm", payload: str = "<storm>9</storm>") -> Notification:
        """Make a message on a topic, with an id of its own."""
        return Notification(
            id=f"urn:uuid:{uuid.uuid4()}",
            source="http://publisher.example/",
            payload=payload.encode(),
            time=datetime.now(UTC),
            topic=self.topic(path),
        )

    def notifications(self, count: int, path: str = "storm") -> list[Notification]:
        return [self.notification(path, f"<storm>{n}</storm>") for n in range(count)]

    def assert_yielded(self, yielded: list[str], expected: list[str]) -> None:
        """Check the ids of messages on several topics, and their order if topics keep it."""
        if not self.topics_in_order:
            yielded, expected = sorted(yielded), sorted(expected)
        assert yielded == expected

    @asynccontextmanager
    async def interrupted(self) -> AsyncIterator[None]:
        """Make the system unreachable within the block."""
        await self.interrupt()
        try:
            yield
        finally:
            await self.resume()

    def state(self, adapter: Adapter) -> AdapterState | None:
        """Return the state that *adapter* reports, None if it does not report any."""
        reporting = adapter.capabilities.reporting
        return None if reporting is None else reporting()

    async def published(self, adapter: Adapter, notification: Notification) -> None:
        """Publish until confirmed, as a publisher does that is refused for a while."""
        async with asyncio.timeout(self.outage):
            while True:
                try:
                    await adapter.publish([notification])
                except AdapterUnavailable:
                    await asyncio.sleep(RETRY)
                else:
                    return

    async def connection(
        self, adapter: Adapter, *, up: bool, says: bool = False
    ) -> AdapterState | None:
        """Wait until *adapter* reports that it is connected (*up*) or not. None if it reports
        nothing, unless it *says* so sooner or later."""
        async with asyncio.timeout(self.outage):
            while True:
                state = self.state(adapter)
                if state.connected == up if state is not None else not says:
                    return state
                await asyncio.sleep(RETRY)

    async def assert_bounded(self, adapter: Adapter, inbox: Inbox) -> None:
        """Check that no more than the prefetch is unsettled, and that settling makes room."""
        window = adapter.capabilities.prefetch
        sent = self.notifications(window + 1)
        for start in range(0, len(sent), 200):
            await adapter.publish(sent[start : start + 200])
        taken = await inbox.take(window, settle=False)
        more = asyncio.create_task(inbox.next())
        await asyncio.wait([more], timeout=TOO_SOON)
        assert not more.done(), f"{window + 1} messages are unsettled"
        taken[window // 2].settle()
        last = await more
        assert last.notification == sent[window]
        for delivery in (last, *taken):
            delivery.settle()

    def needs_outages(self) -> None:
        """Skip the test where the suite cannot make the system unreachable."""
        kind, base = type(self), AdapterTrials
        if kind.interrupt is base.interrupt or kind.resume is base.resume:
            pytest.skip("the suite has no interrupt() and resume(): outages are not tried")

    def needs_refusals(self) -> Sequence[Notification]:
        """Return what the system will never take. Skip the test where the suite names nothing."""
        if type(self).unacceptable is AdapterTrials.unacceptable:
            pytest.skip("the suite has no unacceptable(): refusals are not tried")
        return self.unacceptable()

    def needs_durability(self) -> None:
        """Skip the test where the system forgets."""
        if not self.durable:
            pytest.skip("the system is not durable")
