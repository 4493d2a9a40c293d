"""Files that are written whole: also where the process is killed at any step."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.atomic_files import create_file, replace_file
from gateway.identities.file_editing import create_identities
from gateway.security.identities import load_identities

KILLED = """
import os, signal, sys
from pathlib import Path
from gateway import atomic_files
from gateway.identities.file_editing import create_identities

def kill(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)

setattr(os, sys.argv[2], kill)
create_identities(Path(sys.argv[1]))
"""


def test_a_file_is_made_once_and_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "key"
    create_file(path, b"one")
    with pytest.raises(FileExistsError):
        create_file(path, b"two")
    assert path.read_bytes() == b"one" and stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    replace_file(path, b"three")
    assert path.read_bytes() == b"three" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["key"]


def test_what_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        create_file(tmp_path / "key", b"one")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_killed_while_the_first_identities_are_written(tmp_path: Path, step: str) -> None:
    path = tmp_path / "identities.toml"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path), step], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not path.exists()  # So the next start makes it.
    assert create_identities(path).startswith("drg_")
    assert len(load_identities(path).keys) == 1


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    path, link = tmp_path / "elsewhere" / "file", tmp_path / "link"
    path.write_bytes(b"old")
    link.symlink_to(path)
    replace_file(link, b"new")
    assert link.is_symlink() and path.read_bytes() == b"new"
    assert {one.name for one in path.parent.iterdir()} == {"file"}
