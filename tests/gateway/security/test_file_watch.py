"""Files that are read again when they change."""

import asyncio
from pathlib import Path

from gateway.security.file_watch import FileWatch
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
