"""What is on disk is for the gateway's user alone."""

import os
import stat
from pathlib import Path

import pytest

from gateway.server.data_folder import make_private, readable_by_others
from tests.rigs.gateways import running
from tests.rigs.programs import RunningGateway, run


def open_to_others(folder: Path) -> list[str]:
    """What in *folder*, itself included, others can do something with."""
    paths = [folder, *folder.rglob("*")]
    return [str(path) for path in paths if path.lstat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)]


def test_a_gateway_makes_nothing_that_others_can_read(tmp_path: Path) -> None:
    data, archive = tmp_path / "data", tmp_path / "archive"
    former = os.umask(0o022)
    try:
        with RunningGateway("--archive", str(archive), cwd=tmp_path) as gateway:
            done = run(
                "publish", "--gateway", gateway.url, "--topic", "a", "-", cwd=tmp_path,
                stdin=b"<a/>",
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            while_it_runs = open_to_others(data)
    finally:
        os.umask(former)
    assert while_it_runs == open_to_others(data) == open_to_others(archive) == []
    assert {path.name for path in data.iterdir()} >= {"store.db", "journal.db", "lock"}
    assert any(path.is_file() for path in archive.rglob("*"))


async def test_a_folder_that_was_open_is_closed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with running(data, adapter="embedded:"):
        pass
    data.chmod(0o755)
    for path in data.iterdir():
        path.chmod(0o644)
    assert len(readable_by_others(data)) >= 4
    async with running(data, adapter="embedded:"):
        assert open_to_others(data) == []
    assert readable_by_others(data) == []


@pytest.mark.parametrize("shared", ["sticky", "working"])
def test_a_folder_that_is_not_ours_alone_keeps_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: str
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777 if shared == "sticky" else 0o755)
    if shared == "working":
        monkeypatch.chdir(folder)
    for name in ("store.db", "letter.txt"):
        (folder / name).touch()
        (folder / name).chmod(0o644)
    mode = folder.stat().st_mode
    make_private(folder)
    assert folder.stat().st_mode == mode
    assert stat.S_IMODE((folder / "store.db").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "letter.txt").stat().st_mode) == 0o644
    assert readable_by_others(folder) == [folder]


def test_doctor_says_what_others_can_read(tmp_path: Path) -> None:
    data = tmp_path / "dragoman-data"
    data.mkdir(mode=0o755)
    (data / "store.db").touch(mode=0o644)
    said = run("doctor", "--port", "0", cwd=tmp_path).stdout
    [line] = [line for line in said.splitlines() if line[6:].startswith("data:")]
    assert line.startswith("warn") and "store.db" in line and "chmod go-rwx" in line
    make_private(data)
    said = run("doctor", "--port", "0", cwd=tmp_path).stdout
    [line] = [line for line in said.splitlines() if line[6:].startswith("data:")]
    assert line.startswith("ok")
