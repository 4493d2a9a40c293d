"""Bookmarks of sources as rows, on each store."""

from functools import partial

from gateway.store import Store, bookmarks
from gateway.store.bookmarks import Machine
from tests.rigs.stores import on_each_store


async def note(
    store: Store, machine: Machine, mark: bytes, *, now: float = 1.0, of_owner: int | None = 2
) -> bool:
    operation = partial(
        bookmarks.note,
        machine=machine,
        subscription="Logons",
        bookmark=mark,
        now=now,
        of_owner=of_owner,
        in_all=3,
        age=100.0,
    )
    return bool(await store.submit(operation))


async def noted(store: Store, machine: Machine) -> dict[str, bytes]:
    return dict(await store.submit(partial(bookmarks.noted, machine=machine)))


@on_each_store
async def test_the_last_bookmark_is_kept(store: Store) -> None:
    one, other = Machine("a", "x"), Machine("a", "y")
    for mark in (b"1", b"2"):
        assert await note(store, one, mark)
    assert await noted(store, one) == {"Logons": b"2"}
    assert await noted(store, other) == {}


@on_each_store
async def test_bookmarks_are_limited_by_owner_and_in_all(store: Store) -> None:
    """Those that are known go on; those that nobody noted for long make room."""
    assert [await note(store, Machine("a", name), b"1") for name in "xyz"] == [True, True, False]
    assert await note(store, Machine("a", "z"), b"1", of_owner=None)
    assert not await note(store, Machine("b", "x"), b"1")
    assert await note(store, Machine("a", "x"), b"2", now=90.0)
    assert await note(store, Machine("b", "x"), b"1", now=102.0)
    assert await noted(store, Machine("a", "x")) == {"Logons": b"2"}
    assert await noted(store, Machine("a", "y")) == {}
