"""The store in a database: the contract on SQLite and PostgreSQL, by URL and by an engine."""

import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, select, text
from sqlalchemy.exc import IntegrityError, InvalidRequestError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from gateway.reliability.records import InvokerBuffer, InvokerMessage
from gateway.reliability.storage import (
    InDoubt,
    StorageManager,
    StorageUnavailable,
    Taken,
    Transaction,
    run,
)
from gateway.reliability.stores import engines, tables
from gateway.reliability.stores.database import DatabaseStore
from tests.conftest import ROOT
from tests.gateway.reliability.stores.contract import StoreContract, incoming, message, outgoing
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.stores import outage, statements_of


class TestSQLite(StoreContract):
    one_writer = True

    def make_store(self, data: Path) -> StorageManager:
        return DatabaseStore(f"sqlite:///{data / 'reliable.db'}")


@pytest.mark.nightly
class TestSQLiteOfAnApplication(StoreContract):
    one_writer = True
    engine: Engine

    @pytest.fixture
    def data(self, tmp_path: Path) -> Iterator[Path]:
        self.engine = create_engine(f"sqlite:///{tmp_path / 'application.db'}")
        yield tmp_path
        self.engine.dispose()

    def make_store(self, data: Path) -> StorageManager:
        return DatabaseStore(self.engine)


@pytest.fixture(scope="module")
def emptied() -> Iterator[str]:
    """A database of PostgreSQL for all tests of the contract."""
    needs_postgresql()
    with fresh_database() as url:
        yield url


class TestPostgreSQL(StoreContract):
    url: str

    @pytest.fixture
    def data(self, tmp_path: Path, emptied: str) -> Path:
        self.url = emptied
        engine = engines.own_engine(emptied)
        tables.metadata.drop_all(engine)
        engine.dispose()
        return tmp_path

    def make_store(self, data: Path) -> StorageManager:
        return DatabaseStore(self.url)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "postgresql":
        found: str = request.getfixturevalue("postgresql_url")
        return found.replace("postgresql://", "postgresql+psycopg://")
    return f"sqlite:///{tmp_path / 'application.db'}"


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """The engine of an application that has a table of orders."""
    made = create_engine(url)
    with made.begin() as connection:
        connection.execute(text("CREATE TABLE orders (number INTEGER PRIMARY KEY)"))
    yield made
    made.dispose()


@pytest.fixture
def store(engine: Engine) -> DatabaseStore:
    return DatabaseStore(engine)


def order(connection: Any, number: int) -> None:
    connection.execute(text("INSERT INTO orders VALUES (:number)"), {"number": number})


