"""Opening a store: what is migrated, what need not be, and what is refused."""

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, MetaData, create_engine, inspect, make_url, text
from structlog.testing import capture_logs

from filters import Refused
from gateway.store import Store, migrations, subscriptions
from gateway.store.migrations import upgrade
from gateway.store.migrations.older_replicas import ALIVE
from gateway.store.migrations.revisions import last_incompatible
from tests.rigs.gateways import running
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.stores import check_store, execute, on_each_store, sqlite_url

HERE = Path(__file__).parent
NEW_COLUMNS = {
    "spool": {"refused_at", "retried"},
    "mailbox_messages": {"expires", "granted"},
    "replicas": {"schema"},
    "held": {"order_key"},
}
"""What the steps from schema 0023 on add."""
STORAGE = {
    "sqlite": "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' ORDER BY name",
    "postgresql": "SELECT relname, reloptions FROM pg_class"
    " WHERE relnamespace = 'public'::regnamespace ORDER BY relname",
}
"""How tables are kept: without row numbers, with room beside their rows."""


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


@on_each_store
@pytest.mark.parametrize("revision", ["0023", "head"])
def test_what_is_upgraded_has_the_tables_of_what_is_new(
    store_url: str, other_url: str, revision: str
) -> None:
    make_0023(store_url)
    assert _tables(store_url, revision) == _tables(other_url, revision)


NEW_TABLES = (
    "replica_rates",
    "replica_failures",
    "used_nonces",
    "host_decisions",
    "token_roles",
    "replays",
    "signed_events",
    "revocations",
    "identities",
    "shown_certificates",
)


@on_each_store
async def test_rows_of_schema_0023_are_kept(store_url: str) -> None:
    make_0023(store_url)
    before = _rows(store_url)
    assert len([name for name, rows in before.items() if rows]) > 15
    await _open(store_url)
    after = _rows(store_url)
    assert execute(store_url, "SELECT refused, refused_at, retried FROM spool ORDER BY number") == [
        (None, None, False),
        ("too large", 1795789661.5, False),
    ]
    for name, rows in after.items():
        for row in rows:
            for column in NEW_COLUMNS.get(name, ()):
                del row[column]
    del before["alembic_version"], after["alembic_version"]
    assert {after.pop(name) == [] for name in NEW_TABLES} == {True}
    assert after["versions"].pop(0) == {"name": "oldest_schema", "version": 29}
    assert before == after
    check_store(store_url)


@on_each_store
async def test_numbers_go_on_behind_those_of_schema_0023(store_url: str) -> None:
    make_0023(store_url)
    await _open(store_url)
    execute(
        store_url,
        "INSERT INTO messages (source, id, octets, properties, body)"
        " SELECT source, 'urn\\:new', octets, properties, body FROM messages WHERE number = 1",
    )
    assert execute(store_url, "SELECT number FROM messages WHERE id = 'urn\\:new'") == [(3,)]


async def test_a_gateway_starts_with_a_data_folder_of_schema_0023(tmp_path: Path) -> None:
    make_0023(sqlite_url(tmp_path))
    async with running(tmp_path, adapter="embedded:") as run:
        [one] = await run.gateway.store.submit(subscriptions.load)
        assert one.id == "1e000119e074"


@on_each_store
@pytest.mark.parametrize("revision", ["0001", "0022"])
async def test_what_is_too_old_is_refused_and_left_alone(store_url: str, revision: str) -> None:
    make_0023(store_url, revision)
    before = _rows(store_url)
    with pytest.raises(Refused) as caught:
        await _open(store_url)
    assert str(caught.value) == (
        f"The store has the schema {revision}, and this version of Dragoman upgrades from 0023 on;"
        " open it once with Dragoman of commit a2f1684c, or use another store."
    )
    assert _rows(store_url) == before


@on_each_store
@pytest.mark.parametrize("revision", ["9999", "00ab3f"])
async def test_what_is_newer_is_refused(store_url: str, revision: str) -> None:
    make_0023(store_url, revision)
    with pytest.raises(Refused, match=f"schema {revision}, which a newer Dragoman wrote"):
        await _open(store_url)


@on_each_store
async def test_a_newer_schema_is_used_by_the_versions_that_it_was_made_for(store_url: str) -> None:
    await _open(store_url)
    execute(store_url, "UPDATE alembic_version SET version_num = '9999'")
    with capture_logs() as logs:
        await _open(store_url)
    assert logs == [
        {
            "event": "store.schema-newer",
            "log_level": "info",
            "schema": "9999",
            "known": migrations.newest(),
        }
    ]
    execute(store_url, "UPDATE versions SET version = 9998 WHERE name = 'oldest_schema'")
    with pytest.raises(Refused, match="schema 9999, which a newer Dragoman wrote"):
        await _open(store_url)


