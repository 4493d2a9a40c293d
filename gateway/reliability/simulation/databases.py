"""Disks of a run in a database: the application's table is in that of the store."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import cast

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    func,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from gateway.reliability.simulation.disks import Crash, Disk, Fate, Pause, Row, fated
from gateway.reliability.storage import Look, StorageManager, StorageUnavailable, Transaction
from gateway.reliability.stores.database import DatabaseStore
from gateway.reliability.stores.engines import own_engine
from gateway.reliability.stores.participants import EngineConnections
from gateway.reliability.stores.tables import metadata, schema
from gateway.reliability.stores.two_phase import TwoPhaseStore

_APPLICATION = MetaData()
_ROWS = Table(
    "simulated_rows",
    _APPLICATION,
    Column("place", Integer, primary_key=True, autoincrement=True),
    Column("event", Text, nullable=False),
    Column("sequence", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("content", Text, nullable=False),
)
_KEPT = [table for table in metadata.sorted_tables if table is not schema]


class DatabaseDisk:
    """A disk in a database, or a schema, of its own.

    Args:
        make_engine: Makes the engine; a process that starts again has a new one.
    """

    has_savepoints = DatabaseStore.has_savepoints

    def __init__(self, make_engine: Callable[[], Engine]) -> None:
        self.fate: Fate = lambda: ""
        self.pause: Pause = lambda: None
        self._make_engine = make_engine
        self._open()
        with self._engine.begin() as connection:
            for table in reversed(_KEPT):
                connection.execute(table.delete())
        with self._rows_engine.begin() as connection:
            _APPLICATION.create_all(connection)
            connection.execute(_ROWS.delete())
        self.storage: StorageManager = fated(self)

    def _open(self) -> None:
        self._rows_engine = self._engine = self._make_engine()
        self._store: DatabaseStore | TwoPhaseStore = DatabaseStore(self._engine)

    def add(self, tx: Transaction, row: Row) -> None:
        event, sequence, number, content = row
        values = {"event": event, "sequence": sequence, "number": number, "content": content}
        self._connection(tx).execute(_ROWS.insert().values(values))

    def _connection(self, tx: Transaction) -> Connection:
        """The connection of the application's table."""
        return cast(Connection, tx.connection)

    def rows(self) -> list[Row]:
        columns = (_ROWS.c.event, _ROWS.c.sequence, _ROWS.c.number, _ROWS.c.content)
        with self._rows_engine.connect() as connection:
            found = connection.execute(select(*columns).order_by(_ROWS.c.place))
            return [(row[0], row[1], row[2], row[3]) for row in found]

    def is_empty(self) -> bool:
        with self._engine.connect() as connection:
            counts = [
                connection.execute(select(func.count()).select_from(table)).scalar_one()
                for table in _KEPT
            ]
        return not any(counts)

    def restart(self) -> None:
        self.close()
        self._open()

    def close(self) -> None:
        self._store.close()
        self._engine.dispose()

    def look(self) -> contextlib.AbstractContextManager[Look]:
        return self._store.look()

    def begin(self) -> contextlib.AbstractContextManager[Transaction]:
        return self._store.transaction()


