"""``dragoman backtest`` in the Spark of all tests; `tests/gateway/cli/test_backtest.py` has it start one."""

import gc
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from filters.archive import Row
from gateway.cli import archive, backtest, main
from tests.filters.spark.conftest import START, storm, write


@pytest.fixture
def ask(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command on Spark: its exit code, and what it printed on either output."""

    @contextmanager
    def there_is(*_: object, **__: object) -> Iterator[Any]:
        yield spark

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(backtest, "session", there_is)
    monkeypatch.setattr(archive, "session", there_is)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dragoman", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return ended.value.code, *capfd.readouterr()

    return run


def test_a_report_for_people(tmp_path: Path, ask: Callable[..., tuple[int, str, str]]) -> None:
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
    command = ("backtest", "--filters", "filters.jsonl", "--out", "out", "archive")
    code, out, err = ask(*command)
    assert code == 0, err
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

    assert "replaced" not in err
    code, out, err = ask(*command)
    assert (code, out.splitlines()) == (0, said)
    assert "What out has is replaced: matches, counts and report.html" in err


def test_nothing_to_import_is_said(
    tmp_path: Path, ask: Callable[..., tuple[int, str, str]]
) -> None:
    (tmp_path / "a.jsonl").write_text('{"foo": "<a/>"}\n')
    code, out, err = ask("archive", "import", "a.jsonl", "target")
    assert (code, out) == (0, "0 messages written, 1 left out\n")
    assert "left out: 1 message without payload or xml, such as a.jsonl\n" in err
    lines = [
        {"payload": "<a/>", "topic": "a b//", "time": "soon"},
        {"payload": "<a>"},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\nno JSON\n")
    code, out, err = ask("archive", "import", "--topic", "storms", "a.jsonl", "target")
    assert (code, out) == (0, "1 message written, 2 left out\n")
    assert err.splitlines()[1:] == [
        "left out: 1 line that cannot be read as JSON, such as a.jsonl: no JSON",
        "left out: 1 message that cannot be read as XML or have more than 2 MiB, such as"
        " a.jsonl: <a>",
        "1 message with a topic that cannot be read; they get storms, such as a.jsonl: a b//",
        "1 message with a time that cannot be read; they get that of their file, such as"
        " a.jsonl: soon",
    ]


def test_where_nothing_could_be_read_the_code_says_so(
    spark: Any, tmp_path: Path, ask: Callable[..., tuple[int, str, str]]
) -> None:
    table = spark.createDataFrame([("<a/>",)], "payload string")
    table.coalesce(1).write.parquet(str(tmp_path / "events"))
    for command in (("backtest", "events"), ("archive", "compact", "events", "target")):
        code, out, err = ask(*command)
        assert (code, out.startswith("0 notifications ")) == (1, True)
        assert "after 0 rows: no column id; `dragoman archive import` makes" in err
        assert err.splitlines()[-1] == "dragoman: events: nothing could be read in 1 file"


def test_files_of_this_hour_are_left(
    tmp_path: Path, ask: Callable[..., tuple[int, str, str]]
) -> None:
    # Of tomorrow, so that no hour ends meanwhile.
    row = Row("m-1", datetime.now(UTC) + timedelta(days=1), "<calm/>", "calms")
    for number in range(2):
        write(tmp_path / "archive", [row], f"w-1-{number}.parquet")
    code, out, _ = ask("archive", "compact", "archive", "target")
    assert code == 0
    assert out.splitlines() == [
        "0 notifications of 0 files written",
        "2 files of the hour that is not over are left",
    ]
