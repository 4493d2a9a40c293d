"""The embedded system: the contract of an adapter, and what only a journal can get wrong."""

import asyncio
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from adapters import EVERYTHING_WANTED, Adapter, AdapterError, AdapterUnavailable, load
from adapters.embedded import SCHEMA_VERSION, EmbeddedAdapter
from adapters.embedded.adapter import READY_MESSAGES
from adapters.embedded.journal import Entry, Journal, Stored
from adapters.testing import AdapterContract
from mediation.model.messages import Notification
from tests.rigs.dispatching import notification
from tests.rigs.waiting import DEADLINE, until, until_taken

ROOT = Path(__file__).parents[3]
PUBLISHER = (sys.executable, "-m", "tests.rigs.journal_publisher")


class Faulty(Journal):
    """Has a mistake in it."""

    def commit(
        self, entries: Sequence[Entry], settled: Sequence[int], *, now: float
    ) -> list[int | None]:
        raise ZeroDivisionError


class UnreadableAtFirst(Journal):
    """Its disk fails once."""

    failures = 1

    def read(self, after: int, *, messages: int, octets: int) -> tuple[list[Stored], int]:
        if self.failures:
            self.failures -= 1
            raise AdapterUnavailable("the journal cannot be read: disk I/O error")
        return super().read(after, messages=messages, octets=octets)


