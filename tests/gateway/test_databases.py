"""URLs of databases: what is taken as it is written elsewhere, and that whatever is wrong is said in
words."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

from gateway.checks.files import check_store
from gateway.checks.findings import Verdict
from gateway.databases import driver_url, why_unusable
from gateway.reliability.storage import StorageUnavailable
from gateway.reliability.stores.database import DatabaseStore
from gateway.settings.settings import Settings
from gateway.store import Store, StoreUnavailable
from tests.rigs.postgresql import USER, pgbouncer, postgresql


@pytest.mark.parametrize(
    ("written", "hosts", "ports"),
    [
        ("postgresql://u@h/d", ["h"], []),
        ("postgres://u:p%40@h:5433/d?sslmode=require", ["h"], [5433]),
        ("postgresql://u@a:5432,b:5433/d", ["a:5432", "b:5433"], []),
        ("postgres://a,b:5433,[::1]:5434/d?target_session_attrs=rw", ["a", "b:5433", "[::1]:5434"], []),
        ("postgresql+psycopg://u@a,b/d", ["a", "b"], []),
        ("postgresql://u:p,w@h/d", ["h"], []),
    ],
)  # fmt: skip
def test_urls_as_others_write_them(written: str, hosts: list[str], ports: list[int]) -> None:
    url = make_url(driver_url(written))
    assert url.drivername == "postgresql+psycopg"
    assert url.database == "d"
    named = url.query.get("host", url.host or "")
    assert ([named] if isinstance(named, str) else list(named)) == hosts
    assert [url.port] * bool(url.port) == ports


def test_others_are_left_as_they_are() -> None:
    for url in ("sqlite:///a,b.db", "postgresql+psycopg2://u@h/d", "sqlite:////x/postgres://,"):
        assert driver_url(url) == url


BAD = (
    "nothing",
    "nothing://a/b",
    "postgresql://u@h:port/d",
    "postgresql://u@127.0.0.1:1/d?connect_timeout=soon",
    "postgresql://u@127.0.0.1:1/d?sslmode=perhaps",
    "postgresql://u@127.0.0.1:1/d?nonsense=1",
    "postgresql://u@127.0.0.1:1,127.0.0.1:1/d",
    "postgresql://u@127.0.0.1:1,/d?port=x",
    "postgresql+nothing://u@h/d",
    "mysql://u@h/d",
    "sqlite:////nowhere/at/all/x.db",
)


@pytest.mark.parametrize("url", BAD)
async def test_no_exception_without_words(url: str, tmp_path: Path) -> None:
    """The store, doctor and the stores of reliable messaging say in a line what is wrong."""
    with pytest.raises(StoreUnavailable) as raised:
        await Store(url).start()
    assert "\n" not in raised.value.text
    with pytest.raises(StorageUnavailable):
        DatabaseStore(url)
    if not url.startswith("sqlite"):
        [finding] = check_store(Settings(store=url, data=tmp_path))
        assert finding.text and "Traceback" not in finding.text


async def test_encodings_of_servers(postgresql_url: str) -> None:
    """A client's encoding is none of the URL's business, unless it names one."""
    store = Store(f"{postgresql_url}?client_encoding=nonsense")
    with pytest.raises(StoreUnavailable, match="nonsense"):
        await store.start()


@contextlib.contextmanager
def database() -> Iterator[str]:
    cluster = postgresql()
    name = cluster.make_database()
    try:
        yield name
    finally:
        cluster.drop_database(name)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "usable"), [("transaction", False), ("session", True)])
async def test_poolers(mode: str, usable: bool, tmp_path: Path) -> None:
    """A pooler that gives a connection for each transaction is refused in one line; one that gives
    it for each session is as good as none."""
    with database() as name, pgbouncer(postgresql(), mode) as port:
        url = postgresql().url(name, port)
        [finding] = check_store(Settings(store=url, data=tmp_path))
        store = Store(url)
        if usable:
            assert finding.verdict is Verdict.OK, finding.text
            await store.start()
            await store.close()
            DatabaseStore(url).close()
            return
        assert "pool_mode=session" in finding.text
        with pytest.raises(StoreUnavailable, match="needs a direct connection"):
            await store.start()
        with pytest.raises(StorageUnavailable, match="pool_mode=session"):
            DatabaseStore(url)


def test_a_direct_connection_is_known(postgresql_url: str) -> None:
    engine = create_engine(driver_url(postgresql_url))
    assert why_unusable(engine) is None
    engine.dispose()


def test_several_hosts_are_served(postgresql_url: str) -> None:
    port = postgresql().port
    url = postgresql_url.replace(f":{port}/", f":1,127.0.0.1:{port}/")
    engine = create_engine(driver_url(url))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT current_user").scalar() == USER
    engine.dispose()
