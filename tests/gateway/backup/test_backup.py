"""A backup from its making to its restoring, and everything that happens to it in between."""

import asyncio
import contextlib
import fcntl
import io
import json
import shutil
import signal
import sqlite3
import stat
import subprocess
import tarfile
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from adapters.embedded import SCHEMA_VERSION
from filters import Refused
from gateway.backup.creation import Sources, write_backup
from gateway.backup.errors import BackupError
from gateway.backup.reading import Backup, verify
from gateway.backup.restoration import restore
from gateway.backup.sources import sources_of
from gateway.security import audit, audit_chain
from gateway.security.identify import OPERATOR
from gateway.server.data_folder import DataInUse, lock
from gateway.settings.settings import Settings
from gateway.store import migrations
from tests.gateway.server.test_kill import more_acknowledged
from tests.rigs.brokers import needs_rabbitmq, rabbitmq
from tests.rigs.consumers import Consumer, accept, consumers, hang
from tests.rigs.processes import Publisher, gateway_process, publishing
from tests.rigs.programs import DRAGOMAN, environment, run
from tests.rigs.rabbitmq_adapters import environment_of
from tests.rigs.stores import execute, sqlite_url

LARGE = 3 * 2**20
PASSPHRASE = "a passphrase"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder, with a store of some MiB."""
    folder = tmp_path_factory.mktemp("made") / "data"
    folder.mkdir()
    engine = create_engine(sqlite_url(folder))
    migrations.upgrade(engine)
    engine.dispose()
    with contextlib.closing(sqlite3.connect(folder / "store.db")) as store:
        store.execute(
            "INSERT INTO messages (source, id, octets, properties, body)"
            " VALUES ('s', 'urn:1', ?, '{}', randomblob(?))",
            (LARGE, LARGE),
        )
        store.commit()
    with contextlib.closing(sqlite3.connect(folder / "journal.db")) as journal:
        journal.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    (folder / "source.key").write_bytes(b"k" * 32)
    return folder


@pytest.fixture
def sources(data: Path, tmp_path: Path) -> Sources:
    settings = tmp_path / "dragoman.toml"
    settings.write_text('log = "info"\n')
    return Sources(
        data / "store.db", data / "journal.db", (data / "source.key",), {"dragoman.toml": settings}
    )


@pytest.fixture
def backup(sources: Sources, tmp_path: Path) -> Path:
    write_backup(sources, tmp_path / "backup.tar", tmp_path, None)
    return tmp_path / "backup.tar"


def ask() -> str:
    return PASSPHRASE


def restored(path: Path, folder: Path) -> None:
    with path.open("rb") as file:
        restore(Backup(file, ask), folder)


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_what_is_backed_up_is_restored(
    sources: Sources, data: Path, tmp_path: Path, passphrase: str | None
) -> None:
    path = tmp_path / "backup"
    write_backup(sources, path, tmp_path, passphrase)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {one.name for one in tmp_path.iterdir()} == {"backup", "dragoman.toml"}
    folder = tmp_path / "new" / "data"
    restored(path, folder)
    assert {one.name for one in folder.iterdir()} == {
        *("store.db", "journal.db", "source.key", "lock", "restored-settings")
    }
    assert (folder / "restored-settings" / "dragoman.toml").read_text() == 'log = "info"\n'
    for one in (folder, *folder.rglob("*")):
        assert not stat.S_IMODE(one.stat().st_mode) & 0o077, one
    assert execute(sqlite_url(folder), "PRAGMA integrity_check") == [("ok",)]
    for name in ("store.db", "journal.db"):
        with (
            contextlib.closing(sqlite3.connect(folder / name)) as new,
            contextlib.closing(sqlite3.connect(data / name)) as old,
        ):
            assert list(new.iterdump()) == list(old.iterdump())
    lock(folder).release()  # A gateway starts.


def test_the_audit_log_is_whole_in_a_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the segments that are complete."""
    monkeypatch.setattr(audit, "SEGMENT", 1)
    path = tmp_path / "audit.jsonl"
    log = audit.AuditLog(path)
    log.open()
    for number in range(3):
        log.note(OPERATOR, "Subscribe", str(number))
        log.write()
    whole = audit_chain.verify(path)
    with path.open("ab") as file:
        file.write(b'{"number":')  # A record that is being written.
    settings = Settings(data=tmp_path)
    write_backup(sources_of(settings), tmp_path / "backup.tar", tmp_path, None)
    restored(tmp_path / "backup.tar", tmp_path / "new")
    assert audit_chain.verify(tmp_path / "new" / "audit.jsonl") == whole


