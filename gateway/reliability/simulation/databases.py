"""Disks of a run in a database: the application's table is in that of the store."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import (
    Column,
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

from gateway.reliability.simulation.disks import Disk, Fate, Pause, Row, fated
from gateway.reliability.storage import Look, StorageManager, StorageUnavailable, Transaction
from gateway.reliability.stores.database import DatabaseStore
from gateway.reliability.stores.engines import own_engine
from gateway.reliability.stores.tables import metadata, schema

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
            _APPLICATION.create_all(connection)
            for table in (*reversed(_KEPT), _ROWS):
                connection.execute(table.delete())
        self.storage: StorageManager = fated(self)

    def _open(self) -> None:
        self._engine = self._make_engine()
        self._store = DatabaseStore(self._engine)

    def add(self, tx: Transaction, row: Row) -> None:
        event, sequence, number, content = row
        values = {"event": event, "sequence": sequence, "number": number, "content": content}
        tx.connection.execute(_ROWS.insert().values(values))

    def rows(self) -> list[Row]:
        columns = (_ROWS.c.event, _ROWS.c.sequence, _ROWS.c.number, _ROWS.c.content)
        with self._engine.connect() as connection:
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


@contextlib.contextmanager
def disks_in(url: str, folder: Path) -> Iterator[Callable[[str], Disk]]:
    """What makes the disks of runs in a database; what is left of them is removed at the end.

    Args:
        url: ``sqlite:``, whose files are then in *folder*, or that of a PostgreSQL database, where
            each process has a schema.
    """
    try:
        sqlite = make_url(url).get_backend_name() == "sqlite"
    except ArgumentError as error:
        raise StorageUnavailable(f"no database has the URL {url!r}") from error
    if sqlite:
        yield lambda name: DatabaseDisk(lambda: own_engine(f"sqlite:///{folder / name}.db"))
        return
    names = {name: f"dragoman_simulated_{name}" for name in ("client", "service")}
    whole = own_engine(url)
    try:
        try:
            with whole.begin() as connection:
                for name in names.values():
                    connection.execute(text(f"DROP SCHEMA IF EXISTS {name} CASCADE"))
                    connection.execute(text(f"CREATE SCHEMA {name}"))
        except SQLAlchemyError as error:
            raise StorageUnavailable(str(error).splitlines()[0]) from error
        yield lambda name: DatabaseDisk(lambda: _engine_in(whole, names[name]))
        with whole.begin() as connection:
            for name in names.values():
                connection.execute(text(f"DROP SCHEMA IF EXISTS {name} CASCADE"))
    finally:
        whole.dispose()


def _engine_in(whole: Engine, name: str) -> Engine:
    return create_engine(whole.url, connect_args={"options": f"-csearch_path={name}"})