class Stalling(Journal):
    """Its disk stands still until it is told to go on."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.stands, self.goes_on = threading.Event(), threading.Event()
        self.goes_on.set()

    def commit(
        self, entries: Sequence[Entry], settled: Sequence[int], *, now: float
    ) -> list[int | None]:
        if not self.goes_on.is_set():
            self.stands.set()
            assert self.goes_on.wait(DEADLINE)
        return super().commit(entries, settled, now=now)


async def test_a_disk_that_stands_still(tmp_path: Path) -> None:
    """Publications are refused in time, and told as not taken; what had not begun is never taken,
    and what comes afterwards is."""
    journal = Stalling(tmp_path / "journal.db")
    adapter = EmbeddedAdapter(journal, waits=0.3, late=0.1)
    await adapter.start([EVERYTHING_WANTED])
    assert adapter.capabilities.reporting is not None
    report = adapter.capabilities.reporting
    await adapter.publish([notification("before")])
    assert report() is None
    journal.goes_on.clear()
    under_way = asyncio.create_task(adapter.publish([notification("under way")]))
    await until(journal.stands.is_set)
    with pytest.raises(AdapterUnavailable, match="in time"):
        await adapter.publish([notification("behind")])
    with pytest.raises(AdapterUnavailable, match="in time"):
        await under_way
    state = report()
    assert state is not None and not state.connected and "does not answer" in state.last_error
    journal.goes_on.set()
    await until_taken(lambda: adapter.publish([notification("afterwards")]), AdapterUnavailable)
    await until(lambda: report() is None)
    found = []
    async for delivery in adapter.deliveries():
        found.append(delivery.notification.id.removeprefix("urn:test:"))
        delivery.settle()
        if found[-1] == "afterwards":
            break
    assert found == ["before", "under way", "afterwards"]
    await adapter.close()


class TestEmbedded(AdapterContract):
    durable = True

    def make_adapter(self, data: Path, *, reserve: int | None = None) -> EmbeddedAdapter:
        return EmbeddedAdapter(Journal(data / "journal.db", reserve=reserve))

    # -------------------------------------------------------------------------------- repeats

    async def test_a_repeated_id_is_not_delivered_again(self, data: Path) -> None:
        first, last = self.notifications(2)
        elsewhere = replace(first, source="http://other.example/")
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish([first, first])
            await asyncio.gather(*[adapter.publish([first]) for _ in range(5)])
            await adapter.publish([elsewhere])
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish([first, elsewhere, last])
            taken = await self.inbox(adapter).take(3)
            assert [delivery.notification for delivery in taken] == [first, elsewhere, last]

    # ----------------------------------------------------------------------------- throughput

    async def test_publishers_share_commits(self, data: Path) -> None:
        adapter = self.make_adapter(data)
        await adapter.start([])
        sent = self.notifications(500)
        await asyncio.gather(*[adapter.publish([notification]) for notification in sent])
        assert adapter.commits <= 100
        await adapter.close()

    async def test_settlements_share_commits(self, data: Path) -> None:
        sent = self.notifications(100)
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(sent)
        again = self.make_adapter(data)
        await again.start([self.interest("storm")])
        await self.inbox(again).take(100)
        await again.close()
        assert again.commits <= 50

    async def test_what_waits_for_the_journal_is_bounded(self, data: Path) -> None:
        async with self.running(data) as adapter:
            publishing = [
                asyncio.ensure_future(adapter.publish(self.notifications(100))) for _ in range(30)
            ]
            outcomes = await asyncio.gather(*publishing, return_exceptions=True)
            refused = [outcome for outcome in outcomes if outcome is not None]
            assert len(refused) >= 1
            assert all(isinstance(outcome, AdapterUnavailable) for outcome in refused)
            await adapter.publish(self.notifications(100))

    async def test_a_backlog_waits_in_the_journal(self, data: Path) -> None:
        """Far more than memory holds, in sizes that meet both of its bounds."""
        sizes = [10] * (3 * READY_MESSAGES) + [3 * 2**20] * 6 + [10] * READY_MESSAGES
        sent = [self.notification(payload=f"<a>{'x' * size}</a>") for size in sizes]
        async with self.running(data, self.interest("storm")) as adapter:
            for notification in sent:
                await adapter.publish([notification])
            taken = await self.inbox(adapter).take(len(sent))
            assert [delivery.notification.id for delivery in taken] == [n.id for n in sent]
            assert taken[-1].notification == sent[-1]

    async def test_thousands_at_once(self, data: Path) -> None:
        sent = self.notifications(5000)
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(sent)
            taken = await self.inbox(adapter).take(len(sent))
            assert [delivery.notification.id for delivery in taken] == [n.id for n in sent]

    async def test_what_nobody_wants_leaves_the_journal(self, data: Path) -> None:
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(self.notifications(300, "calm"))
            last = self.notification()
            await adapter.publish([last])
            assert await self.inbox(adapter).until(last.id) == []
        assert count_messages(data) == 0

    # --------------------------------------------------------------------------- bad journals

    async def test_a_journal_of_a_newer_version_is_refused(self, data: Path) -> None:
        async with self.running(data) as adapter:
            await adapter.publish(self.notifications(1))
        execute(data, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        with pytest.raises(AdapterError, match="written by a newer Dragoman"):
            await self.make_adapter(data).start([])

    async def test_a_file_that_is_no_journal_is_refused_and_kept(self, data: Path) -> None:
        data.mkdir()
        path = data / "journal.db"
        path.write_bytes(b"my thesis\n" * 1000)
        with pytest.raises(AdapterError, match="is damaged"):
            await self.make_adapter(data).start([])
        assert path.read_bytes() == b"my thesis\n" * 1000

    async def test_a_damaged_journal_is_found_after_an_unclean_end(self, data: Path) -> None:
        async with self.running(data) as adapter:
            await adapter.publish(self.notifications(500))
        path = data / "journal.db"
        octets = bytearray(path.read_bytes())
        octets[4096 : 8 * 4096] = b"\xff" * (7 * 4096)
        path.write_bytes(octets)
        path.with_name("journal.db-wal").write_bytes(b"\0" * 64)
        with pytest.raises(AdapterError, match="is damaged"):
            await self.make_adapter(data).start([])
        assert path.read_bytes() == octets

    async def test_a_journal_that_cannot_be_opened_is_unavailable(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(AdapterUnavailable):
            await self.make_adapter(tmp_path / "file").start([])

    async def test_it_starts_again_after_it_was_refused(self, data: Path) -> None:
        data.mkdir()
        path = data / "journal.db"
        path.write_bytes(b"my thesis\n" * 1000)
        adapter = self.make_adapter(data)
        with pytest.raises(AdapterError):
            await adapter.start([])
        path.unlink()
        await adapter.start([])
        await adapter.publish(self.notifications(1))
        await adapter.close()

    # ------------------------------------------------------------------------------ full disks

    async def test_a_file_that_may_not_grow(self, data: Path) -> None:
        """The real error of a write: EFBIG, from a limit on the size of files."""
        async with self.running(data, self.interest("storm")) as adapter:
            inbox = self.inbox(adapter)
            kept = self.notifications(20)
            await adapter.publish(kept)
            with file_size_limit(100_000):
                big = self.notification(payload=f"<a>{'x' * 200_000}</a>")
                for _ in range(2):
                    with pytest.raises(AdapterUnavailable) as caught:
                        await adapter.publish([big])
                    assert caught.value.retry_after > 0
                taken = await inbox.take(20)
                assert [delivery.notification for delivery in taken] == kept
            await adapter.publish([big])
            assert (await inbox.take(1))[0].notification == big
        assert count_messages(data) == 0

    async def test_settlements_that_found_no_room_are_tried_again(self, data: Path) -> None:
        """Nobody has to publish or settle for that."""
        async with self.running(data, self.interest("storm")) as adapter:
            window = adapter.capabilities.prefetch
            sent = self.notifications(window + 3)
            await adapter.publish(sent)
            inbox = self.inbox(adapter)
            with file_size_limit(1000):
                await inbox.take(window)
                with pytest.raises(AdapterUnavailable):
                    await adapter.publish(self.notifications(1))
            taken = await inbox.take(3)
            assert [delivery.notification for delivery in taken] == sent[window:]

    async def test_a_read_that_failed_is_tried_again(self, data: Path) -> None:
        sent = self.notifications(3)
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(sent)
        adapter = EmbeddedAdapter(UnreadableAtFirst(data / "journal.db"))
        await adapter.start([self.interest("storm")])
        taken = await self.inbox(adapter).take(3)
        assert [delivery.notification for delivery in taken] == sent
        await adapter.close()

    async def test_nobody_waits_for_a_writer_that_ended(self, data: Path) -> None:
        adapter = EmbeddedAdapter(Faulty(data / "journal.db"))
        await adapter.start([self.interest("storm")])
        waiting = asyncio.create_task(self.inbox(adapter).next())
        for _ in range(2):
            with pytest.raises(AdapterUnavailable, match="writer ended"):
                await adapter.publish(self.notifications(1))
        with pytest.raises(AdapterUnavailable, match="writer ended"):
            await waiting
        await adapter.close()

    async def test_a_full_disk(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", "8m") as disk:
            async with self.running(disk, self.interest("storm")) as adapter:
                inbox = self.inbox(adapter)
                before, after = self.notifications(2)
                await adapter.publish([before])
                fill(disk / "ballast")
                with pytest.raises(AdapterUnavailable):
                    await adapter.publish([self.notification(payload=f"<a>{'x' * 100_000}</a>")])
                assert (await inbox.take(1))[0].notification == before
                (disk / "ballast").unlink()
                await until_accepted(adapter, after)
                assert (await inbox.take(1))[0].notification == after
            assert execute(disk, "PRAGMA integrity_check") == [("ok",)]
            assert count_messages(disk) == 0

    async def test_no_octet_left(self, tmp_path: Path) -> None:
        """Without a reserve the disk fills up to the last octet: ENOSPC from SQLite's writes."""
        with small_disk(tmp_path / "disk", "8m") as disk:
            adapter = self.make_adapter(disk, reserve=0)
            await adapter.start([self.interest("storm")])
            sent = []
            with pytest.raises(AdapterUnavailable):
                while True:
                    notification = self.notification(payload=f"<a>{'x' * 30_000}</a>")
                    await adapter.publish([notification])
                    sent.append(notification)
                    if len(sent) == 20:
                        fill(disk / "ballast")
            assert len(sent) >= 20
            (disk / "ballast").unlink()
            last = self.notification()
            await until_accepted(adapter, last)
            ids = await self.inbox(adapter).until(last.id)
            assert [id for id in ids if id in {n.id for n in sent}] == [n.id for n in sent]
            await adapter.close()
            assert execute(disk, "PRAGMA integrity_check") == [("ok",)]

    async def test_a_journal_that_filled_its_disk_drains(self, tmp_path: Path) -> None:
        """Settling finds room in the reserve, and publishing goes on in what it frees."""
        with small_disk(tmp_path / "disk", "8m") as disk:
            async with self.running(disk, self.interest("storm")) as adapter:
                sent = []
                with pytest.raises(AdapterUnavailable):
                    while True:
                        notification = self.notification(payload=f"<a>{'x' * 30_000}</a>")
                        await adapter.publish([notification])
                        sent.append(notification)
                inbox = self.inbox(adapter)
                taken = await inbox.take(len(sent))
                assert [delivery.notification for delivery in taken] == sent
                last = self.notification()
                await until_accepted(adapter, last)
                assert (await inbox.take(1))[0].notification == last
            assert count_messages(disk) == 0

    # -------------------------------------------------------------------------------- settings

    def test_settings(self, tmp_path: Path) -> None:
        adapter = load("embedded:?prefetch=7", data=tmp_path, settings={"reserve": "1MiB"})
        assert adapter.capabilities.prefetch == 7
        assert adapter.capabilities.durable
        assert not (tmp_path / "journal.db").exists()

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            pytest.param({"prefetch": "0"}, "a number from 1", id="too small"),
            pytest.param({"prefetch": "many"}, "a number from 1", id="no number"),
            pytest.param({"survive-power-loss": "maybe"}, "true or false", id="no flag"),
            pytest.param({"reserve": "much"}, "a number of bytes", id="no octets"),
            pytest.param({"survive-powerloss": "no"}, "did you mean", id="misspelt"),
        ],
    )
    def test_wrong_settings(self, tmp_path: Path, settings: dict[str, str], message: str) -> None:
        with pytest.raises(AdapterError, match=message):
            load("embedded:", data=tmp_path, settings=settings)

    async def test_without_surviving_power_loss(self, data: Path) -> None:
        adapter = load("embedded:?survive-power-loss=false", data=data, settings={})
        await adapter.start([EVERYTHING_WANTED])
        sent = self.notification()
        await adapter.publish([sent])
        assert (await self.inbox(adapter).take(1))[0].notification == sent
        await adapter.close()


