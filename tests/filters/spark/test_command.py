"""``dragoman backtest`` in the Spark of all tests; `tests/gateway/cli/test_backtest.py` has it start one."""

import gc
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from filters.archive import Row
from gateway.cli import backtest, main
from tests.filters.spark.conftest import START, storm, write


def test_a_report_for_people(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def there_is(*_: object, **__: object) -> Iterator[Any]:
        yield spark

    archive = tmp_path / "archive"
    write(archive, [storm(n) for n in range(8)], "w-1-1.parquet")
    write(archive, [Row("m-1", START, "<calm/>", "calms")], "w-1-1.jsonl.gz")
    damaged = write(archive, [storm(n) for n in range(9, 20)], "w-1-2.jsonl.gz")
    damaged.write_bytes(b"no gzip")
    rows = [
        {"id": "fast", "xpath": "/storm[speed > 5]"},
        {"id": "calm", "topic": "calms"},
        {"id": "none", "xpath": "/none"},
    ]
    (tmp_path / "filters.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(backtest, "session", there_is)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    words = ["dragoman", "backtest", "--filters", "filters.jsonl", "--out", "out", "archive"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capfd.readouterr()
    assert ended.value.code == 0, err
    said = out.splitlines()
    assert said[0] == "9 notifications in 3 files, 1 damaged"
    assert any(line.startswith("2026-11-20 22:00Z  1 ") for line in said)
    assert any(line.startswith("2026-11-20 23:00Z  2 ") for line in said)
    assert "total: 3 messages, 117 bytes" in said
    assert "2 of 3 filters match something" in said
    assert "<calm/>" in said
    assert f"damaged: {damaged}, after 0 rows: " in err
    assert {path.name for path in Path("out").iterdir()} == {"matches", "counts", "report.html"}
    assert "w-1-2.jsonl.gz" in Path("out", "report.html").read_text()