class TwoPhaseDisk(DatabaseDisk):
    """A disk whose application's table is in a database of its own, which takes part in the
    transactions of the store (two-phase commit, PostgreSQL). A process that ends may do so at each
    step of a commit; what is prepared then is ended when it starts again.

    Args:
        make_rows_engine: Makes the engine of the application's table.
    """

    has_savepoints = False

    def __init__(
        self, make_engine: Callable[[], Engine], make_rows_engine: Callable[[], Engine]
    ) -> None:
        self._make_rows_engine = make_rows_engine
        self._drawn: Fate = lambda: ""
        self._steps = {fate: cycle(steps) for fate, steps in _STEPS.items()}
        self._fatal = ""
        super().__init__(make_engine)

    @property
    def fate(self) -> Fate:
        """The fate that is drawn; a process that is to end does so at one of the steps of its
        commit."""
        return self._draw

    @fate.setter
    def fate(self, fate: Fate) -> None:
        self._drawn = fate

    def _draw(self) -> str:
        drawn = self._drawn()
        self._fatal = next(self._steps[drawn]) if drawn in self._steps else ""
        return "" if self._fatal else drawn

    def _open(self) -> None:
        self._engine, self._rows_engine = self._make_engine(), self._make_rows_engine()
        rows = EngineConnections(_ROWS_NAME, self._rows_engine)
        self._store = TwoPhaseStore(self._engine, [rows], step=self._step)

    def _step(self, what: str) -> None:
        if what == self._fatal:
            self._end_process()

    def _end_process(self) -> None:
        """End it as a kill does: nothing is undone by itself, and its connections are gone."""
        fatal, self._fatal = self._fatal, ""
        with create_engine(self._engine.url, poolclass=NullPool).connect() as connection:
            for engine in (self._engine, self._rows_engine):
                _end_connections(connection, engine)
        raise Crash(fatal)

    def _connection(self, tx: Transaction) -> Connection:
        return cast(Connection, tx.enlist(_ROWS_NAME))

    @contextlib.contextmanager
    def begin(self) -> Iterator[Transaction]:
        with self._store.transaction() as tx:
            yield tx
        if self._fatal:  # Nobody took part in it.
            self._end_process()

    def is_empty(self) -> bool:
        assert isinstance(self._store, TwoPhaseStore)
        self._store.recover(0.0)  # It removes decisions that are committed everywhere.
        return self._store.oldest_prepared() == 0.0 and super().is_empty()

    def close(self) -> None:
        super().close()
        self._rows_engine.dispose()


_ROWS_NAME = "rows"
_STEPS = {
    "crash before": (f"prepare {_ROWS_NAME}", "prepared"),
    "crash after": ("decided", f"committed {_ROWS_NAME}"),
}
"""Steps of a commit, before and after it is decided."""


def _end_connections(connection: Connection, engine: Engine) -> None:
    """Have PostgreSQL end all connections of *engine*, which names them."""
    with engine.connect() as own:
        name = own.execute(text("SHOW application_name")).scalar_one()
    found = text(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE application_name = :name AND pid <> pg_backend_pid()"
    )
    connection.execute(found, {"name": name})


@contextlib.contextmanager
def disks_in(url: str, folder: Path, *, two_phase: bool = False) -> Iterator[Callable[[str], Disk]]:
    """Make the disks of runs in a database, and remove their files and tables at the end.

    Args:
        url: ``sqlite:``, whose files are then in *folder*, or that of a PostgreSQL database, where
            each process has a schema.
        two_phase: The application's table is in another schema, which takes part by two-phase
            commit.

    Raises:
        StorageUnavailable: The database cannot be used, or cannot prepare.
    """
    try:
        sqlite = make_url(url).get_backend_name() == "sqlite"
    except ArgumentError as error:
        raise StorageUnavailable(f"no database has the URL {url!r}") from error
    if sqlite and two_phase:
        raise StorageUnavailable("SQLite cannot prepare: two-phase commit wants PostgreSQL")
    if sqlite:
        yield lambda name: DatabaseDisk(lambda: own_engine(f"sqlite:///{folder / name}.db"))
        return
    processes = ("client", "service")
    names = {
        name: f"dragoman_simulated_{name}"
        for name in (*processes, *(f"{name}_rows" for name in processes if two_phase))
    }

    def make_disk(name: str) -> Disk:
        engine = partial(_engine_in, whole, names[name])
        if not two_phase:
            return DatabaseDisk(engine)
        return TwoPhaseDisk(engine, partial(_engine_in, whole, names[f"{name}_rows"]))

    whole = own_engine(url)
    try:
        try:
            with whole.begin() as connection:
                for name in names.values():
                    connection.execute(text(f"DROP SCHEMA IF EXISTS {name} CASCADE"))
                    connection.execute(text(f"CREATE SCHEMA {name}"))
        except SQLAlchemyError as error:
            raise StorageUnavailable(str(error).splitlines()[0]) from error
        yield make_disk
        with whole.begin() as connection:
            for name in names.values():
                connection.execute(text(f"DROP SCHEMA IF EXISTS {name} CASCADE"))
    finally:
        whole.dispose()


def _engine_in(whole: Engine, name: str) -> Engine:
    options = f"-csearch_path={name} -capplication_name={name}"
    return create_engine(whole.url, connect_args={"options": options})
