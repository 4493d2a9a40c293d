"""Make the store of a URL.

========================================  ======================================================
``memory:``                               a new `MemoryStore`
``sqlite:///relative.db``,                a `DatabaseStore` in a file
``sqlite:////absolute/path.db``
``postgresql://user:password@host/name``  a `DatabaseStore` on a server
========================================  ======================================================
"""

from collections.abc import Collection
from difflib import get_close_matches
from typing import TYPE_CHECKING

from gateway.reliability.storage import StorageManager, StorageUnavailable

if TYPE_CHECKING:
    from gateway.reliability.stores.participants import ConnectionManager

SCHEMES = ("memory", "postgresql", "postgresql+psycopg", "sqlite")


def load_store(url: str, participants: "Collection[ConnectionManager]" = ()) -> StorageManager:
    """Make the store of *url*.

    Args:
        url: Its scheme says what makes it.
        participants: Other databases that take part in its transactions; only a database can have
            them.

    Raises:
        StorageUnavailable: No store has the scheme, or it cannot be made.
    """
    scheme = url.partition(":")[0].lower() if ":" in url else ""
    if scheme not in SCHEMES:
        raise _unknown(scheme)
    if participants:
        if scheme == "memory":
            raise StorageUnavailable(f"a store with participants is a database, not {scheme}:")
        from gateway.reliability.stores.two_phase import TwoPhaseStore

        return TwoPhaseStore(url, participants)
    # A program with a store in memory needs no library of databases.
    if scheme == "memory":
        from gateway.reliability.stores.memory import memory_store

        return memory_store(url)
    from gateway.reliability.stores.database import DatabaseStore

    return DatabaseStore(url)


def _unknown(scheme: str) -> StorageUnavailable:
    near = get_close_matches(scheme, SCHEMES, 1)
    meant = f"did you mean {near[0]}:? " if near else ""
    what = f"no store has the scheme {scheme!r}" if scheme else "the store's URL has no scheme"
    names = ", ".join(f"{name}:" for name in SCHEMES)
    return StorageUnavailable(f"{what}; {meant}there are: {names}")