# -------------------------------------------------------------------------------------- crashes


@pytest.mark.slow
async def test_kill_loses_nothing_and_repeats_little(tmp_path: Path) -> None:
    """Killed at random times: what was accepted is yielded, at most a window twice a crash."""
    seed = Random().randrange(2**32)
    print("seed", seed)
    random = Random(seed)
    attempts = 8
    accepted: set[str] = set()
    yielded: Counter[str] = Counter()
    for run in range(attempts):
        events = await run_until_killed(tmp_path, run, random.randrange(1, 3000))
        accepted.update(id for event, id in events if event == "a")
        yielded.update(id for event, id in events if event == "d")
    adapter = load("embedded:", data=tmp_path, settings={})
    await adapter.start([EVERYTHING_WANTED])
    async with asyncio.timeout(30):
        deliveries = adapter.deliveries()
        for _ in range(count_messages(tmp_path)):
            delivery = await anext(deliveries)
            assert delivery.redelivered
            yielded[delivery.notification.id] += 1
            delivery.settle()
    await adapter.close()
    assert accepted - yielded.keys() == set()
    assert sum(yielded.values()) - len(yielded) <= attempts * adapter.capabilities.prefetch
    assert execute(tmp_path, "PRAGMA integrity_check") == [("ok",)]
    assert count_messages(tmp_path) == 0


