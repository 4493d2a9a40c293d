"""A store joins the transactions of the package ``transaction``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import InvalidRequestError

from gateway.reliability.storage import Ended, StorageManager
from gateway.reliability.stores.database import DatabaseStore
from gateway.reliability.zope_transactions import join
from tests.gateway.reliability.stores.contract import outgoing

transaction = pytest.importorskip("transaction", reason="needs the package transaction")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DatabaseStore]:
    made = DatabaseStore(f"sqlite:///{tmp_path / 'a.db'}")
    with made.transaction() as tx:
        tx.connection.execute(text("CREATE TABLE items (number INTEGER PRIMARY KEY)"))
    yield made
    made.close()


@pytest.fixture
def manager() -> Any:
    return transaction.TransactionManager()


class Other:
    """Another data manager, that may refuse."""

    def __init__(self, manager: Any, refuses: str = "") -> None:
        self.transaction_manager = manager
        self.done: list[str] = []
        for step in ("abort", "tpc_begin", "commit", "tpc_vote", "tpc_finish", "tpc_abort"):
            setattr(self, step, self._step(step, step == refuses))

    def _step(self, step: str, refuses: bool) -> Any:
        def do(_: Any) -> None:
            self.done.append(step)
            if refuses:
                raise ValueError(step)

        return do

    def sortKey(self) -> str:
        return "~other"


def seen(store: StorageManager) -> list[str]:
    with store.look() as look:
        return [one.key for one in look.outgoing_page("", 9)]


def work(store: DatabaseStore, manager: Any, number: int = 1) -> None:
    join(store, manager).outgoing.put(outgoing(f"key{number}"))
    tx: Any = join(store, manager)
    tx.connection.execute(text("INSERT INTO items VALUES (:number)"), {"number": number})


def items(store: DatabaseStore) -> list[int]:
    with store.transaction() as tx:
        return list(tx.connection.execute(text("SELECT number FROM items")).scalars())


def test_both_are_committed(store: DatabaseStore, manager: Any) -> None:
    other = Other(manager)
    with manager:
        work(store, manager)
        manager.get().join(other)
        assert seen(store) == []
        inside = join(store, manager)
    assert seen(store) == ["key1"] and items(store) == [1]
    assert other.done == ["tpc_begin", "commit", "tpc_vote", "tpc_finish"]
    with pytest.raises(Ended):
        inside.outgoing.find("key1")
    with manager:
        work(store, manager, 2)  # The next is another.
    assert seen(store) == ["key1", "key2"] and items(store) == [1, 2]


def test_neither_is_committed(store: DatabaseStore, manager: Any) -> None:
    with pytest.raises(KeyError), manager:
        work(store, manager)
        raise KeyError
    assert (seen(store), items(store)) == ([], [])
    work(store, manager)
    manager.abort()
    assert (seen(store), items(store)) == ([], [])


@pytest.mark.parametrize("step", ["tpc_begin", "commit", "tpc_vote"])
def test_another_refuses(store: DatabaseStore, manager: Any, step: str) -> None:
    with pytest.raises(ValueError, match=step), manager:
        manager.get().join(Other(manager, step))
        work(store, manager)
    assert (seen(store), items(store)) == ([], [])
    with manager:
        work(store, manager)
    assert seen(store) == ["key1"]


def test_the_store_refuses(store: DatabaseStore, manager: Any) -> None:
    other = Other(manager)
    with pytest.raises(InvalidRequestError), manager:
        manager.get().join(other)
        tx: Any = join(store, manager)
        tx.outgoing.put(outgoing("key"))
        tx.connection.rollback()
    assert seen(store) == []
    assert "tpc_finish" not in other.done and "tpc_abort" in other.done


def test_the_thread_has_a_manager(store: DatabaseStore) -> None:
    with transaction.manager:
        join(store).outgoing.put(outgoing("key"))
    assert seen(store) == ["key"]
