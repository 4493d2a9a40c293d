"""Lets a store join the transactions of the package ``transaction`` (Zope, Pyramid): one
``transaction.commit()`` then commits the message and the data of the application.

What is changed through the store's transaction (its connection, its sessions, the participants of
a `TwoPhaseStore`) is committed as one. Data managers of others, such as ZODB's, vote before this
one, which commits when it votes, and finish after it. If the process dies in between, the message
stands, and what they voted for does not; for databases, let them be participants instead.
"""

from contextlib import suppress
from typing import Any

from gateway.reliability.storage import StorageManager, Transaction


class _Aborted(Exception):
    """Rolls a transaction back."""


def join(store: StorageManager, manager: Any = None) -> Transaction:
    """The store's transaction that is part of the current one of ``transaction``; begun where it
    is asked for first.

    Args:
        store: Any store.
        manager: A transaction manager. None: that of the thread.

    Raises:
        StorageUnavailable: It cannot begin.
    """
    import transaction

    current = (manager or transaction.manager).get()
    try:
        joined: DataManager = current.data(store)
    except KeyError:
        joined = DataManager(store, manager or transaction.manager)
        current.set_data(store, joined)
        current.join(joined)
    return joined.transaction


class DataManager:
    """A data manager, as ``transaction.interfaces.IDataManager`` has it.

    Attributes:
        transaction: The store's.
    """

    def __init__(self, store: StorageManager, manager: Any) -> None:
        self.transaction_manager = manager
        self._block = store.transaction()
        self._open = True
        self.transaction = self._block.__enter__()

    def sortKey(self) -> str:  # Its name is the package's.
        """Sort it behind all others: it commits when it votes, so it votes last."""
        return f"~~dragoman:{id(self)}"

    def abort(self, transaction: Any) -> None:
        """Roll back before a commit was begun."""
        self._end(_Aborted())

    def tpc_begin(self, transaction: Any) -> None:
        """Do nothing: the store's transaction began when it was joined."""

    def commit(self, transaction: Any) -> None:
        """Do nothing: all changes were written already."""

    def tpc_vote(self, transaction: Any) -> None:
        """Commit: all others have voted for it.

        Raises:
            StorageUnavailable: Nothing was changed, and nobody commits.
        """
        self._end(None)

    def tpc_finish(self, transaction: Any) -> None:
        """Do nothing: it is committed."""

    def tpc_abort(self, transaction: Any) -> None:
        """Roll back, if it is not committed."""
        self._end(_Aborted())

    def _end(self, error: BaseException | None) -> None:
        if not self._open:
            return
        self._open = False
        with suppress(_Aborted):
            self._block.__exit__(None if error is None else type(error), error, None)
