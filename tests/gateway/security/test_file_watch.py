"""Files that are read again when they change."""

import asyncio
from pathlib import Path

import pytest

from gateway.security import file_watch
from gateway.security.file_watch import MOST_LOOKS, FileWatch
from tests.rigs.waiting import DEADLINE


async def test_changes_are_noticed_since_it_was_made(tmp_path: Path) -> None:
    one, other, missing = (tmp_path / name for name in ("one", "other", "missing"))
    one.write_text("1")
    other.write_text("1")
    watch = FileWatch([one, other, missing])
    one.write_text("11")
    async with asyncio.timeout(DEADLINE):
        assert await watch.changes(0) == {one}
        missing.write_text("1")
        other.unlink()
        assert await watch.changes(0) == {other, missing}


async def test_a_volume_that_is_exchanged_as_a_whole(tmp_path: Path) -> None:
    """As Kubernetes does it: the file is a link through a folder that is a link."""
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "secret").write_text("same")
    data, secret = tmp_path / "..data", tmp_path / "secret"
    data.symlink_to("v1")
    secret.symlink_to("..data/secret")
    watch = FileWatch([secret])
    (tmp_path / "new").symlink_to("v2")
    (tmp_path / "new").rename(data)
    async with asyncio.timeout(DEADLINE):
        assert await watch.changes(0) == {secret}


@pytest.mark.parametrize(
    "states, looks",
    [
        ([1, 2, 3, 4, 4, 5], 5),
        ([1, 2, 2, 3], 3),
        ([1, 1, 2, 2, 3], 4),
        (list(range(100)), 2 + MOST_LOOKS),
    ],
    ids=["written in pieces", "at once", "after a while", "without end"],
)
async def test_a_file_is_read_when_nobody_writes(
    states: list[int], looks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the middle of what somebody writes into it."""
    seen = iter(states)
    monkeypatch.setattr(file_watch, "SETTLED", 0.0)
    monkeypatch.setattr(file_watch, "_state", lambda path: (next(seen),))
    watch = FileWatch([tmp_path / "identities.toml"])
    async with asyncio.timeout(DEADLINE):
        assert await watch.changes(0) == {tmp_path / "identities.toml"}
    assert next(seen) == states[looks]
