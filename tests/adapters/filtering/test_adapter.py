"""Subscriptions in front of a messaging system."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters import (
    EVERYTHING_WANTED,
    Adapter,
    AdapterUnavailable,
    Capabilities,
    Delivery,
    Interest,
    Matched,
    XPathFilterAdapter,
)
from adapters.embedded import EmbeddedAdapter
from adapters.embedded.journal import Journal
from adapters.filtering.adapter import NOT_CHECKED
from adapters.memory import MemoryAdapter, MemoryDelivery
from filters import EVERYTHING, Expression, Filter, FilterError, Reason, Step, Topic
from filters.dialects import TOPIC_CONCRETE, TOPIC_FULL
from mediation.filtering import PRODUCER_VIEWS
from mediation.model.messages import Notification
from mediation.tenants import all_topics_of, topic_in

Make = Callable[[Path], Adapter]
SEVERITY = "urn:test:severity"


class Tracker(MemoryAdapter):
    """Remembers what was asked of it, and can be slow or broken."""

    def __init__(self) -> None:
        super().__init__(prefetch=1)
        self.wanted: list[Interest] = []
        self.broken = False
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def want(self, interest: Interest) -> None:
        self.asked.set()
        await self.may_answer.wait()
        if self.broken:
            raise AdapterUnavailable("the broker is away")
        await super().want(interest)
        self.wanted.append(interest)

    async def unwant(self, interest: Interest) -> None:
        if self.broken:
            raise AdapterUnavailable("the broker is away")
        await super().unwant(interest)
        self.wanted.remove(interest)


def topic(text: str, dialect: str = TOPIC_FULL, prefix: str = "w") -> Expression:
    return Expression(text, dialect, ((prefix, "urn:w"),))


def on(*texts: str, content: str | None = None) -> Filter:
    contents = () if content is None else (Expression(content),)
    return Filter(tuple(topic(text) for text in texts), contents)


def notification(name: str, payload: str = "<a/>") -> Notification:
    steps = (Step("urn:w", name),)
    time = datetime.now(UTC)
    return Notification(str(uuid.uuid4()), "urn:me", payload.encode(), time, topic=Topic(steps))


@pytest.fixture(params=["memory", "embedded"])
def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> Adapter:
    if request.param == "memory":
        return MemoryAdapter(prefetch=4)
    return EmbeddedAdapter(Journal(tmp_path / "journal.db"), prefetch=4)


@asynccontextmanager
async def running(
    adapter: Adapter, filters: dict[str, Filter] | None = None
) -> AsyncIterator[XPathFilterAdapter]:
    subscriptions = XPathFilterAdapter(adapter)
    assert await subscriptions.start(filters or {}) == {}
    try:
        yield subscriptions
    finally:
        await subscriptions.close()


async def take(deliveries: AsyncIterator[Matched], count: int) -> list[tuple[str, list[str]]]:
    """The next *count* payloads, each with the keys that it goes to."""
    taken = []
    async with asyncio.timeout(60):
        for _ in range(count):
            matched = await anext(deliveries)
            matched.delivery.settle()
            assert not (matched.over_budget or matched.unevaluated)
            payload = matched.delivery.notification.payload.decode()
            taken.append((payload, sorted(matched.keys)))
    return taken


async def test_each_message_comes_once_with_all_keys(adapter: Adapter) -> None:
    filters = {
        "all": Filter(),
        "storms": on("w:storm"),
        "the same": on("w:storm//."),
        "strong": on("w:storm", content="number(/storm) > 8"),
        "calms": on("w:calm"),
    }
    async with running(adapter, filters) as subscriptions:
        await subscriptions.publish(
            [
                notification("storm", "<storm>9</storm>"),
                notification("storm", "<storm>3</storm>"),
                notification("calm", "<calm/>"),
            ]
        )
        assert await take(subscriptions.deliveries(), 3) == [
            ("<storm>9</storm>", ["all", "storms", "strong", "the same"]),
            ("<storm>3</storm>", ["all", "storms", "the same"]),
            ("<calm/>", ["all", "calms"]),
        ]


async def test_what_matches_nobody_is_settled_inside(adapter: Adapter) -> None:
    """More than the prefetch of it would stop an adapter that it is not settled for."""
    filters = {"strong": on("w:storm", content="number(/storm) > 8")}
    async with running(adapter, filters) as subscriptions:
        await subscriptions.publish([notification("storm", "<storm>1</storm>") for _ in range(99)])
        await subscriptions.publish([notification("storm", "<storm>9</storm>")])
        assert await take(subscriptions.deliveries(), 1) == [("<storm>9</storm>", ["strong"])]


async def test_adding_and_removing(adapter: Adapter) -> None:
    async with running(adapter) as subscriptions:
        deliveries = subscriptions.deliveries()
        await subscriptions.add("one", on("w:storm"))
        await subscriptions.publish([notification("storm")])
        assert await take(deliveries, 1) == [("<a/>", ["one"])]
        await subscriptions.add("two", on("w:storm"))
        await subscriptions.add("one", on("w:calm"))
        await subscriptions.publish([notification("storm"), notification("calm")])
        assert await take(deliveries, 2) == [("<a/>", ["two"]), ("<a/>", ["one"])]
        await subscriptions.remove("one")
        await subscriptions.remove("nobody")
        await subscriptions.publish([notification("calm"), notification("storm", "<b/>")])
        assert await take(deliveries, 1) == [("<b/>", ["two"])]


async def test_many_filters_are_one_interest() -> None:
    tracker = Tracker()
    async with running(tracker) as subscriptions:
        for n in range(100):
            expression = topic(f"p{n}:storm", TOPIC_CONCRETE, prefix=f"p{n}")
            await subscriptions.add(str(n), Filter((expression,)))
        assert len(tracker.wanted) == 1
        for n in range(99):
            await subscriptions.remove(str(n))
        assert len(tracker.wanted) == 1
        await subscriptions.remove("99")
        assert tracker.wanted == []


async def test_one_of_several_topic_expressions_is_asked_for() -> None:
    tracker = Tracker()
    async with running(tracker) as subscriptions:
        await subscriptions.add("a", on("w:storm"))
        await subscriptions.add("b", on("w:*", "w:storm"))
        assert tracker.wanted == [Interest(topic("w:storm"))]
        await subscriptions.add("c", Filter(contents=(Expression("/a"),)))
        assert tracker.wanted == [Interest(topic("w:storm")), EVERYTHING_WANTED]
        assert set(subscriptions.interests) == set(tracker.wanted)


async def test_a_replaced_filter_lets_go_of_its_interest() -> None:
    tracker = Tracker()
    async with running(tracker) as subscriptions:
        for text in ("w:storm", "w:calm", "w:calm", "w:rain"):
            await subscriptions.add("a", on(text))
        assert tracker.wanted == [Interest(topic("w:rain"))]


async def test_nobody_is_answered_before_the_interest_is_in_force() -> None:
    tracker = Tracker()
    async with running(tracker) as subscriptions:
        tracker.may_answer.clear()
        adding = [asyncio.create_task(subscriptions.add(key, on("w:storm"))) for key in "ab"]
        async with asyncio.timeout(60):
            await tracker.asked.wait()
        assert not any(task.done() for task in adding)
        assert not subscriptions.interests
        tracker.may_answer.set()
        await asyncio.gather(*adding)
        assert len(tracker.wanted) == 1


async def test_going_and_coming_at_a_time() -> None:
    tracker = Tracker()
    async with running(tracker) as subscriptions:
        await subscriptions.add("a", on("w:storm"))
        await asyncio.gather(
            *[subscriptions.remove("a"), subscriptions.add("b", on("w:storm"))],
            *[subscriptions.add("c", on("w:calm")), subscriptions.remove("b")],
        )
        assert set(tracker.wanted) == set(subscriptions.interests)
        await subscriptions.add("d", on("w:storm"))
        assert set(tracker.wanted) == {Interest(topic("w:storm")), Interest(topic("w:calm"))}


async def test_a_broker_that_is_away_refuses_additions_and_allows_removals() -> None:
    tracker = Tracker()
    async with running(tracker) as subscriptions:
        await subscriptions.add("a", on("w:storm"))
        tracker.broken = True
        with pytest.raises(AdapterUnavailable):
            await subscriptions.add("b", on("w:calm"))
        assert list(subscriptions.interests) == [Interest(topic("w:storm"))]
        await subscriptions.remove("a")
        assert list(subscriptions.interests) == []
        tracker.broken = False
        await subscriptions.add("b", on("w:storm"))
        await subscriptions.publish([notification("storm")])
        assert await take(subscriptions.deliveries(), 1) == [("<a/>", ["b"])]


@pytest.mark.parametrize(
    ("filter", "reason"),
    [
        pytest.param(
            Filter(contents=(Expression("x", "urn:no-such-dialect"),)),
            Reason.FILTER_DIALECT,
            id="unknown dialect",
        ),
        pytest.param(
            Filter(contents=(Expression("count("),)), Reason.FILTER_INVALID, id="no XPath"
        ),
    ],
)
async def test_a_filter_that_nobody_evaluates_is_refused(filter: Filter, reason: Reason) -> None:
    tracker = Tracker()
    async with running(tracker) as subscriptions:
        with pytest.raises(FilterError) as caught:
            await subscriptions.add("a", filter)
        assert caught.value.reason is reason
        assert tracker.wanted == []


async def test_filters_that_cannot_be_compiled_any_more_are_named_at_the_start() -> None:
    subscriptions = XPathFilterAdapter(MemoryAdapter())
    bad = Filter(contents=(Expression("x", "urn:gone"),))
    refused = await subscriptions.start({"bad": bad, "good": on("w:storm")})
    assert list(refused) == ["bad"]
    assert len(subscriptions.interests) == 1
    await subscriptions.close()


async def test_the_event_loop_gets_its_turn() -> None:
    """A backlog that nobody wants is gone through without keeping others waiting."""
    async with running(MemoryAdapter(), {"none": on("w:storm", content="/b")}) as subscriptions:
        await subscriptions.publish([notification("storm") for _ in range(1000)])
        waiting = asyncio.ensure_future(anext(subscriptions.deliveries()))
        turns = 0
        await subscriptions.publish([notification("storm", "<b/>")])
        while not waiting.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 20
        assert waiting.result().keys == ["none"]


class SelectedDelivery(MemoryDelivery):
    """A delivery that was yielded for *interest*."""

    def __init__(self, delivery: MemoryDelivery, interest: Interest) -> None:
        super().__init__(delivery._adapter, delivery.notification)
        self.interest = interest


def interest_of(delivery: Delivery) -> Interest | None:
    return delivery.interest if isinstance(delivery, SelectedDelivery) else None


class Selecting(MemoryAdapter):
    """An adapter whose system evaluates a dialect of its own: the severity of an event."""

    def __init__(self) -> None:
        super().__init__(prefetch=16)
        self.capabilities = Capabilities(
            durable=False, dialects=(SEVERITY,), prefetch=16, selecting=interest_of
        )
        self._severities: dict[Interest, bytes] = {}

    async def want(self, interest: Interest) -> None:
        if interest.expression is None or interest.expression.dialect != SEVERITY:
            await super().want(interest)
        else:
            self._severities[interest] = f"<n>{interest.expression.text}</n>".encode()

    async def deliveries(self) -> AsyncIterator[MemoryDelivery]:
        async for delivery in super().deliveries():
            yield delivery
            for interest, payload in self._severities.items():
                if delivery.notification.payload == payload:
                    yield SelectedDelivery(delivery, interest)


async def test_a_filter_in_a_dialect_of_the_system() -> None:
    async with running(Selecting(), {"all": EVERYTHING}) as subscriptions:
        await subscriptions.add("severe", Filter(others=(Expression("9", SEVERITY),)))
        await subscriptions.publish([notification("storm", "<n>9</n>")])
        deliveries = subscriptions.deliveries()
        keys = [(await anext(deliveries)).keys for _ in range(2)]
    assert [*map(list, keys)] == [["all"], ["severe"]]


async def test_events_of_a_tenant_meet_its_filters_alone() -> None:
    """Whatever the filters: the same topic, everything; and with what other tenants forge."""
    system = MemoryAdapter()
    adapter = XPathFilterAdapter(system)
    tenants = {"all-acme": "acme", "all-umbrella": "umbrella"}
    await adapter.start(dict.fromkeys(["all", *tenants], EVERYTHING), tenants)
    for tenant in ("", "acme", "umbrella"):
        await adapter.add(f"storm-{tenant}", on("w:storm"), tenant=tenant)
    storm = notification("storm")
    assert storm.topic is not None
    last = notification("last")
    await adapter.publish(
        [
            replace(storm, id=tenant, topic=topic_in(tenant, storm.topic))
            for tenant in ("acme", "", "nobody", "umbrella")
        ]
        + [replace(last, id="bare", topic=topic_in("umbrella", None)), last]
    )
    found: dict[str, set[str]] = {}
    async for matched in adapter.deliveries():
        event = matched.delivery.notification
        assert event.topic in (storm.topic, last.topic, None)
        found[event.id] = set(matched.keys)
        matched.delivery.settle()
        if event.id == last.id:
            break
    assert found.pop("") == {"all", "storm-"}
    assert found.pop("acme") == {"all-acme", "storm-acme"}
    assert found.pop("umbrella") == {"all-umbrella", "storm-umbrella"}
    assert found.pop("bare") == {"all-umbrella"}
    assert found == {last.id: {"all"}}
    for key in ("all-acme", "storm-acme"):
        await adapter.remove(key)
    assert Interest(all_topics_of("acme")) not in adapter.interests
    assert Interest(all_topics_of("umbrella")) in adapter.interests
    await adapter.close()


async def test_filters_of_tenants_see_nothing_of_all() -> None:
    """Neither the producer's properties, nor what the system evaluates over all of its events."""
    system = MemoryAdapter()
    system.capabilities = Capabilities(durable=False, dialects=(SEVERITY,))
    adapter = XPathFilterAdapter(system)
    selects = Filter(others=(Expression("x", SEVERITY),))
    adapter.check(selects)
    [view, *_] = PRODUCER_VIEWS
    asks = Filter(contents=(Expression("//x", view=view),))
    adapter.check(asks)
    for filter_ in (selects, asks):
        with pytest.raises(FilterError):
            adapter.check(filter_, "acme")


