"""Filters that exceed their budget: what becomes of the messages, of the subscription, and of
everybody else."""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.delivery import Entry
from gateway.model.dead_letter_reasons import DeathReason
from gateway.subscriptions.filter_budgets import OFFENCES, WITHIN, FilterBudgets
from mediation.model.versions import Wsa
from mediation.names import WSE_2004_08 as WSE
from mediation.rendering import delivery_id
from tests.rigs.consumers import Consumer, Consumers, consumers
from tests.rigs.dispatching import FakeDelivery, engine, notification
from tests.rigs.envelopes import S12, Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.processes import SPEAKER, GatewayProcess, gateway_process
from tests.rigs.waiting import DEADLINE, until

HOSTILE = "//*[../*[../*[../*]]]"
ELEMENTS = 6_000
LARGE = "<t:event xmlns:t='urn:test'><n>{}</n>" + "<b>x</b>" * ELEMENTS + "</t:event>"
SMALL = "<t:event xmlns:t='urn:test'><n>{}</n></t:event>"
WSE_SPEAKER = Speaker(S12, Wsa.V2004_08)


@pytest_asyncio.fixture
async def sinks() -> AsyncIterator[Consumers]:
    async with consumers() as all_of_them:
        yield all_of_them


def xpath(text: str) -> str:
    return f"<e:Filter>{text.replace('<', '&lt;')}</e:Filter>"


# Counting.


@pytest_asyncio.fixture
async def entry(tmp_path: Path) -> AsyncIterator[Entry]:
    async with engine(tmp_path) as one:
        yield await one.subscribe("http://127.0.0.1:9999/")


@pytest.mark.parametrize(
    ("times", "cancelled"),
    [
        pytest.param([0.0] * (OFFENCES - 1), 0, id="not often enough"),
        pytest.param([0.0, 1.0, WITHIN], 1, id="just within"),
        pytest.param([0.0, 1.0, WITHIN + 1], 0, id="just beyond"),
        pytest.param([0.0, 1.0, WITHIN + 0.5, WITHIN + 0.9], 1, id="a window that moves"),
        pytest.param([0.0, 1.0, 2.0, 3.0, 4.0], 1, id="more of them"),
        pytest.param([WITHIN * 1.1 * n for n in range(9)], 0, id="now and then"),
    ],
)
async def test_offences(entry: Entry, times: list[float], cancelled: int) -> None:
    ended: list[tuple[Entry, str]] = []
    budgets = FilterBudgets(lambda one, reason: ended.append((one, reason)))
    for now in times:
        budgets.exceeded(entry, "urn:m", now=1000 + now)
    assert [one for one, _ in ended] == [entry] * cancelled
    assert budgets.over_budget == len(times)


async def test_each_pays_for_itself(tmp_path: Path) -> None:
    ended: list[Entry] = []
    budgets = FilterBudgets(lambda one, _: ended.append(one))
    async with engine(tmp_path) as one:
        entries = [await one.subscribe("http://127.0.0.1:9999/") for _ in range(3)]
        for now in range(OFFENCES - 1):
            for each in entries:
                budgets.exceeded(each, "urn:m", now=now)
        for _ in range(99):
            budgets.unevaluated(entries[0], "urn:m")
        budgets.exceeded(entries[1], "urn:m", now=3)
    assert ended == [entries[1]]


# The dead letters.


@dataclass
class Witness(FakeDelivery):
    """Looks into the store when it is settled."""

    data: Path = Path()
    dead_when_settled: int = 0

    def settle(self) -> None:
        super().settle()
        with closing(sqlite3.connect(self.data / "store.db")) as connection:
            [[number]] = connection.execute("SELECT count(*) FROM dead_letters").fetchall()
        self.dead_when_settled = number


async def test_dead_letters_are_durable_before_the_message_is_settled(
    tmp_path: Path, sinks: Consumers
) -> None:
    async with engine(tmp_path) as one:
        honest, offender = [await one.subscribe(sinks.add().url) for _ in range(2)]
        paused = await one.subscribe(sinks.add().url)
        one.pause(paused, True)
        delivery = Witness(notification("1"), data=tmp_path)
        one.deliveries.append(delivery)
        one.dispatcher.accept(delivery, [honest], [offender, paused])
        await one.settled()
        assert delivery.dead_when_settled == 1
        [dead] = await one.dead()
        assert dead.death.reason is DeathReason.FILTER_BUDGET
        assert (dead.death.subscription, dead.death.attempts) == (offender.id, 0)
        assert dead.death.delivery_id == delivery_id(delivery.notification, offender.id)
        await one.at_rest(matched=2, delivered=1, dead=1, skipped=1)


async def test_a_message_that_comes_again_has_one_dead_letter(
    tmp_path: Path, sinks: Consumers
) -> None:
    async with engine(tmp_path) as one:
        entry = await one.subscribe(sinks.add().url)
        one.publish("1", to=[])
        for _ in range(3):
            one.dispatcher.accept(one.deliveries[0], [], [entry])
        await one.dispatcher.settlement.drained()
        assert len(await one.dead()) == 1
        await one.at_rest(matched=1, dead=1)


# The subscription.


async def offend(run: Running, number: int, seconds: float = 15.0) -> None:
    """Publish a large message, and wait until its budget is exceeded."""
    before = run.gateway.budgets.over_budget
    await run.publish(LARGE.format(number))
    await until(lambda: run.gateway.budgets.over_budget > before, seconds)


