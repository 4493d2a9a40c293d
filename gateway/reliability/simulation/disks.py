"""The disks of a run: a store of reliable messaging with the application's table in it, which crash
with the process and keep what was committed."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias, cast

from gateway.reliability.simulation.torn import torn
from gateway.reliability.storage import (
    Conflict,
    IncomingSequences,
    InDoubt,
    InvokerBuffers,
    Look,
    OutgoingSequences,
    StorageManager,
    StorageUnavailable,
    Transaction,
)
from gateway.reliability.stores.memory import MemoryStore

Row: TypeAlias = tuple[str, str, int, str]
"""An event, the key of its sequence, the number and the content of its message."""


class Crash(BaseException):
    """The process ends here. No ``except Exception`` may catch it."""


class Fate(Protocol):
    """Draws what happens to the next transaction."""

    def __call__(self) -> str:
        """One of ``""``, ``unavailable``, ``conflict``, ``crash before``, ``crash after``, ``doubt
        before`` and ``doubt after``: before and after the commit; or ``torn``, and the number of
        the change that the store refuses."""
        ...


Pause: TypeAlias = Callable[[], None]
"""Is called between two transactions of a thread: others may do something there."""


class Disk(Protocol):
    """A store, and the application's rows, which are of its transactions."""

    fate: Fate
    pause: Pause
    storage: StorageManager

    def add(self, tx: Transaction, row: Row) -> None:
        """Add a row, with the transaction."""
        ...

    def rows(self) -> list[Row]:
        """The committed rows, in their order."""
        ...

    def is_empty(self) -> bool:
        """Return whether nothing of reliable messaging is kept."""
        ...

    def restart(self) -> None:
        """Be as a new process finds it: only committed changes are there."""
        ...

    def close(self) -> None: ...


class MemoryDisk:
    """A disk in memory."""

    has_savepoints = MemoryStore.has_savepoints

    def __init__(self) -> None:
        self.fate: Fate = lambda: ""
        self.pause: Pause = lambda: None
        self._store = MemoryStore(lock_wait=0)  # Nothing runs meanwhile that could unlock.
        self._rows: list[Row] = []
        self.storage: StorageManager = fated(self)

    def add(self, tx: Transaction, row: Row) -> None:
        tx.connection.append(row)

    def rows(self) -> list[Row]:
        return list(self._rows)

    def is_empty(self) -> bool:
        return self._store.is_empty()

    def restart(self) -> None:
        self._store = self._store.surviving()

    def close(self) -> None:
        pass

    def look(self) -> contextlib.AbstractContextManager[Look]:
        return self._store.look()

    @contextlib.contextmanager
    def begin(self) -> Iterator[Transaction]:
        """Begin a transaction of the store, whose fate is not drawn yet."""
        staged: list[Row] = []
        with self._store.transaction() as tx:
            yield _WithRows(tx, staged)
        self._rows.extend(staged)


class _WithRows:
    """A transaction with the application's rows as its connection."""

    def __init__(self, tx: Transaction, rows: list[Row]) -> None:
        self._tx = tx
        self.incoming: IncomingSequences = tx.incoming
        self.invoker: InvokerBuffers = tx.invoker
        self.outgoing: OutgoingSequences = tx.outgoing
        self.connection: Any = rows

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        kept = len(self.connection)
        try:
            with cast(Any, self._tx).savepoint():
                yield
        except BaseException:
            del self.connection[kept:]
            raise

    def enlist(self, participant: Any) -> None:
        raise TypeError("there are no participants here")


class Store(Protocol):
    """The store of a disk, under the transactions whose fate is drawn."""

    fate: Fate
    pause: Pause
    has_savepoints: bool

    def begin(self) -> contextlib.AbstractContextManager[Transaction]: ...

    def look(self) -> contextlib.AbstractContextManager[Look]: ...


def fated(store: Store) -> StorageManager:
    """A store whose transactions have a fate."""
    return _Fated(store)


class _Fated:
    def __init__(self, store: Store) -> None:
        self._store = store
        self.has_savepoints = store.has_savepoints

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        self._store.pause()
        fate = self._store.fate()
        if fate == "unavailable":
            raise StorageUnavailable("not now")
        with self._store.begin() as tx:
            yield torn(tx, int(fate.split()[1])) if fate.startswith("torn") else tx
            if fate == "crash before":
                raise Crash(fate)
            if fate == "doubt before":
                raise InDoubt(fate)
            if fate == "conflict":
                raise Conflict(fate)
        if fate == "crash after":
            raise Crash(fate)
        if fate == "doubt after":
            raise InDoubt(fate)

    def look(self) -> contextlib.AbstractContextManager[Look]:
        return self._store.look()

    def recover(self) -> int:
        return 0

    def close(self) -> None:
        pass