async def test_a_check_that_goes_wrong_ends_nothing() -> None:
    """By an error of ours, of which one message is the cause: it is set aside."""

    async def check(delivery: Delivery) -> bool:
        if delivery.notification.payload == b"<n>1</n>":
            raise RuntimeError("ours")
        return True

    async def once(delivery: Delivery) -> Delivery:
        await check(delivery)
        return delivery

    subscriptions = XPathFilterAdapter(Selecting(), once=once, passes=check)
    try:
        assert await subscriptions.start({"all": EVERYTHING}) == {}
        await subscriptions.add("severe", Filter(others=(Expression("1", SEVERITY),)))
        await subscriptions.publish([notification("storm", f"<n>{n}</n>") for n in (1, 2)])
        deliveries, found = subscriptions.deliveries(), []
        async with asyncio.timeout(60):
            for _ in range(3):
                matched = await anext(deliveries)
                matched.delivery.settle()
                found.append((matched.unreadable, list(matched.keys)))
    finally:
        await subscriptions.close()
    assert found == [(NOT_CHECKED, []), (NOT_CHECKED, []), ("", ["all"])]


class Failing(MemoryAdapter):
    """One that raises in *power* over the message that is the first."""

    def __init__(self, power: str) -> None:
        super().__init__()
        self._power = power
        self.capabilities = Capabilities(
            durable=False,
            dialects=(SEVERITY,),
            unreadable=self._unreadable,
            selecting=self._selecting,
        )

    def _fail(self, power: str, notification: Notification) -> None:
        if power == self._power and notification.payload == b"<n>1</n>":
            raise OSError(f"{power}: the connection is gone")

    def _unreadable(self, delivery: Delivery) -> str:
        self._fail("unreadable", delivery.notification)
        return ""

    def _selecting(self, delivery: Delivery) -> None:
        self._fail("selecting", delivery.notification)

    def _settle(self, notification: Notification) -> None:
        super()._settle(notification)
        self._fail("settle", notification)


@pytest.mark.parametrize(
    ("power", "filter_", "expected"),
    [
        ("unreadable", EVERYTHING, [NOT_CHECKED, ""]),
        ("selecting", EVERYTHING, [NOT_CHECKED, ""]),
        ("settle", Filter(contents=(Expression("/n = 2"),)), [""]),
    ],
)
async def test_an_adapter_that_raises_over_a_message_ends_nothing(
    power: str, filter_: Filter, expected: list[str]
) -> None:
    subscriptions = XPathFilterAdapter(Failing(power))
    assert await subscriptions.start({"all": filter_}) == {}
    await subscriptions.publish([notification("storm", f"<n>{n}</n>") for n in (1, 2)])
    deliveries = subscriptions.deliveries()
    async with asyncio.timeout(60):
        found = [await anext(deliveries) for _ in expected]
    assert [matched.unreadable for matched in found] == expected
    assert found[-1].delivery.notification.payload == b"<n>2</n>"
    await subscriptions.close()
