"""Opening a store: what is migrated, and what needs not be."""

from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from gateway.store import Store, migrations
from gateway.store.migrations import upgrade
from tests.rigs.stores import execute, on_each_store, sqlite_url


@on_each_store
async def test_what_is_up_to_date_is_left_alone(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _open(store_url)
    asked: list[object] = []
    monkeypatch.setattr(command, "upgrade", lambda *arguments: asked.append(arguments))
    await _open(store_url)
    assert asked == []


def test_files_are_named_for_their_revisions() -> None:
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    found = [script.revision for script in scripts.walk_revisions()]
    assert migrations.revisions() == tuple(reversed(found))


async def test_the_copy_that_tests_get_is_what_migrating_makes(tmp_path: Path) -> None:
    migrated = f"sqlite:///{tmp_path / 'migrated.db'}"
    engine = create_engine(migrated)
    upgrade(engine)
    engine.dispose()
    urls = [sqlite_url(tmp_path), f"sqlite:///{tmp_path / 'second.db'}"]
    for url in urls:  # One of the two is a copy.
        await _open(url)
    tables = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    versions = "SELECT version_num FROM alembic_version"
    for url in urls:
        assert execute(url, tables) == execute(migrated, tables)
        assert execute(url, versions) == execute(migrated, versions)
        assert execute(url, "PRAGMA journal_mode") == [("wal",)]


async def _open(url: str) -> None:
    store = Store(url)
    await store.start()
    await store.close()
