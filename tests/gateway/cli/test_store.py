"""``dragoman store``."""

import json
from pathlib import Path

import pytest

from gateway.server.data_folder import lock
from gateway.store import migrations
from tests.gateway.store.test_migrations import make_0023
from tests.rigs.programs import run
from tests.rigs.stores import execute, sqlite_url

pytestmark = pytest.mark.slow  # Each starts a process.


def test_migrate_does_what_a_start_does(tmp_path: Path) -> None:
    make_0023(sqlite_url(tmp_path))
    for events in (["store.copied", "store.migrated"], []):
        done = run("store", "migrate", "--data", str(tmp_path), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"The store is up to date (schema {migrations.newest()}).\n"
        assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == events
    schemas = execute(sqlite_url(tmp_path), "SELECT version_num FROM alembic_version")
    assert schemas == [(migrations.newest(),)]


@pytest.mark.parametrize("named", [False, True], ids=["in the data folder", "elsewhere"])
def test_migrate_leaves_the_store_of_a_gateway_that_runs_alone(tmp_path: Path, named: bool) -> None:
    folder = lock(tmp_path)
    where = ["--store", f"sqlite:///{tmp_path}/other.db"] if named else []
    done = run("store", "migrate", "--data", str(tmp_path), *where, cwd=tmp_path)
    folder.release()
    assert (done.returncode, done.stdout) == (75, "")
    assert done.stderr == f"dragoman: Another Dragoman uses the data folder {tmp_path}.\n"
    assert {path.name for path in tmp_path.iterdir()} == {"lock"}
