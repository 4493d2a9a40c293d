"""The contract of an adapter, as tests for pytest."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.compatibility import capabilities_of
from adapters.protocol import (
    API_VERSION,
    EVERYTHING_WANTED,
    Adapter,
    AdapterState,
    AdapterUnavailable,
    Capabilities,
    Interest,
)
from adapters.testing.inbox import Inbox
from filters import Expression, Refused, Step, Topic
from filters.dialects import TOPIC_FULL
from mediation import Attachment, EndpointReference, Notification, Wsa

QUICK = 2.0
"""Seconds within which an adapter closes."""
RETRY = 0.05
"""Seconds between two attempts, if a publication is refused for a while."""
TOO_SOON = 0.2
"""Seconds for which nothing may come that should not: time enough to do it wrong."""


class AdapterContract:
    """The tests of any adapter. Override `make_adapter`, and say what the system is like."""

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

    @pytest.fixture(autouse=True)
    def _own_namespace(self) -> None:
        self.namespace = f"urn:dragoman:contract:{uuid.uuid4()}"

    @pytest.fixture
    def data(self, tmp_path: Path) -> Iterator[Path]:
        """Give the folder that the adapters of one test may write to."""
        yield tmp_path / "data"

    # ------------------------------------------------------------------- what tests are made of

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
        reporting = capabilities_of(adapter).reporting
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

    # ------------------------------------------------------------------------------- messages

    async def test_it_says_what_it_is(self, data: Path) -> None:
        capabilities = self.make_adapter(data).capabilities
        assert isinstance(capabilities, Capabilities)
        assert capabilities.api_version == API_VERSION
        assert capabilities.durable == self.durable
        assert capabilities.partitions >= 1
        assert self.topics_in_order or capabilities.partitions > 1
        assert capabilities.prefetch >= 1

    async def test_it_says_that_it_is_connected(self, data: Path) -> None:
        """Checked only if it reports its state, which it need not."""
        async with self.running(data) as adapter:
            state = self.state(adapter)
            assert state is None or state.connected

    async def test_a_message_arrives_as_it_was_published(self, data: Path) -> None:
        sent = replace(
            self.notification("storm/sea", '<w:storm xmlns:w="urn:w">9</w:storm>'),
            action="urn:weather:Storm",
            producer=EndpointReference(
                "http://station.example/",
                Wsa.V2004_08,
                properties=(b'<p xmlns="urn:p">\xe2\x82\xac</p>',),
                parameters=(b'<q xmlns="urn:q" a="&quot;"/>',),
                metadata=(b'<m xmlns="urn:m"/>',),
            ),
            expires=datetime(2099, 1, 1, tzinfo=UTC),
            properties={"severity": "9", "wind speed": "30 m/s"},
            headers=(b'<h xmlns="urn:h">a: b\r\n</h>',),
            attachments=(Attachment("map@station.example", "image/png", bytes(range(256))),),
        )
        async with self.running(data, self.interest("storm//.")) as adapter:
            await adapter.publish([sent])
            (delivery,) = await self.inbox(adapter).take(1)
            assert delivery.notification == sent
            assert 0 <= delivery.partition < adapter.capabilities.partitions
            assert not delivery.redelivered

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("Sturm über Ærø", id="latin"),
            pytest.param("台风 \U0001f300", id="beyond 16 bits"),
            pytest.param("a\\b\nc:d\te", id="escapes"),
        ],
    )
    async def test_any_text_arrives(self, data: Path, text: str) -> None:
        sent = replace(
            self.notification("Ærø", f"<a>{text}</a>"),
            action=f"urn:weather:{text}",
            properties={"text": text},
        )
        async with self.running(data, self.interest("Ærø")) as adapter:
            await adapter.publish([sent])
            (delivery,) = await self.inbox(adapter).take(1)
            assert delivery.notification == sent

    async def test_a_large_message_arrives(self, data: Path) -> None:
        sent = self.notification(payload=f"<a>{'x' * 2**20}</a>")
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish([sent])
            (delivery,) = await self.inbox(adapter).take(1)
            assert delivery.notification == sent

    async def test_a_message_without_topic_arrives_where_everything_is_wanted(
        self, data: Path
    ) -> None:
        sent = replace(self.notification(), topic=None)
        async with self.running(data, EVERYTHING_WANTED) as adapter:
            await adapter.publish([sent])
            inbox = self.inbox(adapter)
            while (delivery := await inbox.next()).notification != sent:
                delivery.settle()  # what others sent to the same broker
            delivery.settle()

    async def test_publishing_nothing_does_nothing(self, data: Path) -> None:
        async with self.running(data) as adapter:
            await adapter.publish([])

    # ------------------------------------------------------------------------------ interests

    async def test_only_what_is_wanted_is_yielded(self, data: Path) -> None:
        wanted, other, last = map(self.notification, ("storm", "calm", "storm"))
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish([other, wanted, other, last])
            assert await self.inbox(adapter).until(last.id) == [wanted.id]

    async def test_wildcards(self, data: Path) -> None:
        wanted = ("storm/sea", "storm/sea/north", "storm/land")
        sent = {path: self.notification(path) for path in ("storm", *wanted, "calm/sea")}
        last = [self.notification(path) for path in (*wanted, "end")]
        interests = (self.interest("storm/*"), self.interest("*/*/north"), self.interest("end"))
        async with self.running(data, *interests) as adapter:
            await adapter.publish([*sent.values(), *last])
            yielded = await self.inbox(adapter).until(*(end.id for end in last))
            self.assert_yielded(yielded, [sent[path].id for path in wanted])

    @pytest.mark.parametrize(
        ("wanted", "other"),
        [
            pytest.param("storm/sea", "storm.sea", id="a dot in a name"),
            pytest.param("storm.sea", "storm/sea", id="dots between names"),
            pytest.param("storm_x002E_sea", "storm.sea", id="what looks like an escape"),
            pytest.param("Storm", "storm", id="case"),
            pytest.param("storm/sea", "storm", id="a parent"),
            pytest.param("storm", "storm/sea", id="a child"),
            pytest.param("嵐", "岚", id="other scripts"),
            pytest.param("/".join(["storm"] * 60), "/".join(["storm"] * 61), id="long"),
            pytest.param("s" * 300, "s" * 299 + "t", id="a long name"),
        ],
    )
    async def test_topics_are_told_apart(self, data: Path, wanted: str, other: str) -> None:
        sent, last = self.notification(wanted), self.notification(wanted)
        async with self.running(data, self.interest(wanted)) as adapter:
            await adapter.publish([self.notification(other), sent, last])
            assert await self.inbox(adapter).until(last.id) == [sent.id]

    async def test_a_step_in_a_namespace_of_its_own(self, data: Path) -> None:
        root, sea = self.topic("storm").steps[0], Step("urn:sea", "sea")
        sent, last = (
            replace(self.notification(), topic=Topic((root, sea, Step(None, "north"))))
            for _ in range(2)
        )
        scope = (("t", self.namespace), ("s", "urn:sea"))
        interest = Interest(Expression("t:storm/s:sea//.", TOPIC_FULL, scope))
        async with self.running(data, interest) as adapter:
            await adapter.publish([self.notification("storm/sea/north"), sent, last])
            assert await self.inbox(adapter).until(last.id) == [sent.id]

    async def test_descendants(self, data: Path) -> None:
        wanted = ("storm", "storm/sea", "storm/sea/north", "calm/sea/north", "calm/a/b/c/north")
        other = ("rain", "rain/storm", "calm", "calm/north/sea", "north")
        interests = (self.interest("storm//."), self.interest("calm//north"))
        sent = [
            self.notification(path) for pair in zip(wanted, other, strict=True) for path in pair
        ]
        last = [self.notification(path) for path in wanted]
        async with self.running(data, *interests) as adapter:
            await adapter.publish([*sent, *last])
            yielded = await self.inbox(adapter).until(*(end.id for end in last))
            self.assert_yielded(yielded, [notification.id for notification in sent[::2]])

    async def test_many_interests(self, data: Path) -> None:
        paths = [f"storm/n{number}" for number in range(200)]
        sent = [self.notification(path) for path in (*paths, "storm/calm")]
        last = [self.notification(path) for path in paths]
        async with self.running(data, *map(self.interest, paths[:150])) as adapter:
            async with asyncio.TaskGroup() as group:
                for path in paths[150:]:
                    group.create_task(adapter.want(self.interest(path)))
            inbox = self.inbox(adapter)
            await adapter.publish([*sent, *last])
            yielded = await inbox.until(*(end.id for end in last))
            self.assert_yielded(yielded, [notification.id for notification in sent[:-1]])

    async def test_overlapping_interests_yield_once(self, data: Path) -> None:
        interests = ("storm", "storm//.", "*", "storm|calm")
        paths = ("storm", "storm/sea", "calm")
        sent, last = (list(map(self.notification, paths)) for _ in range(2))
        async with self.running(data, *map(self.interest, interests)) as adapter:
            await adapter.publish([*sent, *last])
            yielded = await self.inbox(adapter).until(*(end.id for end in last))
            self.assert_yielded(yielded, [notification.id for notification in sent])

    async def test_what_is_wanted_is_wanted_on_return(self, data: Path) -> None:
        async with self.running(data) as adapter:
            inbox = self.inbox(adapter)
            for path in ("storm", "calm", "rain/sea"):
                await adapter.want(self.interest(path))
                sent = self.notification(path)
                await adapter.publish([sent])
                assert (await inbox.take(1))[0].notification == sent

    async def test_wanting_twice_is_wanting_once(self, data: Path) -> None:
        first, last = self.notifications(2)
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.want(self.interest("storm"))
            await adapter.publish([first, last])
            assert await self.inbox(adapter).until(last.id) == [first.id]

    async def test_other_interests_stay_when_one_goes(self, data: Path) -> None:
        storm, calm = self.notification("storm"), self.notification("calm")
        async with self.running(data, self.interest("storm"), self.interest("*")) as adapter:
            await adapter.unwant(self.interest("storm"))
            await adapter.unwant(self.interest("never"))
            last = self.notification("storm")
            await adapter.publish([storm, calm, last])
            assert await self.inbox(adapter).until(calm.id, last.id) == [storm.id]

    async def test_what_is_not_wanted_any_more_stops(self, data: Path) -> None:
        async with self.running(data, self.interest("storm"), self.interest("calm")) as adapter:
            inbox = self.inbox(adapter)
            await adapter.unwant(self.interest("storm"))
            async with asyncio.timeout(self.deadline):  # unwant may lag.
                while True:
                    storm, calm = self.notification("storm"), self.notification("calm")
                    await adapter.publish([storm, calm])
                    if await inbox.until(calm.id) == []:
                        break
                    await asyncio.sleep(0.01)

    async def test_an_interest_that_nobody_can_evaluate_is_refused(self, data: Path) -> None:
        async with self.running(data) as adapter:
            with pytest.raises(Refused):
                await adapter.want(Interest(Expression("x", "urn:dragoman:no-such-dialect")))

    # ---------------------------------------------------------------------------------- order

    async def test_messages_keep_their_order(self, data: Path) -> None:
        sent = self.notifications(300)
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(sent[:100])
            for notification in sent[100:200]:
                await adapter.publish([notification])
            await adapter.publish(sent[200:])
            taken = await self.inbox(adapter).take(len(sent))
            assert [delivery.notification.id for delivery in taken] == [n.id for n in sent]

    async def test_each_topic_keeps_its_order(self, data: Path) -> None:
        paths = [f"storm/n{number}" for number in range(8)]
        sent = [self.notification(path) for _ in range(20) for path in paths]
        async with self.running(data, self.interest("storm/*")) as adapter:
            await adapter.publish(sent[:100])
            await adapter.publish(sent[100:])
            taken = await self.inbox(adapter).take(len(sent))
            ids = [delivery.notification.id for delivery in taken]
            self.assert_yielded(ids, [notification.id for notification in sent])
            for path in paths:
                own = [one.id for one in sent if one.topic == self.topic(path)]
                assert [id for id in ids if id in own] == own

    async def test_publishers_do_not_disturb_each_other(self, data: Path) -> None:
        sent = [self.notifications(20) for _ in range(16)]

        async def publish(adapter: Adapter, notifications: Sequence[Notification]) -> None:
            for notification in notifications:
                await adapter.publish([notification])

        async with self.running(data, self.interest("storm")) as adapter:
            async with asyncio.TaskGroup() as group:
                for notifications in sent:
                    group.create_task(publish(adapter, notifications))
                taking = group.create_task(self.inbox(adapter).take(16 * 20))
            ids = [delivery.notification.id for delivery in taking.result()]
            for notifications in sent:
                own = {notification.id for notification in notifications}
                assert [id for id in ids if id in own] == [n.id for n in notifications]

    async def test_a_publisher_that_gives_up_disturbs_nobody(self, data: Path) -> None:
        given_up, last = self.notifications(2)
        async with self.running(data, self.interest("storm")) as adapter:
            task = asyncio.create_task(adapter.publish([given_up]))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await adapter.publish([last])
            assert await self.inbox(adapter).until(last.id) in ([], [given_up.id])

    # ----------------------------------------------------------------------------- settlement

    async def test_no_more_than_the_prefetch_is_unsettled(self, data: Path) -> None:
        async with self.running(data, self.interest("storm")) as adapter:
            await self.assert_bounded(adapter, self.inbox(adapter))

    async def test_what_is_unsettled_comes_once(self, data: Path) -> None:
        async with self.running(data, self.interest("storm")) as adapter:
            count = min(adapter.capabilities.prefetch - 1, 10)
            sent, last = self.notifications(count), self.notification()
            inbox = self.inbox(adapter)
            await adapter.publish(sent)
            await inbox.take(count, settle=False)
            await adapter.want(self.interest("calm"))
            await adapter.publish([last])
            assert (await inbox.next()).notification == last

    async def test_settling_in_any_order_and_twice(self, data: Path) -> None:
        async with self.running(data, self.interest("storm")) as adapter:
            window = adapter.capabilities.prefetch
            inbox = self.inbox(adapter)
            for _ in range(2):
                count = min(window, 20)
                sent = self.notifications(count)
                await adapter.publish(sent)
                taken = await inbox.take(count, settle=False)
                assert [delivery.notification for delivery in taken] == sent
                for delivery in [*reversed(taken), *taken]:
                    delivery.settle()
            await self.assert_bounded(adapter, inbox)

    async def test_what_is_settled_does_not_come_again(self, data: Path) -> None:
        self._needs_durability()
        sent = self.notifications(20)
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(sent)
            await self.inbox(adapter).take(20)
        async with self.running(data, self.interest("storm")) as adapter:
            last = self.notification()
            await adapter.publish([last])
            assert await self.inbox(adapter).until(last.id) == []

    async def test_what_is_not_settled_comes_again_in_order(self, data: Path) -> None:
        self._needs_durability()
        sent = self.notifications(20)
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(sent)
            for n, delivery in enumerate(await self.inbox(adapter).take(10, settle=False)):
                if n % 2:
                    delivery.settle()
        async with self.running(data, self.interest("storm")) as adapter:
            last = self.notification()
            await adapter.publish([last])
            again = await self.inbox(adapter).take(16)
            assert [delivery.notification for delivery in again] == [
                *sent[:10:2],
                *sent[10:],
                last,
            ]
            assert all(delivery.redelivered for delivery in again[:5])
            assert not again[-1].redelivered

    async def test_what_was_published_before_a_restart_arrives_after_it(self, data: Path) -> None:
        self._needs_durability()
        first, *others = self.notifications(200)
        map_ = Attachment("cid:map@station.example", "image/png", bytes(range(256)))
        sent = [replace(first, attachments=(map_,)), *others]
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(sent)
        async with self.running(data, self.interest("storm")) as adapter:
            taken = await self.inbox(adapter).take(200)
            assert [delivery.notification for delivery in taken] == sent

    async def test_interests_of_an_earlier_run_are_gone(self, data: Path) -> None:
        async with self.running(data, self.interest("storm"), self.interest("calm")):
            pass
        async with self.running(data, self.interest("storm")) as adapter:
            calm, last = self.notification("calm"), self.notification("storm")
            await adapter.publish([calm, last])
            assert await self.inbox(adapter).until(last.id) == []

    async def test_what_only_an_earlier_run_wanted_is_not_yielded(self, data: Path) -> None:
        async with self.running(data, self.interest("storm"), self.interest("calm")) as adapter:
            await adapter.publish([self.notification("calm"), self.notification("calm")])
            await self.inbox(adapter).take(1, settle=False)
        async with self.running(data, self.interest("storm")) as adapter:
            last = self.notification("storm")
            await adapter.publish([last])
            assert await self.inbox(adapter).until(last.id) == []

    # --------------------------------------------------------------------------------- outages

    async def test_nothing_is_published_during_an_outage(self, data: Path) -> None:
        """A publisher is told, soon, that it has to try again; nobody is left waiting."""
        self._needs_outages()
        async with self.running(data, self.interest("storm")) as adapter, self.interrupted():
            await self.connection(adapter, up=False)
            async with asyncio.timeout(self.outage):
                with pytest.raises(AdapterUnavailable) as refused:
                    await adapter.publish(self.notifications(1))
            assert refused.value.retry_after > 0

    async def test_it_says_that_it_is_not_connected(self, data: Path) -> None:
        """Checked only if it reports its state: not connected, and why."""
        self._needs_outages()
        async with self.running(data) as adapter:
            if capabilities_of(adapter).reporting is None:
                pytest.skip("the adapter has no capabilities.reporting: it reports no state")
            inbox = asyncio.ensure_future(self.inbox(adapter).next())
            async with self.interrupted():
                state = await self.connection(adapter, up=False, says=True)
                assert state is not None
                assert state.last_error
            state = await self.connection(adapter, up=True, says=True)
            assert state is not None
            assert state.reconnects
            inbox.cancel()

    async def test_deliveries_go_on_after_an_outage(self, data: Path) -> None:
        """Messages published before and after it arrive, through the same `deliveries`."""
        self._needs_outages()
        before, after = self.notifications(2)
        async with self.running(data, self.interest("storm")) as adapter:
            inbox = Inbox(adapter, self.outage)
            await adapter.publish([before])
            assert (await inbox.take(1))[0].notification == before
            waiting = asyncio.create_task(inbox.next())
            async with self.interrupted():
                await self.connection(adapter, up=False)
                assert not waiting.done()
            await self.published(adapter, after)
            delivery = await waiting
            while delivery.notification.id == before.id:  # Its settlement may have been lost.
                assert delivery.redelivered
                delivery.settle()
                delivery = await inbox.next()
            assert delivery.notification == after
            delivery.settle()

    async def test_what_is_wanted_after_an_outage(self, data: Path) -> None:
        """Former interests still hold, and more can be added."""
        self._needs_outages()
        async with self.running(data, self.interest("storm")) as adapter:
            inbox = Inbox(adapter, self.outage)
            waiting = asyncio.create_task(inbox.next())
            async with self.interrupted():
                await self.connection(adapter, up=False)
            storm, calm, last = map(self.notification, ("storm", "calm", "storm"))
            await self.published(adapter, storm)
            assert (await waiting).notification == storm
            (await waiting).settle()
            await adapter.want(self.interest("calm"))
            await adapter.publish([calm])
            await adapter.publish([self.notification("rain"), last])
            assert await inbox.until(calm.id, last.id) == []

    async def test_what_is_unsettled_comes_again_after_an_outage(self, data: Path) -> None:
        """Unsettled messages come in order, before newer ones; settling afterwards works."""
        self._needs_durability()
        self._needs_outages()
        async with self.running(data, self.interest("storm")) as adapter:
            count = min(adapter.capabilities.prefetch, 10)
            sent, last = self.notifications(count), self.notification()
            inbox = Inbox(adapter, self.outage)
            await adapter.publish(sent)
            taken = await inbox.take(count, settle=False)
            waiting = asyncio.create_task(inbox.next())
            async with self.interrupted():
                await self.connection(adapter, up=False)
                taken[0].settle()  # Settling may be lost with the connection.
            await self.published(adapter, last)
            again = await waiting
            again.settle()
            assert again.redelivered
            ids = [again.notification.id, *await inbox.until(last.id)]
            expected = [one.id for one in sent]
            assert ids in (expected, expected[1:])

    # ------------------------------------------------------------------------------ the end

    async def test_closing_is_quick_and_ends_the_deliveries(self, data: Path) -> None:
        adapter = self.make_adapter(data)
        await adapter.start([self.interest("storm")])
        inbox = self.inbox(adapter)
        await adapter.publish(self.notifications(3))
        await inbox.take(3, settle=False)
        waiting = asyncio.create_task(inbox.next())
        await asyncio.sleep(0)
        async with asyncio.timeout(QUICK):
            await adapter.close()
            with pytest.raises(StopAsyncIteration):
                await waiting
            await adapter.close()

    async def test_a_closed_adapter_takes_nothing(self, data: Path) -> None:
        async with self.running(data) as adapter:
            pass
        with pytest.raises(AdapterUnavailable):
            await adapter.publish(self.notifications(1))

    async def test_settling_after_the_end_does_nothing(self, data: Path) -> None:
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(self.notifications(1))
            (delivery,) = await self.inbox(adapter).take(1, settle=False)
        delivery.settle()

    def _needs_outages(self) -> None:
        kind, base = type(self), AdapterContract
        if kind.interrupt is base.interrupt or kind.resume is base.resume:
            pytest.skip("the suite has no interrupt() and resume(): outages are not tried")

    def _needs_durability(self) -> None:
        if not self.durable:
            pytest.skip("the system is not durable")
