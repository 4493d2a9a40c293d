"""The guide to stores, its programs run as they are written."""

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from tests.conftest import ROOT
from tests.rigs.postgresql import fresh_database, needs_postgresql

pytestmark = pytest.mark.slow  # Each starts a process.

GUIDE = (ROOT / "docs" / "reliable-stores.md").read_text()
URL, OWN, TWO_PHASE, ZOPE = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
DATABASES = {
    "postgresql://app@db1/messages": "SELECT 1",
    "postgresql://app@db2/orders": "CREATE TABLE orders (number INTEGER)",
    "postgresql+psycopg://app@db3/stock": "CREATE TABLE stock AS SELECT 9 AS n",
}


def follow(program: str, folder: Path) -> None:
    path = os.pathsep.join((str(ROOT), *filter(None, sys.path)))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def test_stores_by_url_and_by_engine(tmp_path: Path) -> None:
    seen = 'with engine.connect() as c:\n assert len(c.execute(text("SELECT * FROM orders")).all())'
    follow(URL + OWN + f"{seen} == 2\n", tmp_path)
    assert (tmp_path / "orders.db").exists()


def test_two_phases(tmp_path: Path) -> None:
    needs_postgresql()
    program = TWO_PHASE
    with ExitStack() as stack:
        urls = [stack.enter_context(fresh_database()) for _ in DATABASES]
        for (written, table), url in zip(DATABASES.items(), urls, strict=True):
            assert program.count(written) == 1
            scheme = written.partition(":")[0]
            program = program.replace(written, url.replace("postgresql", scheme, 1))
            with psycopg.connect(url) as connection:
                connection.execute(table.encode())
        follow(f"from sqlalchemy import create_engine, text\n{program}store.close()\n", tmp_path)
        with psycopg.connect(urls[1]) as connection:
            assert connection.execute("SELECT number FROM orders").fetchall() == [(1,)]
        with psycopg.connect(urls[2]) as connection:
            assert connection.execute("SELECT n FROM stock").fetchall() == [(8,)]


def test_zope(tmp_path: Path) -> None:
    if find_spec("transaction") is None:
        pytest.skip("needs the package transaction")
    seen = 'with engine.connect() as c:\n assert len(c.execute(text("SELECT * FROM orders")).all())'
    follow(OWN + ZOPE + f"{seen} == 3\n", tmp_path)
