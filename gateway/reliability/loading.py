"""Makes the store of a URL.

========================================  ======================================================
``memory:``                               a new `MemoryStore`
``sqlite:///relative.db``,                a `DatabaseStore` in a file
``sqlite:////absolute/path.db``
``postgresql://user:password@host/name``  a `DatabaseStore` on a server
========================================  ======================================================

Third parties add a scheme with an entry point, whose object makes a store of a URL::

    [project.entry-points."dragoman.reliable_stores"]
    redis = "my_package:RedisStore"
"""

from collections.abc import Callable, Collection
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, cast

from gateway.reliability.storage import StorageManager, StorageUnavailable

if TYPE_CHECKING:
    from gateway.reliability.stores.participants import ConnectionManager

ENTRY_POINT_GROUP = "dragoman.reliable_stores"

_STORES = "gateway.reliability.stores"
_OURS = {
    scheme: EntryPoint(scheme, f"{_STORES}.{place}", ENTRY_POINT_GROUP)
    for scheme, place in {
        "memory": "memory:memory_store",
        "sqlite": "database:DatabaseStore",
        "postgresql": "database:DatabaseStore",
        "postgresql+psycopg": "database:DatabaseStore",
    }.items()
}
"""Dragoman's own; nobody else's take their places."""
_METHODS = ("transaction", "look", "recover", "close")


def bundled_schemes() -> list[str]:
    """Return the schemes of Dragoman's own stores, sorted."""
    return sorted(_OURS)


def schemes() -> list[str]:
    """Return the schemes of all stores that are installed, sorted."""
    return sorted({*_OURS, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def load_store(url: str, participants: "Collection[ConnectionManager]" = ()) -> StorageManager:
    """Make the store of *url*.

    Args:
        url: Its scheme says what makes it.
        participants: Other databases that take part in its transactions; only a database can have
            them.

    Raises:
        StorageUnavailable: No store has the scheme, several packages bring one, or it cannot be
            made.
    """
    scheme = url.partition(":")[0].lower() if ":" in url else ""
    if participants:
        if not scheme.startswith(("sqlite", "postgresql")):
            raise StorageUnavailable(f"a store with participants is a database, not {scheme}:")
        from gateway.reliability.stores.two_phase import TwoPhaseStore

        return TwoPhaseStore(url, participants)
    make = store_maker(scheme)
    try:
        store = make(url)
    except StorageUnavailable:
        raise
    except Exception as error:  # A third party's may raise anything.
        text = f"the store of {scheme}: cannot be made: {type(error).__name__}: {error}"
        raise StorageUnavailable(_without_password(text, url)) from error
    missing = [name for name in _METHODS if not callable(getattr(store, name, None))]
    if missing:
        text = f"the store of {scheme}: is not a store: it has no {', '.join(missing)}"
        raise StorageUnavailable(text)
    return store


def store_maker(scheme: str) -> Callable[[str], StorageManager]:
    """Return what makes a store of a URL with *scheme*.

    Raises:
        StorageUnavailable: No store has the scheme, several packages bring one, or it cannot be
            loaded.
    """
    try:
        made = _find(scheme).load()
    except StorageUnavailable:
        raise
    except Exception as error:  # A module of others may raise anything.
        text = f"the store of {scheme}: cannot be loaded: {type(error).__name__}: {error}"
        raise StorageUnavailable(text) from error
    if not callable(made):
        raise StorageUnavailable(f"the store of {scheme}: {made!r} cannot be called")
    return cast("Callable[[str], StorageManager]", made)


def _find(scheme: str) -> EntryPoint:
    if scheme in _OURS:
        return _OURS[scheme]
    found = [point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name == scheme]
    if len(found) > 1:
        packages = " and ".join(sorted(point.value for point in found))
        raise StorageUnavailable(f"{scheme}: is brought by {packages}: uninstall all but one")
    if not found:
        known = schemes()
        near = get_close_matches(scheme, known, 1)
        meant = f"did you mean {near[0]}:? " if near else ""
        what = f"no store has the scheme {scheme!r}" if scheme else "the store's URL has no scheme"
        names = ", ".join(f"{name}:" for name in known)
        raise StorageUnavailable(f"{what}; {meant}installed: {names}")
    return found[0]


def _without_password(text: str, url: str) -> str:
    secret = url.partition("//")[2].rpartition("@")[0].partition(":")[2]
    return text.replace(secret, "...") if secret else text
