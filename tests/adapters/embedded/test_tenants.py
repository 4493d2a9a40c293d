"""Lines of tenants in the embedded system: what is published in one keeps no other waiting."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from adapters import EVERYTHING_WANTED, AdapterUnavailable
from adapters.embedded import adapter as embedded
from adapters.embedded.adapter import (
    ALL_READY_OCTETS,
    PREFETCH,
    READY_MESSAGES,
    READY_OCTETS,
    WAITING_MESSAGES,
    EmbeddedAdapter,
    EmbeddedDelivery,
)
from adapters.embedded.journal import LINE_BITS, Journal
from mediation.model.messages import Notification
from mediation.tenants import tenant_of_topic, topic_in
from tests.rigs.dispatching import notification
from tests.rigs.waiting import DEADLINE, until


def of(tenant: str, *names: object, filling: int = 0) -> list[Notification]:
    found = (notification(f"{tenant}-{name}", filling) for name in names)
    return [replace(one, topic=topic_in(tenant, None)) for one in found]


@asynccontextmanager
async def running(data: Path, **settings: int) -> AsyncIterator[EmbeddedAdapter]:
    adapter = EmbeddedAdapter(Journal(data / "journal.db"), **settings)
    await adapter.start([EVERYTHING_WANTED])
    yield adapter
    await adapter.close()


async def take(adapter: EmbeddedAdapter, number: int) -> list[EmbeddedDelivery]:
    """The next deliveries, unsettled."""
    taken: list[EmbeddedDelivery] = []
    async with asyncio.timeout(DEADLINE):
        async for delivery in adapter.deliveries():
            taken.append(delivery)
            if len(taken) == number:
                break
    return taken


def names(taken: Iterable[EmbeddedDelivery]) -> list[str]:
    return [one.notification.id.removeprefix("urn:test:") for one in taken]


async def test_a_flood_keeps_no_other_tenant_waiting(tmp_path: Path) -> None:
    """Neither what waits in the journal, nor in memory, nor what is unsettled: in any number of
    lines the next message of each is the next, or behind one of each other tenant."""
    async with running(tmp_path) as adapter:
        for number in range(6):
            await adapter.publish(of("flood", *range(number * 100, number * 100 + 100)))
        first = await take(adapter, PREFETCH)  # Its window is full.
        await adapter.publish([*of("", 1), *of("quiet", 1)])
        assert sorted(names(await take(adapter, 2))) == ["-1", "quiet-1"]
        await adapter.publish(of("quiet", *range(2, 12)))
        for one in first:
            one.settle()
        between: list[str] = []
        for _ in range(100):
            [one] = await take(adapter, 1)
            one.settle()
            between.append(tenant_of_topic(one.notification.topic))
            if between.count("quiet") == 10:
                break
        assert between.count("quiet") == 10
        longest = max(len(run) for run in "".join(one[0] for one in between).split("q"))
        assert longest <= 16, between  # A turn of 16 KiB: see `TenantTurns`.


async def test_each_line_has_its_order_after_a_restart(tmp_path: Path) -> None:
    """Whatever was in memory, in the journal, settled or not; and nothing is lost or repeated."""
    tenants = ("", "a", "b", "c")
    sent = {tenant: of(tenant, *range(3 * READY_MESSAGES)) for tenant in tenants}
    async with running(tmp_path) as adapter:
        for part in range(3):
            of_all = [
                one
                for tenant in tenants
                for one in sent[tenant][part * READY_MESSAGES : (part + 1) * READY_MESSAGES]
            ]
            await adapter.publish(of_all)
        settled = await take(adapter, 2 * PREFETCH)
        for one in settled:
            one.settle()
    done = names(settled)
    async with running(tmp_path) as adapter:
        await adapter.publish(of("b", "last"))
        left = sum(map(len, sent.values())) + 1 - len(settled)
        found: list[str] = []
        for _ in range(left):
            [one] = await take(adapter, 1)
            assert one.redelivered == (names([one]) != ["b-last"])
            one.settle()
            found += names([one])
    for tenant in tenants:
        expected = [one.id.removeprefix("urn:test:") for one in sent[tenant]]
        of_tenant = [one for one in (*done, *found) if one.startswith(f"{tenant}-")]
        assert of_tenant == expected + ["b-last"] * (tenant == "b")
    async with running(tmp_path) as adapter:
        assert not adapter._turns


async def test_memory_is_bounded_for_all_tenants_together(tmp_path: Path) -> None:
    """Large messages of many tenants: all come, and memory holds one of each beside its bound."""
    size, number = READY_OCTETS // 2, 12
    async with running(tmp_path) as adapter:
        for tenant in "abcdefghijkl":
            for name in range(2):
                await adapter.publish(of(tenant, name, filling=size))
        assert adapter._ready_octets <= ALL_READY_OCTETS + number * 2 * size
        ready = sum(len(line.ready) for line in adapter._lines.values())
        assert ready < 2 * number
        found = names(await take(adapter, 2 * number))
    assert sorted(found) == sorted(f"{tenant}-{one}" for tenant in "abcdefghijkl" for one in (0, 1))


async def test_what_is_unsettled_is_bounded_for_all_tenants_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bytes, beside one message of each tenant; and settling makes room for all of them."""
    size, most, each = 2**16, 2**19, 8
    monkeypatch.setattr(embedded, "ALL_UNSETTLED_OCTETS", most)
    tenants = [f"t{number}" for number in range(12)]
    found: dict[str, list[str]] = {tenant: [] for tenant in tenants}
    async with running(tmp_path) as adapter:
        for tenant in tenants:
            await adapter.publish(of(tenant, *range(each), filling=size))
        left = len(tenants) * each
        while left:
            taken = await take(adapter, 1)
            while (one := adapter._take()) is not None:
                taken.append(one)
            octets = sum(one.notification.octets for one in taken)
            assert octets <= most + (len(tenants) + 1) * 2 * size
            for one in taken:
                found[tenant_of_topic(one.notification.topic)] += names([one])
                one.settle()
            left -= len(taken)
        await until(lambda: adapter._unsettled_octets == 0)
    for tenant in tenants:
        assert found[tenant] == [f"{tenant}-{number}" for number in range(each)]


