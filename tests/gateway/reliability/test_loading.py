"""Stores are made by their URLs."""

from pathlib import Path

import pytest

from gateway.reliability.loading import load_store
from gateway.reliability.storage import StorageUnavailable
from gateway.reliability.stores.database import DatabaseStore
from gateway.reliability.stores.memory import MemoryStore
from gateway.reliability.stores.participants import LastResource
from gateway.reliability.stores.two_phase import TwoPhaseStore
from tests.gateway.reliability.stores.contract import outgoing


def test_memory() -> None:
    assert isinstance(load_store("memory:"), MemoryStore)
    with pytest.raises(StorageUnavailable, match="nothing after the colon"):
        load_store("memory:a")


def test_sqlite(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    for _ in range(2):
        store = load_store(url)
        assert isinstance(store, DatabaseStore)
        with store.transaction() as tx:
            tx.outgoing.put(outgoing("key"))
        store.close()
    with_others = load_store(url, [LastResource("ledger", dict)])
    assert isinstance(with_others, TwoPhaseStore)
    with with_others.transaction() as tx:
        assert tx.outgoing.find("key") is not None
    with_others.close()


def test_postgresql(postgresql_url: str) -> None:
    store = load_store(postgresql_url)
    with store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
    store.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("memry:", "no store has the scheme 'memry'; did you mean memory:?"),
        ("nothing", "the store's URL has no scheme"),
        ("", "the store's URL has no scheme"),
        ("postgresql://a:secret@127.0.0.1:1/a", "127.0.0.1"),
        ("postgresql://a:secret@127.0.0.1:port/a", "URL"),
        ("sqlite:///:memory:", "use memory:"),
    ],
)
def test_urls_of_no_store(url: str, said: str) -> None:
    with pytest.raises(StorageUnavailable) as caught:
        load_store(url)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)


def test_memory_has_no_participants() -> None:
    with pytest.raises(StorageUnavailable, match="is a database"):
        load_store("memory:", [LastResource("ledger", dict)])
