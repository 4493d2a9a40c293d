"""Transactions in which the store refuses one of the changes: nothing else is wrong with it, so
that whoever goes on and commits the rest has half of it on disk."""

from collections.abc import Callable
from typing import Any, cast

from gateway.reliability.storage import StorageUnavailable, Transaction

CHANGES = frozenset(
    {
        "acknowledge",
        "add_message",
        "add_new_message",
        "put",
        "put_message",
        "remove",
        "remove_acknowledged",
        "remove_all",
        "remove_message",
    }
)


def torn(tx: Transaction, change: int) -> Transaction:
    """*tx*, where the change number *change* is refused, from 1."""
    return cast(Transaction, _Torn(tx, change))


class _Torn:
    def __init__(self, tx: Transaction, change: int) -> None:
        self._tx = tx
        self._left = change
        self.incoming = _Manager(tx.incoming, self._changes)
        self.invoker = _Manager(tx.invoker, self._changes)
        self.outgoing = _Manager(tx.outgoing, self._changes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def _changes(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise StorageUnavailable("it refuses a change")


class _Manager:
    def __init__(self, manager: Any, changes: Callable[[], None]) -> None:
        self._manager, self._changes = manager, changes

    def __getattr__(self, name: str) -> Any:
        if name in CHANGES:
            self._changes()
        return getattr(self._manager, name)
