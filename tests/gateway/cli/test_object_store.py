"""An archive in an object store: imported, added to, compacted and asked, by its URL."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.filters.spark.conftest import SMALL, require_spark_here, storm, write
from tests.rigs.programs import run
from tests.rigs.s3 import needs_s3, s3_server

needs_s3()


@pytest.mark.nightly
@pytest.mark.slow
def test_import_compact_and_ask(tmp_path: Path) -> None:
    """Four starts of Spark: a minute of processor time."""
    require_spark_here()
    (tmp_path / "given.jsonl").write_text(
        "".join(
            json.dumps({"payload": f"<storm><speed>{n}</speed></storm>", "topic": "storms"}) + "\n"
            for n in range(20)
        )
    )
    write(tmp_path / "hot", [storm(n) for n in range(5)], "w-1-1.parquet")
    with s3_server(tmp_path, "bucket") as settings:
        conf = [part for pair in (SMALL | settings).items() for part in ("--conf", "=".join(pair))]

        def told(*arguments: str) -> Any:
            command = (*arguments, "--master", "local[1]", *conf, "--output", "json")
            done = run(*command, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        cold = "s3a://bucket/an archive"
        assert told("archive", "import", "given.jsonl", cold) == {
            "rows": 20,
            "left_out": 0,
            "faults": [],
        }
        compacted = told("archive", "compact", "--remove", "hot", cold)
        assert compacted == {"files": 1, "rows": 5, "removed": 1, "left": 0, "damaged": []}
        found = told("backtest", "--xpath", "/storm[speed > 3]", "--out", "s3a://bucket/out", cold)
        assert (found["rows"], found["messages"], found["damaged"]) == (25, 17, 0)
        again = told("archive", "import", "s3a://bucket/out/matches", "local")
        assert again == {"rows": 17, "left_out": 0, "faults": []}