def orders(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT number FROM orders ORDER BY 1")).scalars())


def keys(store: DatabaseStore) -> list[str]:
    with store.look() as look:
        return [one.key for one in look.outgoing_page("", 99)]


class Undone(Exception):
    pass


# ------------------------------------------------------------------------------ with an application


def test_an_application_changes_its_tables_together_with_messages(
    store: DatabaseStore, engine: Engine
) -> None:
    with store.transaction() as tx:
        tx.outgoing.put(outgoing("a"))
        order(tx.connection, 1)
    with pytest.raises(Undone), store.transaction() as tx:
        tx.outgoing.put(outgoing("b"))
        order(tx.connection, 2)
        raise Undone
    assert (keys(store), orders(engine)) == (["a"], [1])


def test_a_session_ends_nothing_but_its_own_part(store: DatabaseStore, engine: Engine) -> None:
    with store.transaction() as tx:
        tx.outgoing.put(outgoing("a"))
        session = tx.session()
        order(session, 1)
        session.commit()
        order(session, 2)
        session.rollback()
        order(session, 3)
        with tx.session() as other:
            order(other, 4)
            other.commit()
        assert orders(engine) == []
    assert (keys(store), orders(engine)) == (["a"], [1, 3, 4])
    with pytest.raises(Undone), store.transaction() as tx:
        tx.outgoing.put(outgoing("b"))
        session = tx.session()
        order(session, 5)
        session.commit()
        raise Undone
    assert (keys(store), orders(engine)) == (["a"], [1, 3, 4])


def test_mapped_classes(store: DatabaseStore, engine: Engine) -> None:
    class Base(DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = "orders"
        number: Mapped[int] = mapped_column(primary_key=True)

    with store.transaction() as tx:
        tx.session().add(Order(number=1))  # Flushed at the end.
    assert orders(engine) == [1]
    with pytest.raises(IntegrityError), store.transaction() as tx:
        tx.outgoing.put(outgoing("a"))
        tx.session().add(Order(number=1))
    assert keys(store) == []
    with store.transaction() as tx:
        session = tx.session()
        session.add(Order(number=1))
        with pytest.raises(IntegrityError):
            session.flush()
        session.rollback()
        tx.outgoing.put(outgoing("a"))  # What failed was the session's alone.
    assert keys(store) == ["a"]


def test_nobody_else_commits(store: DatabaseStore, engine: Engine) -> None:
    with pytest.raises(RuntimeError, match="end of its block"), store.transaction() as tx:
        tx.outgoing.put(outgoing("a"))
        order(tx.connection, 1)
        tx.connection.commit()
    assert (keys(store), orders(engine)) == ([], [])
    with engine.begin() as connection:  # Elsewhere it commits as ever.
        order(connection, 2)
    with store.transaction() as tx:
        order(tx.connection, 3)
    assert orders(engine) == [2, 3]


def test_who_rolls_back_does_not_commit(store: DatabaseStore, engine: Engine) -> None:
    with pytest.raises(InvalidRequestError), store.transaction() as tx:
        tx.outgoing.put(outgoing("a"))
        tx.connection.rollback()
    assert keys(store) == []


def test_who_rolls_back_to_a_savepoint_undoes_nothing_before_it(
    store: DatabaseStore, engine: Engine
) -> None:
    with store.transaction() as tx:
        tx.invoker.put(InvokerBuffer("buffer"))
        tx.outgoing.put(outgoing("key"))
    with store.transaction() as tx:
        tx.invoker.put(InvokerBuffer("buffer", count=7))
        tx.outgoing.put(outgoing("key", identifier="urn:1"))
        with tx.connection.begin_nested() as savepoint:
            assert tx.outgoing.find_identified("urn:1") == outgoing("key", identifier="urn:1")
            savepoint.rollback()
    with store.transaction() as tx:
        assert tx.invoker.find("buffer") == InvokerBuffer("buffer", count=7)
        assert tx.outgoing.find("key") == outgoing("key", identifier="urn:1")


def test_a_part_that_fails_undoes_nothing_before_it(store: DatabaseStore, engine: Engine) -> None:
    with store.transaction() as tx:
        tx.invoker.put(InvokerBuffer("buffer"))
        for number in (1, 2, 3):
            tx.invoker.add_message("buffer", InvokerMessage(number, b"<m/>"))
        tx.outgoing.put(outgoing("key"))
        tx.outgoing.put_message("key", message(1))
    with store.transaction() as tx:
        tx.invoker.put(InvokerBuffer("buffer", count=3))
        tx.invoker.remove_message("buffer", 1)
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            tx.invoker.put(InvokerBuffer("buffer", count=7))
            tx.invoker.remove_message("buffer", 2)
            assert [each.number for each in tx.invoker.messages("buffer", 1, 9)] == [3]
            tx.outgoing.put(outgoing("key", identifier="urn:1"))
            tx.outgoing.put_message("key", message(2))
            assert tx.outgoing.message("key", 2) == message(2)
            tx.connection.execute(text("DELETE FROM dragoman_rm_outgoing_messages"))
            raise ZeroDivisionError
        with tx.savepoint():
            assert tx.invoker.find("buffer") == InvokerBuffer("buffer", count=3)
            tx.invoker.remove_message("buffer", 3)
    with store.transaction() as tx:
        assert tx.invoker.find("buffer") == InvokerBuffer("buffer", count=3)
        assert [each.number for each in tx.invoker.messages("buffer", 1, 9)] == [2]
        assert tx.outgoing.find("key") == outgoing("key")
        assert tx.outgoing.messages("key", 9) == [message(1)]


def test_a_session_ends_with_its_savepoint(store: DatabaseStore, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE things (name TEXT)"))
    with store.transaction() as tx:
        with tx.savepoint():
            tx.session().execute(text("INSERT INTO things VALUES ('kept')"))
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            tx.session().execute(text("INSERT INTO things VALUES ('lost')"))
            raise ZeroDivisionError
    with engine.begin() as connection:
        assert list(connection.execute(text("SELECT name FROM things")).scalars()) == ["kept"]
        connection.execute(text("DROP TABLE things"))


def test_what_changes_again_and_again_is_written_once(
    store: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.transaction() as tx:
        tx.incoming.put(incoming("urn:1"))
        tx.incoming.put(incoming("urn:2"))
    written = statements_of(monkeypatch)
    with store.transaction() as tx:
        for number in range(5):
            for key in ("urn:1", "urn:2"):
                tx.incoming.put(incoming(key, unacknowledged=number))
                assert tx.incoming.find(key) == incoming(key, unacknowledged=number)
    [update] = [each for each in written if each.startswith("UPDATE")]
    assert "unacknowledged" in update
    assert "received" not in update
    with store.transaction() as tx:
        assert tx.incoming.find("urn:2") == incoming("urn:2", unacknowledged=4)


def test_an_error_of_the_application_is_its_own(store: DatabaseStore, engine: Engine) -> None:
    with pytest.raises(IntegrityError), store.transaction() as tx:
        tx.outgoing.put(outgoing("a"))
        order(tx.connection, 1)
        order(tx.connection, 1)
    assert (keys(store), orders(engine)) == ([], [])


def test_no_other_database_takes_part(store: DatabaseStore) -> None:
    with pytest.raises(TypeError, match="TwoPhaseStore"), store.transaction() as tx:
        tx.enlist("orders")


def test_a_commit_is_durable_whatever_the_application_says(url: str) -> None:
    engine = create_engine(url)

    @event.listens_for(engine, "connect")
    def _careless(connection: Any, _record: Any) -> None:
        if engine.dialect.name == "sqlite":
            connection.execute("PRAGMA synchronous=OFF")
        else:
            connection.execute("SET synchronous_commit = off")
            connection.commit()

    store = DatabaseStore(engine)
    for _ in range(2):
        with store.transaction() as tx:
            if engine.dialect.name == "sqlite":
                assert tx.connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
            else:
                assert tx.connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    engine.dispose()


# ------------------------------------------------------------------------------------- its tables


def test_removal_leaves_no_row(store: DatabaseStore, engine: Engine) -> None:
    with store.transaction() as tx:
        tx.incoming.put(incoming("urn:1", create_id="urn:c", owner="alice"))
        tx.invoker.put(InvokerBuffer("urn:1"))
        tx.invoker.add_message("urn:1", InvokerMessage(1, b"<m/>"))
        tx.outgoing.put(outgoing("key", identifier="urn:i"))
        tx.outgoing.put_message("key", message(1))
    with store.transaction() as tx:
        tx.incoming.remove("urn:1")
        tx.invoker.remove("urn:1")
        tx.outgoing.remove("key")
    with engine.connect() as connection:
        left = {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar()
            for table in tables.metadata.sorted_tables
        }
    assert left.pop("dragoman_rm_schema") == 1
    assert set(left.values()) == {0}, left


def test_tables_of_a_newer_program_are_refused(store: DatabaseStore, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(tables.schema.update().values(version=tables.VERSION + 1))
    with pytest.raises(StorageUnavailable, match="newer program"):
        DatabaseStore(engine)


def test_tables_of_an_earlier_program_get_what_they_have_not(engine: Engine) -> None:
    store = DatabaseStore(engine)
    with store.transaction() as tx:
        tx.incoming.put(incoming("urn:1"))
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP INDEX dragoman_rm_incoming_peer")
        connection.exec_driver_sql("ALTER TABLE dragoman_rm_incoming DROP COLUMN peer")
        connection.exec_driver_sql(
            "ALTER TABLE dragoman_rm_outgoing_messages DROP COLUMN answer_by"
        )
        connection.execute(tables.schema.update().values(version=1))
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("ALTER TABLE dragoman_rm_outgoing RESET (fillfactor)")
    for _ in range(2):
        store = DatabaseStore(engine)
        with store.transaction() as tx:
            assert tx.incoming.find("urn:1") == incoming("urn:1")
            tx.incoming.put(incoming("urn:2", peer="192.0.2.1"))
            assert tx.incoming.count(peer="192.0.2.1") == 1
            tx.outgoing.put(outgoing("key"))
            tx.outgoing.put_message("key", message(1, answer_by=9.5))
            assert tx.outgoing.message("key", 1) == message(1, answer_by=9.5)
    with engine.connect() as connection:
        found = connection.execute(select(tables.schema.c.version)).scalars().all()
        assert found == [tables.VERSION]
        indexes = {each["name"] for each in inspect(connection).get_indexes("dragoman_rm_incoming")}
        if engine.dialect.name == "postgresql":
            assert _half_filled(connection) == _CHANGED
    assert "dragoman_rm_incoming_peer" in indexes


_CHANGED = {
    "dragoman_rm_incoming",
    "dragoman_rm_invoker",
    "dragoman_rm_outgoing",
    "dragoman_rm_outgoing_messages",
}
"""Tables whose rows are changed while a sequence lives."""


def _half_filled(connection: Connection) -> set[str]:
    asked = "SELECT relname FROM pg_class WHERE 'fillfactor=50' = ANY (reloptions)"
    return set(connection.exec_driver_sql(asked).scalars())


def test_tables_are_made_once(engine: Engine) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(tables.create_tables, [engine] * 4))
    with engine.connect() as connection:
        found = connection.execute(select(tables.schema.c.version)).scalars().all()
    assert found == [tables.VERSION]


def test_without_tables(engine: Engine) -> None:
    store = DatabaseStore(engine, create=False)
    with pytest.raises(StorageUnavailable), store.transaction() as tx:
        tx.outgoing.find("key")
    with pytest.raises(StorageUnavailable), store.look() as look:
        look.next_due()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite://", "in memory cannot be a store"),
        ("sqlite:///:memory:", "in memory cannot be a store"),
        ("sqlite:////no/such/folder/a.db", "/no/such/folder/a.db: No such file"),
        ("nothing", "its URL cannot be read"),
        ("nothing://a/b", "no database has such a URL"),
        ("postgresql://127.0.0.1:1/none", "connection"),
        ("oracle+oracledb://a/b", "oracle"),
    ],
)
def test_urls_that_no_store_is_made_of(url: str, said: str) -> None:
    with pytest.raises(StorageUnavailable, match=said):
        DatabaseStore(url)


# ---------------------------------------------------------------------------------- what may break


def test_a_process_that_is_killed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'reliable.db'}"
    program = f"""
import os, signal
from gateway.reliability.stores.database import DatabaseStore
from tests.gateway.reliability.stores.contract.samples import outgoing
store = DatabaseStore({url!r})
with store.transaction() as tx:
    tx.outgoing.put(outgoing("committed"))
with store.transaction() as tx:
    tx.outgoing.put(outgoing("begun"))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    store = DatabaseStore(url)
    assert keys(store) == ["committed"]
    store.close()


def test_a_file_that_another_program_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "LOCK_WAIT", 0.05)
    store = DatabaseStore(f"sqlite:///{tmp_path / 'reliable.db'}")
    other = sqlite3.connect(tmp_path / "reliable.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageUnavailable, match="another program"), store.transaction():
        pass
    other.close()
    with store.transaction() as tx:
        assert tx.outgoing.find("key") is None
    store.close()


@pytest.mark.parametrize("committed", [True, False])
def test_a_connection_that_breaks_in_commit(postgresql_url: str, committed: bool) -> None:
    """Nobody can say what became of it, and nothing is wrong with the store afterwards."""
    store = DatabaseStore(postgresql_url)

    def break_it(connection: Connection) -> None:
        raw: Any = connection.connection.dbapi_connection
        if committed:
            raw.execute("COMMIT")
        raw.close()

    event.listen(store._writing, "commit", break_it)
    with pytest.raises(InDoubt), store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
    event.remove(store._writing, "commit", break_it)
    assert keys(store) == (["key"] if committed else [])
    with store.transaction() as tx:
        tx.outgoing.put(outgoing("other"))
    store.close()


def test_a_connection_that_breaks_before_commit(postgresql_url: str) -> None:
    store = DatabaseStore(postgresql_url)
    with pytest.raises(StorageUnavailable) as caught, store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
        tx.connection.connection.dbapi_connection.close()
        tx.outgoing.put(outgoing("key", next_number=2))
    assert not isinstance(caught.value, InDoubt)
    assert keys(store) == []
    store.close()


def test_a_database_that_goes_away(postgresql_url: str) -> None:
    store = DatabaseStore(postgresql_url)
    with store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
    with outage(postgresql_url):
        for _ in range(3):
            with pytest.raises(StorageUnavailable), store.transaction() as tx:
                tx.outgoing.find("key")
            with pytest.raises(StorageUnavailable), store.look() as look:
                look.next_due()
    assert keys(store) == ["key"]
    store.close()


def test_a_deadlock_that_an_application_makes(postgresql_url: str) -> None:
    """One of both is rolled back, and run again."""
    engine = create_engine(postgresql_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE stock (item INTEGER PRIMARY KEY, left_ INTEGER)"))
        connection.execute(text("INSERT INTO stock VALUES (1, 0), (2, 0)"))
    store = DatabaseStore(engine)
    both = threading.Barrier(2)
    attempts = []

    def work(tx: Transaction, items: list[int]) -> None:
        attempts.append(items)
        tx.outgoing.put(outgoing(f"key{items[0]}", next_number=len(attempts)))
        for place, item in enumerate(items):
            tx.connection.execute(
                text("UPDATE stock SET left_ = left_ + 1 WHERE item = :item"), {"item": item}
            )
            if place == 0 and len(attempts) <= 2:
                both.wait(60)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda items: run(store, lambda tx: work(tx, items)), ([1, 2], [2, 1])))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT left_ FROM stock")).scalars().all() == [2, 2]
    assert keys(store) == ["key1", "key2"]
    assert len(attempts) == 3
    engine.dispose()


def test_no_lock_is_waited_for_for_ever(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "LOCK_WAIT", 0.05)
    store = DatabaseStore(postgresql_url)
    with store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
    with store.transaction() as tx:
        tx.outgoing.find("key")
        for key in ("key", "unknown"):
            tx.outgoing.find(key)
            waits = pytest.raises(StorageUnavailable, match="another transaction")
            with waits, store.transaction() as other:
                other.outgoing.find(key)
    store.close()


def test_a_name_that_two_take_at_once(postgresql_url: str) -> None:
    store = DatabaseStore(postgresql_url)
    began, committed = threading.Event(), threading.Event()

    def late() -> None:
        def work(tx: Transaction) -> None:
            tx.outgoing.find("b")
            began.set()
            assert committed.wait(60)
            tx.outgoing.put(outgoing("b", identifier="urn:1"))

        run(store, work)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(late)
        assert began.wait(60)
        with store.transaction() as tx:
            tx.outgoing.put(outgoing("a", identifier="urn:1"))
        committed.set()
        with pytest.raises(Taken):
            running.result(60)
    store.close()


def test_a_constraint_that_is_checked_at_the_end(postgresql_url: str) -> None:
    """It is the application's error, and certain: not a commit in doubt."""
    engine = engines.own_engine(postgresql_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (number INTEGER PRIMARY KEY)"))
        connection.execute(
            text("CREATE TABLE parts (of INTEGER REFERENCES orders INITIALLY DEFERRED)")
        )
    store = DatabaseStore(engine)
    with pytest.raises(IntegrityError), store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
        tx.connection.execute(text("INSERT INTO parts VALUES (99)"))
    assert keys(store) == []
    engine.dispose()


@pytest.mark.parametrize(
    ("before", "after"), [(None, "wal"), ("delete", "wal"), ("truncate", "truncate")]
)
def test_a_file_of_an_application_gets_a_journal_that_readers_do_not_block(
    before: str | None, after: str, tmp_path: Path
) -> None:
    """Unless the application chose another one than new files have."""
    engine = create_engine(f"sqlite:///{tmp_path}/application.db")
    if before is not None:
        event.listen(
            engine, "connect", lambda own, _: own.execute(f"PRAGMA journal_mode={before}").close()
        )
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (number INTEGER)")
    if before == "delete":  # As one that was made before: nothing sets it at each connection.
        engine.dispose()
        engine = create_engine(f"sqlite:///{tmp_path}/application.db")
    DatabaseStore(engine)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == after
    engine.dispose()
