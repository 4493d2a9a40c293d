"""Stores are made by their URLs, also those of third parties."""

import sys
from pathlib import Path

import pytest

from gateway.reliability.loading import load_store, schemes
from gateway.reliability.storage import StorageUnavailable
from gateway.reliability.stores.database import DatabaseStore
from gateway.reliability.stores.memory import MemoryStore
from gateway.reliability.stores.participants import LastResource
from gateway.reliability.stores.two_phase import TwoPhaseStore
from gateway.reliability.testing import outgoing


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
        ("sqlite:///:memory:", "see memory:"),
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


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with stores."""
    (tmp_path / "other_stores.py").write_text(
        "from gateway.reliability.stores.memory import MemoryStore\n"
        "def good(url): return MemoryStore()\n"
        "def bad(url): raise KeyError(url)\n"
        "def none(url): return object()\n"
    )
    info = tmp_path / "other_stores-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-stores\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[dragoman.reliable_stores]\n"
        "good = other_stores:good\n"
        "bad = other_stores:bad\n"
        "none = other_stores:none\n"
        "missing = other_stores:missing\n"
        "memory = other_stores:bad\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "other_stores", raising=False)


@pytest.mark.usefixtures("third_party")
def test_stores_of_others() -> None:
    assert {"good", "bad", "memory"} <= {*schemes()}
    assert isinstance(load_store("good://user:secret@host/"), MemoryStore)
    assert isinstance(load_store("memory:"), MemoryStore)
    for scheme, said in (
        ("bad", "the store of bad: cannot be made: KeyError"),
        ("none", "the store of none: is not a store: it has no transaction, look"),
        ("missing", "the store of missing: cannot be loaded: AttributeError"),
    ):
        with pytest.raises(StorageUnavailable, match=said) as caught:
            load_store(f"{scheme}://user:secret@host/")
        assert "secret" not in str(caught.value)