async def test_the_third_offence_ends_the_subscription(tmp_path: Path, sinks: Consumers) -> None:
    consumer, end_to, honest = sinks.add(), sinks.add(), sinks.add()
    body = WSE_SPEAKER.wse_subscribe(consumer.url, filter=xpath(HOSTILE), end_to=end_to.url)
    async with running(tmp_path) as run:
        await run.subscribe(WSE_SPEAKER, body)
        await run.subscribe(WSE_SPEAKER, WSE_SPEAKER.wse_subscribe(honest.url))
        [offender, _] = run.gateway.subscriptions.entries
        for number in range(OFFENCES):
            assert len(run.gateway.subscriptions) == 2
            await offend(run, number)
        await end_to.have(1)
        assert f"{WSE}/SourceCancelling".encode() in end_to.received[0].body
        assert len(run.gateway.subscriptions) == 1
        await run.publish(LARGE.format(99))
        assert await honest.have(OFFENCES + 1) == ["0", "1", "2", "99"]
        assert consumer.count == end_to.count - 1 == 0
        letters = json.loads((await run.api("GET", "/deadletters")).body)
        assert len(letters["dead_letters"]) == OFFENCES, letters
        metrics = (await run.request("GET", "/metrics")).body.decode()
        assert f"dragoman_filter_over_budget_total {OFFENCES}.0" in metrics
        law = await run.gateway.dispatchers.conservation()
        assert (law.totals.dead, law.totals.delivered) == (OFFENCES, OFFENCES + 1)
    told = [log for log in run.logs if log["event"] == "filter.over-budget"]
    assert [log["cancelled"] for log in told] == [False, False, True]
    assert told[0]["filter"] == [HOSTILE]
    assert told[0]["subscription"] == offender.id
    [ended] = [log for log in run.logs if log["event"] == "subscription.ended"]
    assert (ended["subscription"], ended["why"]) == (offender.id, "cancelling")


async def test_a_notification_subscription_ends_too(tmp_path: Path, sinks: Consumers) -> None:
    speaker = Speaker()
    content = (
        '<n:MessageContent xmlns:n="http://docs.oasis-open.org/wsn/b-2" '
        f'Dialect="http://www.w3.org/TR/1999/REC-xpath-19991116">{HOSTILE}'
        "</n:MessageContent>"
    )
    async with running(tmp_path) as run:
        await run.subscribe(speaker, speaker.wsn_subscribe(sinks.add().url, filter=content))
        for number in range(OFFENCES):
            await offend(run, number)
        await until(lambda: len(run.gateway.subscriptions) == 0)


# Everybody else.


async def publish(gateway: GatewayProcess, payload: str, number: str) -> None:
    body = SPEAKER.envelope(
        payload.format(number), action="urn:test:event", message_id=f"urn:test:{number}"
    )
    answer = await gateway.request("POST", "/soap", body, content_type=SPEAKER.soap.media_type)
    assert answer.status == 202, answer.body


async def everybody_has_all(
    gateway: GatewayProcess, honest: list[Consumer], name: str, turns: int = 90
) -> None:
    """Publish one large message among nine, one after the other: each comes once, in order."""
    sent = [f"{name}{turn}" for turn in range(turns)]
    for turn, number in enumerate(sent):
        await publish(gateway, SMALL if turn % 9 else LARGE, number)
    for one in honest:
        await one.have_all(sent)
        assert [number for number in one.numbers if number in sent] == sent


async def test_nobody_else_notices(tmp_path: Path, sinks: Consumers) -> None:
    """Twenty honest subscribers beside a hostile one, which is ended; then a restart.

    That nothing waits for the hostile one is tested where it is decided, in
    tests/adapters/filtering/test_slow_filters.py.
    """
    honest = [sinks.add(keep=False) for _ in range(20)]
    hostile, end_to = sinks.add(), sinks.add()
    async with gateway_process(tmp_path / "data") as gateway:
        for place, one in enumerate(honest):
            wanted = xpath("//n") if place % 2 else ""
            answer = await gateway.ask(SPEAKER.wse_subscribe(one.url, filter=wanted))
            assert answer.status == 200
        filter_ = xpath(f"{HOSTILE} and //n")
        answer = await gateway.ask(
            SPEAKER.wse_subscribe(hostile.url, filter=filter_, end_to=end_to.url)
        )
        assert answer.status == 200
        await everybody_has_all(gateway, honest, "beside")
        await end_to.have(1)
        assert f"{WSE}/SourceCancelling".encode() in end_to.received[0].body
        metrics = await gateway.at_rest()
        assert metrics["subscriptions"] == 20
        assert OFFENCES <= metrics["filter_over_budget_total"] == metrics["dead_letters"] <= 10
        dead = metrics["dead_letters"]
    async with gateway_process(tmp_path / "data") as gateway:
        await everybody_has_all(gateway, honest, "again", turns=1)
        metrics = await gateway.at_rest()
        assert (metrics["subscriptions"], metrics["dead_letters"]) == (20, dead)
        assert metrics["filter_over_budget_total"] == 0
    assert end_to.count == 1


async def test_a_crash_during_evaluation_loses_nothing(tmp_path: Path, sinks: Consumers) -> None:
    honest, hostile = sinks.add(), sinks.add()
    gateway = GatewayProcess(tmp_path / "data")
    await gateway.start()
    for consumer, wanted in ((honest, ""), (hostile, xpath(HOSTILE))):
        answer = await gateway.ask(SPEAKER.wse_subscribe(consumer.url, filter=wanted))
        assert answer.status == 200
    for number in ("1", "2"):
        await publish(gateway, LARGE, number)
    children = Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children").read_text().split()
    await gateway.kill()
    async with gateway_process(tmp_path / "data") as gateway:
        await honest.have_all(["1", "2"])
        await until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))

        async def are_dead() -> bool:  # They may have been delivered to the other before.
            return (await gateway.metrics())["dead_letters"] == 2

        await until(are_dead, 2 * DEADLINE)
        assert (await gateway.at_rest())["subscriptions"] == 2
    assert hostile.count == 0