def test_two_do_not_write_into_one_file(sources: Sources, tmp_path: Path) -> None:
    part = tmp_path / ".backup.tar.part"
    part.write_bytes(b"of the other")
    with part.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(BackupError, match="Another backup writes"):
            write_backup(sources, tmp_path / "backup.tar", tmp_path, None)
        assert part.read_bytes() == b"of the other"
    write_backup(sources, tmp_path / "backup.tar", tmp_path, None)  # The other was killed.
    with (tmp_path / "backup.tar").open("rb") as file:
        verify(Backup(file, ask))


@pytest.mark.slow  # It starts a process.
def test_copies_are_gone_when_it_is_terminated(data: Path, tmp_path: Path) -> None:
    command = [*DRAGOMAN, "backup", "-", "--data", str(data), "--temporary", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environment()
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)  # It writes, and cannot end: nobody reads.
        assert list(tmp_path.glob("dragoman-backup-*"))
        process.terminate()
        process.communicate()
    assert process.returncode and not list(tmp_path.iterdir())


def test_there_is_a_file_when_it_is_whole_and_not_before(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "backup.tar").write_text("the one of yesterday")
    broken = tmp_path / "store.db"
    broken.write_bytes(b"x" * 4096)
    bad = Sources(broken, None, (), {})
    with pytest.raises(BackupError):
        write_backup(bad, tmp_path / "backup.tar", tmp_path, None)
    assert (tmp_path / "backup.tar").read_text() == "the one of yesterday"
    with pytest.raises(BackupError, match="cannot be written"):
        write_backup(sources, tmp_path / "nowhere" / "backup.tar", tmp_path, None)
    assert {one.name for one in tmp_path.iterdir()} == {"backup.tar", "store.db", "dragoman.toml"}


def with_manifest(**changes: Any) -> Callable[[bytes], bytes]:
    """A backup whose manifest says something else."""

    def change(data: bytes) -> bytes:
        target = io.BytesIO()
        with (
            tarfile.open(fileobj=io.BytesIO(data)) as old,
            tarfile.open(fileobj=target, mode="w") as new,
        ):
            for member in old.getmembers():
                content = old.extractfile(member)
                assert content is not None
                body = content.read()
                if member.name == "manifest.json":
                    body = json.dumps(json.loads(body) | changes).encode()
                    member.size = len(body)
                new.addfile(member, io.BytesIO(body))
        return target.getvalue()

    return change


