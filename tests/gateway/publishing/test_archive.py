"""The archive: what is in it, and that it disturbs nobody."""

import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lxml import etree
from structlog.testing import capture_logs

import gateway.publishing.archive
from filters import DEFAULT_TOPIC, Step, Topic
from filters.archive import JSON_LINES, PARQUET, Row, directory, read
from gateway.publishing.archive import QUEUE_ROWS, Archive
from mediation.model.messages import Notification
from mediation.model.versions import Wsa
from tests.gateway.server.test_disk import disk as disk
from tests.rigs.consumers import accept, consumers, reset, status
from tests.rigs.envelopes import S11, Speaker, notification_message, notify
from tests.rigs.gateways import Running, running
from tests.rigs.processes import Publisher, gateway_process
from tests.rigs.waiting import until

PLANT = Topic((Step("urn:test", "Plant"), Step(None, "Line")))
DEADLINE = 60.0


def notification(number: int = 1, topic: Topic | None = PLANT, filling: int = 0) -> Notification:
    payload = f"<n>{number}{'x' * filling}</n>".encode()
    return Notification(f"urn:{number}", "urn:me", payload, datetime.now(UTC), topic)


def files(folder: Path) -> list[Path]:
    """The finished files. Nothing else may be in the folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    assert all(path.name.endswith((PARQUET, JSON_LINES)) for path in found), found
    return found


def rows(folder: Path) -> list[Row]:
    """All of them; each must lie where its topic and time put it."""
    found = []
    for path in files(folder):
        for row in read(path):
            topic = None if row.topic is None else PLANT
            assert path.parent == folder / directory(topic, row.time)
            found.append(row)
    return found


def number_of(row: Row) -> str:
    return etree.fromstring(row.payload).text or ""


@asynccontextmanager
async def archiving(folder: Path, period: float = 60.0) -> AsyncIterator[Archive]:
    archive = Archive(folder, period=period)
    archive.start()
    yield archive
    await archive.close(DEADLINE)


@pytest.fixture(params=[PARQUET, JSON_LINES])
def suffix(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    suffix: str = request.param
    if suffix == PARQUET:
        pytest.importorskip("pyarrow")
    monkeypatch.setattr(gateway.publishing.archive, "best_suffix", lambda: suffix)
    return suffix


# In a whole gateway.


async def published(run: Running, first: int) -> list[str]:
    """Publish in both specifications, on topics that somebody wants and that nobody does."""
    wsn, wse = Speaker(), Speaker(S11, Wsa.V2004_08)
    numbers = [str(first + number) for number in range(4)]
    payloads = [f"<n>{number}</n>" for number in numbers]
    producer = '<a:Address xmlns:a="http://www.w3.org/2005/08/addressing">urn:p</a:Address>'
    await run.ask(
        wsn,
        notify(
            notification_message(payloads[0], "t:Plant/Line", producer=producer),
            notification_message(payloads[1]),
            scope='xmlns:t="urn:test"',
        ),
    )
    await run.publish(payloads[2], speaker=wse, action="urn:test:act")
    await run.publish(payloads[3], path="/soap/topic/%7Burn:test%7DPlant%2FLine")
    return numbers


@pytest.mark.parametrize("subscribers", [0, 3])
async def test_each_notification_is_there_once(
    tmp_path: Path, suffix: str, subscribers: int
) -> None:
    """Also one that is held for a consumer that fails, and over stops and starts."""
    archive, data = tmp_path / "archive", tmp_path / "data"
    async with consumers() as sinks:
        behaviours = [accept, status(503), reset]
        those = [sinks.add(behaviour) for behaviour in behaviours[:subscribers]]
        sent: list[str] = []
        for turn in range(3):
            async with running(data, adapter="embedded:", archive=archive, drain=0.2) as run:
                if turn == 0:
                    for consumer in those:
                        await run.subscribe(Speaker(), Speaker().wsn_subscribe(consumer.url))
                sent += await published(run, 10 * turn)
                if turn == 2:  # What a stop leaves unsettled comes after the next start.
                    await until(lambda: run.gateway.dispatchers.unsettled == 0)
                assert not [log for log in run.logs if log["event"].startswith("archive.")]
    found = rows(archive)
    assert Counter(map(number_of, found)) == Counter(sent)
    assert len({row.id for row in found}) == len(sent)
    assert {path.name.removeprefix(path.stem.partition(".")[0]) for path in files(archive)} == {
        suffix
    }
    by_number = {number_of(row): row for row in found}
    assert by_number["0"].topic == "{urn:test}Plant/Line"
    assert by_number["0"].producer == "urn:p"
    assert by_number["1"].topic is None
    assert by_number["2"].action == "urn:test:act"
    assert by_number["3"].topic == "{urn:test}Plant/Line"


async def test_metrics(tmp_path: Path) -> None:
    async with running(tmp_path / "data", archive=tmp_path / "archive") as run:
        await run.publish("<n>1</n>")
        text = (await run.request("GET", "/metrics")).body.decode()
        for name in ("rows", "files", "bytes", "dropped"):
            assert f"dragoman_archive_{name}_total 0.0\n" in text
        assert (await run.request("GET", "/readyz")).status == 200
    assert len(rows(tmp_path / "archive")) == 1
    async with running(tmp_path / "data") as run:
        assert b"archive" not in (await run.request("GET", "/metrics")).body


async def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    in_the_way = tmp_path / "archive"
    in_the_way.write_text("a file")
    async with consumers() as sinks:
        consumer = sinks.add()
        async with running(tmp_path / "data", archive=in_the_way) as run:
            await run.subscribe(Speaker(), Speaker().wsn_subscribe(consumer.url))
            for number in range(3):
                await run.publish(f"<n>{number}</n>")
            await consumer.have(3)
            archive = run.gateway.archive
            assert archive is not None
            await until(lambda: archive.counts["dropped"] == 3)
            assert (await run.request("GET", "/readyz")).status == 200
            in_the_way.unlink()
            await run.publish("<n>3</n>")
        said = [log["event"] for log in run.logs if log["event"].startswith("archive.")]
    assert said == ["archive.unavailable", "archive.dropped"]
    assert [number_of(row) for row in rows(in_the_way)] == ["3"]


async def test_kill_leaves_readable_files_alone(tmp_path: Path) -> None:
    """What was open is completed by the next start, or removed."""
    archive = tmp_path / "archive"
    environment = {"DRAGOMAN_ARCHIVE": str(archive)}
    async with gateway_process(tmp_path / "data", environment) as one:
        publisher = Publisher(one, "a", filling=400_000)
        for _ in range(15):  # More than a group: some of it is on the disk.
            assert await publisher.publish() == 202
        unfinished = archive / "_unfinished"
        await until(lambda: any(unfinished.glob("*/day=*")))
        publisher.close()
        await one.kill()
        assert list(unfinished.glob("*/day=*"))
        await one.start()
        await publisher.publish()
        publisher.close()
        await one.at_rest()
        await one.end()
        assert "archive.leftover-" in one.log.read_text()
    found = Counter(row.id for row in rows(archive))
    assert "urn:test:a16" in {id.partition("#")[0] for id in found}
    assert set(found.values()) == {1}


# The writer alone.


async def test_files_are_finished_as_time_passes(tmp_path: Path, suffix: str) -> None:
    async with archiving(tmp_path, period=0.1) as archive:
        archive.offer(notification(1))
        await until(lambda: archive.counts["files"] == 1)
        archive.offer(notification(2))
        await until(lambda: archive.counts["files"] == 2)
        counts = archive.counts
        assert (counts["rows"], counts["dropped"]) == (2, 0)
        sizes = [path.stat().st_size for path in tmp_path.rglob("*" + suffix)]
        assert counts["bytes"] == sum(sizes) > 0
    assert sorted(row.payload for row in rows(tmp_path)) == ["<n>1</n>", "<n>2</n>"]
    assert not (tmp_path / "_unfinished").exists()


async def test_a_file_for_each_day_and_root(tmp_path: Path, suffix: str) -> None:
    today = notification(1)
    yesterday = replace(today, time=today.time - timedelta(days=1))
    async with archiving(tmp_path) as archive:
        for one in (today, replace(today, topic=None), replace(today, topic=DEFAULT_TOPIC)):
            archive.offer(one)
        archive.offer(yesterday)
    assert len(files(tmp_path)) == 3
    assert sorted((row.topic or "", row.time) for row in rows(tmp_path)) == [
        ("", today.time), ("", today.time),
        (str(PLANT), yesterday.time), (str(PLANT), today.time),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bound", "value", "sent"),
    [("FILE_ROWS", 10, 20), ("FILE_BYTES", 10_000, 20), ("BUFFERED", 10_000, 20)],
)
async def test_a_file_ends_when_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int, sent: int
) -> None:
    monkeypatch.setattr(gateway.publishing.archive, bound, value)
    async with archiving(tmp_path) as archive:
        for number in range(sent):
            archive.offer(notification(number, filling=1000))
        await until(lambda: archive.counts["files"] > 0)
        assert archive.counts["dropped"] == 0
    assert len(rows(tmp_path)) == sent


async def test_what_is_too_much_is_dropped_and_counted(tmp_path: Path) -> None:
    """The thread has not begun: as if the disk hung."""
    with capture_logs() as logs:
        archive = Archive(tmp_path)
        for number in range(QUEUE_ROWS + 5):
            archive.offer(notification(number))
        assert archive.counts["dropped"] == 5
        archive.start()
        await archive.close(60)
        assert archive.counts["rows"] == QUEUE_ROWS
        archive.offer(notification())
        assert archive.counts["dropped"] == 6
    assert [log["event"] for log in logs] == ["archive.dropped"]


async def test_octets_are_bounded_too(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    for number in range(6):
        archive.offer(notification(number, filling=8 * 2**20))
    assert archive.counts["dropped"] == 2
    archive.start()
    await archive.close(60)
    assert archive.counts["rows"] == 4


async def test_roots_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway.publishing.archive, "MAX_FILES", 3)
    async with archiving(tmp_path, period=0.3) as archive:
        for number in range(5):
            archive.offer(notification(number, Topic((Step("urn:t", f"t{number}"),))))
        await until(lambda: archive.counts["files"] == 3)
        assert archive.counts["dropped"] == 2
        archive.offer(notification(5, Topic((Step("urn:t", "t5"),))))
        await until(lambda: archive.counts["files"] == 4)
    assert archive.counts["dropped"] == 2


async def test_a_text_that_is_none_is_left_out(tmp_path: Path) -> None:
    async with archiving(tmp_path) as archive:
        archive.offer(replace(notification(1), action="\ud800"))
        archive.offer(notification(2))
    assert [row.id for row in rows(tmp_path)] == ["urn:2"]
    assert archive.counts["dropped"] == 1


async def test_a_full_disk(disk: Path, suffix: str) -> None:
    """What does not fit is counted; when there is room again, it goes on."""
    folder = disk / "archive"
    async with archiving(folder, period=0.1) as archive:
        archive.offer(notification(1))
        await until(lambda: archive.counts["rows"] == 1)
        filler = disk / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(2**14))
        noise = os.urandom(2**19).hex().encode()  # Nothing makes it small.
        archive.offer(replace(notification(2), payload=noise))
        await until(lambda: archive.counts["dropped"] == 1)
        filler.unlink()
        archive.offer(notification(3))
        await until(lambda: archive.counts["rows"] == 2)
    assert sorted(row.id for row in rows(folder)) == ["urn:1", "urn:3"]


async def test_gateways_share_a_folder(tmp_path: Path) -> None:
    """Nobody touches what another one that lives has begun."""
    async with archiving(tmp_path) as one:
        one.offer(notification(1))
        for number in range(8):
            one.offer(notification(number, filling=2**20))
        await until(lambda: bool(list(tmp_path.glob("_unfinished/*/day=*"))))
        async with archiving(tmp_path) as other:
            other.offer(notification(9))
        assert len(list(tmp_path.glob("_unfinished/*/day=*"))) == 1
    assert len(rows(tmp_path)) == 10


async def test_a_folder_that_is_removed_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    async with archiving(folder, period=0.1) as archive:
        archive.offer(notification(1))
        await until(lambda: archive.counts["files"] == 1)
        shutil.rmtree(folder)
        archive.offer(notification(2))
        await until(lambda: archive.counts["files"] == 2)
    assert [row.id for row in rows(folder)] == ["urn:2"]
