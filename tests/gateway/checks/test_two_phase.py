"""``dragoman doctor two-phase``: what it says of real databases."""

import json
import threading
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from gateway.checks.findings import Verdict
from gateway.checks.two_phase import check_two_phase
from gateway.cli import app
from tests.rigs.postgresql import needs_postgresql, postgresql_cluster
from tests.rigs.waiting import wait_until

pytestmark = pytest.mark.slow


def doctor(*urls: str, form: str = "text") -> tuple[int, str]:
    done = CliRunner().invoke(app, ["doctor", "two-phase", "--output", form, *urls])
    return done.exit_code, done.output


def left(url: str) -> int:
    """What it left behind: tables, and prepared transactions."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT (SELECT count(*) FROM pg_tables WHERE tablename LIKE 'dragoman%')"
            " + (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database())"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_one_that_recovers(postgresql_url: str) -> None:
    other = postgresql_url.replace("postgresql://", "postgresql+psycopg://")
    code, said = doctor(postgresql_url, other)
    assert code == 0, said
    assert [line.split(" ")[0] for line in said.splitlines()] == ["ok", "ok"]
    assert ": recovers: what a process had prepared" in said
    assert left(postgresql_url) == 0


def test_one_that_prepares_nothing() -> None:
    needs_postgresql()
    with postgresql_cluster(prepared=0) as cluster:
        url = cluster.url()
        code, said = doctor(url)
        assert code == 1
        assert said.startswith(f"FAIL  {url}: PostgreSQL prepares nothing while max_prepared")
        assert said.count("\n") == 1
        assert left(url) == 0


def test_who_may_make_no_table(postgresql_url: str) -> None:
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE guest LOGIN")
        try:
            code, said = doctor(postgresql_url.replace("dragoman@", "guest:secret@"))
        finally:
            connection.execute("DROP ROLE guest")
    assert code == 1 and "permission denied" in said
    assert "secret" not in said


def test_others(tmp_path: Path) -> None:
    urls = (f"sqlite:///{tmp_path / 'a.db'}", "nothing", "postgresql://a:secret@127.0.0.1:1/a")
    code, said = doctor(*urls, form="json")
    assert code == 1
    found = json.loads(said)
    assert [one["verdict"] for one in found] == ["warn", "fail", "fail"]
    assert "SQLite cannot prepare" in found[0]["text"]
    assert found[2]["what"] == "postgresql://a:***@127.0.0.1:1/a"
    assert "secret" not in said


def test_one_that_takes_too_long(postgresql_url: str) -> None:
    [found] = check_two_phase(postgresql_url, deadline=0.01)
    assert found.verdict is Verdict.FAIL
    assert found.text.startswith("has prepared nothing within 0.01 seconds")
    assert left(postgresql_url) == 0


def test_a_table_that_cannot_be_dropped_is_named(postgresql_url: str) -> None:
    """Whoever looks at it holds up DROP TABLE, and nobody waits for ever."""
    names = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'dragoman_doctor_%'"
    looking, done = threading.Event(), threading.Event()
    tables: list[str] = []

    def look() -> None:
        with psycopg.connect(postgresql_url, autocommit=True) as connection:

            def is_there() -> bool:
                tables[:] = [row[0] for row in connection.execute(names)]
                return bool(tables)

            wait_until(is_there)
            with connection.transaction():
                connection.execute(f"LOCK TABLE {tables[0]} IN ACCESS SHARE MODE")
                looking.set()
                done.wait(50)
            connection.execute(f"DROP TABLE {tables[0]}")

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        found = list(check_two_phase(postgresql_url, lock_wait=0.2))
    finally:
        done.set()
        thread.join(60)
    assert looking.is_set()
    assert [each.verdict for each in found] == [Verdict.OK, Verdict.WARN]
    assert found[1].text.startswith(f"keeps the table {tables[0]}")
    assert left(postgresql_url) == 0