FILE = {"name": "data/x", "bytes": 1, "sha256": ""}
BAD: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "no backup of Dragoman"),
    "another file": (lambda _: b"%PDF-1.7 " * 1000, "no backup of Dragoman"),
    "cut in the middle": (lambda data: data[: len(data) // 2], "cut off|unexpected end"),
    "cut before the last file": (lambda data: data[: -20 * 1024], "cut off|unexpected end"),
    "a byte of the store": (
        lambda data: data[: len(data) // 2] + b"?!" + data[len(data) // 2 + 2 :],
        "data/store.db is not what was backed up",
    ),
    "another format": (with_manifest(format=2), "has format 2, and this version"),
    "a newer schema": (
        with_manifest(schema="9999", oldest_schema="9998"), "schema 9999, which a newer Dragoman",
    ),
    "too old a schema": (with_manifest(schema="0001"), "upgrades from 0023 on"),
    "a newer journal": (with_manifest(journal=99), "its journal has version 99"),
    "fewer files": (with_manifest(files=[]), "more than its manifest names"),
    "a file that is not there": (with_manifest(files=[FILE]), "is not as its manifest says"),
    "a path": (
        with_manifest(files=[{**FILE, "name": "data/../../etc/passwd"}]), "files that no backup has",
    ),
    "no files": (with_manifest(files=None), "manifest cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_backup_is_refused_and_leaves_nothing(
    name: str, backup: Path, tmp_path: Path
) -> None:
    change, said = BAD[name]
    backup.write_bytes(change(backup.read_bytes()))
    folder = tmp_path / "data"
    with pytest.raises(BackupError, match=said):
        restored(backup, folder)
    with pytest.raises(BackupError, match=said), backup.open("rb") as file:
        verify(Backup(file, ask))
    assert not folder.exists() or {one.name for one in folder.iterdir()} == {"lock"}


def test_a_newer_schema_that_this_version_can_use_is_restored(backup: Path, tmp_path: Path) -> None:
    backup.write_bytes(with_manifest(schema="9999")(backup.read_bytes()))
    restored(backup, tmp_path / "data")


def test_only_an_empty_folder_is_restored_into(backup: Path, data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(data, folder)
    before = sorted(one.name for one in folder.iterdir())
    with pytest.raises(BackupError, match=r"is not empty \(journal.db, source.key, store.db\)"):
        restored(backup, folder)
    assert sorted(one.name for one in folder.iterdir() if one.name != "lock") == before
    held = lock(tmp_path / "used")
    with pytest.raises(DataInUse):
        restored(backup, tmp_path / "used")
    held.release()


def test_a_volume_of_its_own_is_restored_into(backup: Path, tmp_path: Path) -> None:
    (tmp_path / "volume" / "lost+found").mkdir(parents=True)
    (tmp_path / "volume" / "restoring").touch()  # By one that was killed.
    restored(backup, tmp_path / "volume")
    assert {"lost+found", "store.db"} <= {one.name for one in (tmp_path / "volume").iterdir()}


@pytest.mark.parametrize("fed", [1.2, 2.5], ids=["at the beginning", "in the store"])
def test_what_was_killed_is_done_again(backup: Path, tmp_path: Path, fed: float) -> None:
    folder = tmp_path / "data"
    command = [*DRAGOMAN, "restore", "-", "--data", str(folder)]
    killed = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment(), cwd=tmp_path)
    assert killed.stdin is not None
    killed.stdin.write(backup.read_bytes()[: int(fed * 2**20)])
    killed.stdin.flush()
    seen = threading.Event()
    while not (folder / "journal.db").exists():
        seen.wait(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stdin.close()
    with pytest.raises(Refused, match="not to its end: run dragoman restore again"):
        lock(folder)
    restored(backup, folder)
    assert execute(sqlite_url(folder), "PRAGMA integrity_check") == [("ok",)]
    lock(folder).release()


async def test_a_gateway_in_traffic_is_backed_up_killed_and_restored(tmp_path: Path) -> None:
    """What was acknowledged before the backup comes from the gateway that was restored, in its
    order. Nothing was delivered before, so all of it is in the backup."""
    await kill_and_restore(tmp_path, {})


@pytest.mark.nightly
async def test_the_broker_goes_on_beside_a_restored_gateway(tmp_path: Path) -> None:
    needs_rabbitmq()
    name = f"backup-{uuid.uuid4().hex[:8]}"
    await kill_and_restore(tmp_path, environment_of(rabbitmq().url, name))


async def kill_and_restore(folder: Path, settings: dict[str, str]) -> None:
    async with consumers() as sinks:
        consumer = sinks.add(hang)
        async with gateway_process(folder / "data", settings) as gateway:
            await gateway.subscribe(consumer.url)
            async with publishing(gateway, 200.0) as publishers:
                await more_acknowledged(publishers, 60)
                before = [number for one in publishers for number in one.acknowledged]
                words = ("backup", str(folder / "b.tar"), "--data", str(gateway.data))
                adapter = settings.get("DRAGOMAN_ADAPTER", "embedded:")
                done = await asyncio.to_thread(
                    lambda: run(*words, cwd=folder, DRAGOMAN_ADAPTER=adapter)
                )
                assert done.returncode == 0, done.stderr
                await more_acknowledged(publishers, 10)
            await gateway.kill()
            restored(folder / "b.tar", folder / "new")
            consumer.received.clear()
            consumer.behaviour = accept
            gateway.data = folder / "new"
            await gateway.start()
            await consumer.have_all(before)
            await gateway.at_rest()
            judge(publishers, consumer, before)


def judge(publishers: Sequence[Publisher], consumer: Consumer, before: Sequence[str]) -> None:
    """All of *before* came, what came was published, and each publisher's is in its order."""
    attempted = {number for one in publishers for number in one.attempted}
    numbers = list(dict.fromkeys(consumer.numbers))
    assert set(before) <= set(numbers) <= attempted
    for name in "abcd":
        mine = [int(number[1:]) for number in numbers if number[0] == name]
        assert mine == sorted(mine)