async def test_what_was_settled_before_a_restart_waits_no_more(tmp_path: Path) -> None:
    """Nobody is refused because of it: only what is still in the journal counts."""
    async with running(tmp_path, tenant_backlog=50) as adapter:
        for part in range(3):
            await adapter.publish(of("a", *range(part * 30, part * 30 + 30)))
            for one in (await take(adapter, 30))[: 30 if part < 2 else 20]:
                one.settle()
            await until(lambda: not adapter._line_of["a"].ready)
    async with running(tmp_path, tenant_backlog=50) as adapter:
        await adapter.publish(of("a", "new"))  # Before anything was read back.
        assert len(await take(adapter, 11)) == 11


async def test_back_pressure_is_for_the_tenant_that_floods(tmp_path: Path) -> None:
    async with running(tmp_path, tenant_backlog=50) as adapter:
        await adapter.publish(of("flood", *range(50)))
        with pytest.raises(AdapterUnavailable, match="50 messages of the tenant wait") as refused:
            await adapter.publish(of("flood", "more"))
        assert refused.value.retry_after == 5.0
        for tenant in ("quiet", ""):
            await adapter.publish(of(tenant, *range(60 if not tenant else 40)))
        for one in await take(adapter, 40):  # Each has had a turn.
            one.settle()
        await adapter.publish(of("flood", "again"))


async def test_what_waits_for_a_commit_refuses_no_other_tenant(tmp_path: Path) -> None:
    async with running(tmp_path) as adapter:
        flood = [
            asyncio.ensure_future(adapter.publish(of("flood", number)))
            for number in range(2 * WAITING_MESSAGES)
        ]
        await asyncio.sleep(0)
        quiet = [
            asyncio.ensure_future(adapter.publish(of("quiet", number))) for number in range(300)
        ]
        ends = await asyncio.gather(*flood, return_exceptions=True)
        assert sum(isinstance(one, AdapterUnavailable) for one in ends) >= WAITING_MESSAGES / 2
        assert await asyncio.gather(*quiet, return_exceptions=True) == [None] * 300
        assert not adapter._waiting_of and adapter._waiting == adapter._waiting_octets == 0


async def test_a_journal_of_a_release_without_lines(tmp_path: Path) -> None:
    """What it wrote is delivered, as before a line was made and as after: a release that knows no
    lines numbers its messages behind the last one of any line."""
    async with running(tmp_path) as adapter:
        await adapter.publish([*of("", 1, 2), *of("a", 1)])
    with closing(sqlite3.connect(tmp_path / "journal.db")) as journal:
        [(last,)] = journal.execute("SELECT max(seq) FROM message").fetchall()
        assert last >> LINE_BITS == 1
        for number, of_tenant in ((3, False), (last + 1, False), (last + 2, True)):
            row = 2 if not of_tenant else last
            journal.execute(
                "INSERT INTO message SELECT ?, replace(properties, 'urn:test:', ?), body"
                " FROM message WHERE seq = ?",
                (number, f"urn:test:{number & 7}+", row),
            )
        journal.commit()
    async with running(tmp_path) as adapter:
        await adapter.publish([*of("a", 2), *of("", 9)])
        taken = await take(adapter, 8)
        assert sorted(names(taken)) == sorted(
            ["-1", "-2", "3+-2", "-9", "a-1", f"{last + 1 & 7}+-2", f"{last + 2 & 7}+a-1", "a-2"]
        )
        for one in taken:
            one.settle()


async def test_an_installation_without_tenants_has_no_lines(tmp_path: Path) -> None:
    async with running(tmp_path) as adapter:
        await adapter.publish(of("", *range(5)))
        assert len(await take(adapter, 5)) == 5
    with closing(sqlite3.connect(tmp_path / "journal.db")) as journal:
        assert not journal.execute("SELECT 1 FROM sqlite_schema WHERE name = 'line'").fetchall()
        assert journal.execute("SELECT seq FROM message").fetchall() == [(n,) for n in range(1, 6)]
