"""``dragoman doctor two-phase``: what it says of real databases."""

import json
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from gateway.cli import app
from tests.rigs.postgresql import needs_postgresql, postgresql_cluster

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