async def test_a_file_is_copied_before_it_is_migrated(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    make_0023(url)
    before = _rows(url)
    (tmp_path / "store-schema-0022.db").touch()  # The copy of an earlier migration.
    with capture_logs() as logs:
        await _open(url)
    copied, migrated = logs
    copy = tmp_path / "store-schema-0023.db"
    assert (copied["event"], copied["copy"], copied["schema"]) == (
        "store.copied",
        str(copy),
        "0023",
    )
    assert (migrated["event"], migrated["from"], migrated["to"]) == (
        "store.migrated",
        "0023",
        migrations.newest(),
    )
    assert {path.name for path in tmp_path.glob("store*")} == {"store.db", copy.name}
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    copy.replace(tmp_path / "store.db")  # The way back.
    assert _rows(url) == before
    check_store(url)


async def test_what_cannot_be_copied_is_not_migrated(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    make_0023(url)
    before = _rows(url)
    (tmp_path / "store-schema-0023.part").mkdir()
    with pytest.raises(
        Refused, match=r"^The store cannot be copied before its migration: Is a dir"
    ):
        await _open(url)
    assert _rows(url) == before


@pytest.fixture
def older_store() -> Iterator[Engine]:
    """A database on PostgreSQL of the schema before the last that is not backward compatible."""
    needs_postgresql()
    last = last_incompatible(migrations.revisions())
    assert last is not None
    with fresh_database() as url:
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        upgrade(engine, migrations.revisions()[migrations.revisions().index(last) - 1])
        yield engine
        engine.dispose()


def _run_older(engine: Engine, last_sign_of_life: float) -> None:
    """A replica of before, which gave its *last_sign_of_life* so many seconds ago."""
    at = f"extract(epoch FROM clock_timestamp()) - ({last_sign_of_life})"
    statement = f"INSERT INTO replicas (number, id, heartbeat) SELECT 1, 'e1', {at}"
    with engine.begin() as connection:
        connection.execute(text(statement))


def test_nothing_is_migrated_while_an_older_replica_runs_that_could_not_go_on(
    older_store: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "LOOKS", 0.05)
    monkeypatch.setattr(migrations, "ALIVE", 0.0)  # So long is waited for one that was killed.
    _run_older(older_store, -60.0)
    with older_store.connect() as connection:
        before = migrations.current_schema(connection)
    with pytest.raises(migrations.OlderReplicas) as caught:
        upgrade(older_store)
    assert str(caught.value) == (
        f"The store is not migrated to schema {migrations.newest()} while gateways of an older "
        "version use it that could not go on (e1): stop these first, then start this one."
    )
    with older_store.connect() as connection:
        assert migrations.current_schema(connection) == before


def test_an_older_replica_that_was_killed_is_waited_for(older_store: Engine) -> None:
    _run_older(older_store, ALIVE - 0.3)
    upgrade(older_store)
    with older_store.connect() as connection:
        assert migrations.current_schema(connection) == migrations.newest()


@pytest.fixture
def other_url(store_url: str, tmp_path: Path) -> Iterator[str]:
    """A second empty database of the same kind."""
    if store_url.startswith("sqlite"):
        yield f"sqlite:///{tmp_path / 'other.db'}"
        return
    with fresh_database() as url:
        yield url


def make_0023(url: str, revision: str = "0023") -> None:
    """Make the tables of schema 0023 in an empty database, and some rows in them; it says that its
    schema is *revision*."""
    _run_script(url)
    if revision != "0023":
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            statement = text("UPDATE alembic_version SET version_num = :revision")
            connection.execute(statement, {"revision": revision})
        engine.dispose()


def _run_script(url: str) -> None:
    if url.startswith("sqlite"):
        script = (HERE / "schema_0023_sqlite.sql").read_text()
        with closing(sqlite3.connect(str(make_url(url).database))) as connection:
            connection.executescript(script)
        return
    script = (HERE / "schema_0023_postgresql.sql").read_text()
    with psycopg.connect(url) as server:
        server.execute(script.encode())


def _tables(url: str, revision: str) -> object:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        upgrade(engine, revision)
        with engine.connect() as connection:
            storage = connection.execute(text(STORAGE[engine.dialect.name])).all()
        return storage, {
            name: _described(engine, name) for name in inspect(engine).get_table_names()
        }
    finally:
        engine.dispose()


def _described(engine: Engine, table: str) -> object:
    seen = inspect(engine)
    lists = (
        seen.get_unique_constraints(table),
        seen.get_foreign_keys(table),
        seen.get_check_constraints(table),
        seen.get_indexes(table),
    )
    return (
        [repr({**each, "type": repr(each["type"])}) for each in seen.get_columns(table)],
        seen.get_pk_constraint(table),
        [sorted(_plain(each) for each in found) for found in lists],
    )


def _plain(described: object) -> str:
    """Text of what was reflected: a condition of an index is equal to itself alone."""
    if isinstance(described, dict):
        return str(sorted((key, _plain(value)) for key, value in described.items()))
    return str(described)


def _rows(url: str) -> dict[str, list[dict[str, object]]]:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    metadata = MetaData()
    try:
        with engine.connect() as connection:
            metadata.reflect(connection)
            return {
                name: [
                    dict(row)
                    for row in connection.execute(
                        table.select().order_by(*table.primary_key)
                    ).mappings()
                ]
                for name, table in metadata.tables.items()
            }
    finally:
        engine.dispose()


async def _open(url: str) -> None:
    store = Store(url)
    await store.start()
    await store.close()