def test_the_log_is_flushed_before_the_answer(tmp_path: Path) -> None:
    """Between a message's last write to the log and its acceptance lies a finished fdatasync."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    trace = tmp_path / "trace"
    command = (strace, "-f", "-y", "-e", "trace=pwrite64,fdatasync,fsync,write", "-s", "20")
    run = subprocess.run(
        (*command, "-o", str(trace), *PUBLISHER, str(tmp_path / "data"), "1", "1", "50"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "ptrace" in run.stderr or "Operation not permitted" in run.stderr:
        pytest.skip(f"strace may not trace here: {run.stderr[:80]}")
    assert run.returncode == 0, run.stderr
    answers = 0
    written = flushed = False
    flushing: set[str] = set()
    for line in trace.read_text().splitlines():
        thread, _, call = line.partition(" ")
        call = call.strip()
        if "journal.db-wal>" in call and call.startswith("pwrite64"):
            written, flushed = True, False
        elif "journal.db-wal>" in call and call.startswith("fdatasync"):
            flushing.add(thread)
        if thread in flushing and re.search(r"fdatasync.*= 0$", call):
            flushing.discard(thread)
            flushed = True
        if re.match(r'write\(1<[^>]*>, "a ', call):
            answers += 1
            assert written and flushed, f"answer {answers} came before the flush"
            written = flushed = False
    assert answers == 50


# ---------------------------------------------------------------------------------- what they use


async def run_until_killed(data: Path, run: int, lines: int) -> list[tuple[str, str]]:
    """Let a process publish and consume, kill it after some *lines*, return all it said."""
    process = await asyncio.create_subprocess_exec(
        *PUBLISHER, str(data), str(run), "8", "0", cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    said = b""
    async with asyncio.timeout(60):
        while said.count(b"\n") < lines:
            chunk = await process.stdout.read(4096)
            assert chunk, "the publisher ended by itself"
            said += chunk
        process.send_signal(signal.SIGKILL)
        said += await process.stdout.read()
        await process.wait()
    whole = said[: said.rfind(b"\n")].decode().splitlines()
    return [(event, id) for event, _, id in (line.partition(" ") for line in whole)]


async def until_accepted(adapter: Adapter, notification: Notification) -> None:
    """Publish until the adapter takes it, as a publisher does."""
    await until_taken(lambda: adapter.publish([notification]), AdapterUnavailable)


def execute(data: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(data / "journal.db")
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def count_messages(data: Path) -> int:
    ((count,),) = execute(data, "SELECT count(*) FROM message")
    assert isinstance(count, int)
    return count


@contextmanager
def file_size_limit(octets: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (octets, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A file system of its own, in memory."""
    path.mkdir()
    command = ("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(("umount", "-l", str(path)), check=True)


def fill(path: Path) -> None:
    """Take all that is left of the disk of *path*."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue
