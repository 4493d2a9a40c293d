"""``dragoman backtest`` as its users run it, on this machine and on a cluster."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

import pytest

from filters.archive import Row
from filters.spark.backtest import Hour, Result, Sample, Total
from filters.spark.backtest_report import MAX_SAMPLE
from gateway.cli.backtest import THE_FILTER, _print, _record
from tests.filters.spark.conftest import SMALL, START, require_spark_here, storm, write
from tests.rigs.ports import free_ports
from tests.rigs.programs import Program, environment, run
from tests.rigs.waiting import wait_until

QUICK = [part for pair in SMALL.items() for part in ("--conf", "=".join(pair))]
SECONDS = 240.0


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    write(folder, [storm(n) for n in range(8)], "w-1-1.parquet")
    write(folder, [Row("m-1", START, "<calm/>", "calms")], "w-1-1.jsonl.gz")
    write(folder, [storm(n) for n in range(9, 20)], "w-1-2.jsonl.gz")
    return folder


def only_line(text: str) -> str:
    [line] = text.splitlines()
    return line


ERRORS = [
    pytest.param(
        ("--xpath", "/a[", "{archive}"),
        *(2, "--xpath: '/a[': the expression ends too early"),
        id="XPath",
    ),
    pytest.param(
        ("--xpath", "/w:a", "--topic", "a", "{archive}"),
        *(2, "--xpath: '/w:a': the prefix \"w\" of the expression is not declared"),
        id="prefix",
    ),
    pytest.param(
        ("--xpath", "/a", "--topic", "a b", "{archive}"),
        *(2, "--topic: 'a b': \"a b\" is not a topic name"),
        id="topic",
    ),
    pytest.param(
        ("--filters", "broken.json", "{archive}"),
        *(1, "broken.json: filter 1: filter has to be an object with topics, contents, others"),
        id="subscriptions",
    ),
    pytest.param(
        ("--filters", "no.jsonl", "{archive}"), 1, "no.jsonl: No such file", id="no filters"
    ),
    pytest.param(("--filters", "bad.jsonl", "{archive}"), 1, "line 1: not JSON", id="bad line"),
    pytest.param(("--filters", "a", "--xpath", "/a", "{archive}"), 2, "--filters", id="both"),
    pytest.param(("--xpath", "/a", "nowhere"), 1, "nowhere: no such folder", id="no archive"),
    pytest.param(("--follow", "--out", "a", "no"), 1, "no: no such folder", id="nothing to follow"),
    pytest.param(("bad.jsonl",), 1, "bad.jsonl: a file, and not the folder of", id="file"),
    pytest.param(("--xpath", "/a", "."), 1, ".: no file of an archive", id="empty archive"),
    pytest.param(("--conf", "memory", "{archive}"), 2, "--conf", id="conf"),
    pytest.param(("--ns", "x", "{archive}"), 2, "--ns", id="namespace"),
    pytest.param(("--follow", "{archive}"), 2, "--out", id="follow without a place"),
    pytest.param(("--beside", "a", "--follow", "{archive}"), 2, "--beside", id="beside a stream"),
    pytest.param(
        ("--follow", "--out", "done", "{archive}"),
        *(1, "done: has the matches of a backtest: follow into another folder"),
        id="follow into results",
    ),
    pytest.param(
        ("--out", "followed", "{archive}"),
        *(1, "followed: backtest --follow writes there: name another folder"),
        id="results into what follows",
    ),
    pytest.param(
        ("--engine", "yfilter", "{archive}"), 2, "'yfilter' is not an engine", id="engine"
    ),
    pytest.param((), 2, "ARCHIVE", id="nothing"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), ERRORS)
def test_an_error_is_one_line(
    tmp_path: Path, archive: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    cwd = tmp_path / "empty"
    cwd.mkdir()
    (cwd / "bad.jsonl").write_text("{\n")
    (cwd / "broken.json").write_text('[{"id": "s-1", "filter": "storms"}]')
    for folder in ("done/matches", "followed/matches", "followed/checkpoint"):
        (cwd / folder).mkdir(parents=True)
    done = run("backtest", *(part.format(archive=archive) for part in arguments), cwd=cwd)
    assert done.returncode == code
    line = only_line(done.stderr)
    assert line.startswith("dragoman: ") and said in line
    assert done.stdout == ""


def test_without_the_extra_it_says_which(tmp_path: Path, archive: Path) -> None:
    for command in (("backtest", str(archive)), ("benchmark", "filters")):
        program = (
            "import sys; sys.modules['pyspark'] = None;"
            f"sys.argv = {['dragoman', *command]!r}; from gateway.cli import main; main()"
        )
        done = subprocess.run(
            (sys.executable, "-c", program),
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 1
        assert "this needs pyspark, which is not installed: " in done.stderr
        assert re.search("-m pip install |setup EXTRAS=spark$", only_line(done.stderr).strip())


@pytest.mark.nightly
def test_a_report_for_people(tmp_path: Path, archive: Path) -> None:
    require_spark_here()
    damaged = next(archive.rglob("w-1-2.jsonl.gz"))
    damaged.write_bytes(b"no gzip")
    filters = tmp_path / "filters.jsonl"
    rows = [
        {"id": "fast", "xpath": "/storm[speed > 5]"},
        {"id": "calm", "topic": "calms"},
        {"id": "none", "xpath": "/none"},
    ]
    filters.write_text("\n".join(map(json.dumps, rows)))
    arguments = ("--filters", "filters.jsonl", "--out", "out", "--master", "local[2]")
    done = run("backtest", *arguments, *QUICK, "archive", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "9 notifications in 3 files, 1 damaged"
    assert any(line.startswith("2026-11-20 22:00Z  1 ") for line in said)
    assert any(line.startswith("2026-11-20 23:00Z  2 ") for line in said)
    assert "total: 3 messages, 117 bytes" in said
    assert "2 of 3 filters match something" in said
    assert "<calm/>" in said
    assert f"damaged: {damaged}, after 0 rows: " in done.stderr
    assert "Traceback" not in done.stderr and "WARN" not in done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "matches",
        "counts",
        "report.html",
    }
    assert "w-1-2.jsonl.gz" in (tmp_path / "out" / "report.html").read_text()


def test_of_a_large_message_the_beginning_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    sample = Sample("m-1", START, None, f"<a>{'x' * 100_000}</a>", (THE_FILTER,))
    total = Total(THE_FILTER, 1, 100_007, START, START)
    _print(Result(1, 1, 0, (), (Hour(START, 1, 100_007),), (total,), (sample,)))
    assert max(map(len, capsys.readouterr().out.splitlines())) == MAX_SAMPLE


def test_bytes_have_one_name_in_json() -> None:
    total = Total(THE_FILTER, 1, 7, START, START)
    record = _record(Result(1, 1, 0, (), (Hour(START, 1, 7),), (total,), ()))
    assert record["bytes"] == record["hours"][0]["bytes"] == record["totals"][0]["bytes"] == 7
    assert record["hours"][0]["octets"] == 7, "until the next release"


@pytest.mark.nightly
def test_what_a_proposed_filter_has_in_common(tmp_path: Path, archive: Path) -> None:
    require_spark_here()
    view = {"filter": {"contents": [{"text": "/storm[speed > 15]"}]}}
    rows = [{"id": "fast", **view}, {"id": "calm", "filter": {"contents": [{"text": "/calm"}]}}]
    (tmp_path / "subscriptions.json").write_text(json.dumps(rows))
    arguments = ("--xpath", "/storm[speed > 9]", "--beside", "subscriptions.json")
    done = run("backtest", *arguments, "--master", "local[1]", *QUICK, "archive", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "1 of 2 filters that are there match some of the same" in said
    assert "fast 4 40% 100%" in said


@pytest.mark.nightly
def test_following_ends_when_it_is_told(tmp_path: Path, archive: Path) -> None:
    require_spark_here()
    arguments = ("--follow", "--out", "out", "--xpath", "/calm", "--master", "local[1]")
    with Program("backtest", *arguments, *QUICK, "archive", cwd=tmp_path) as following:
        following.wait_for("new files: 3", lines=following.err)
        write(archive, [storm(1)], "w-4-1.parquet")
        following.wait_for("new files: 1", lines=following.err)
        assert following.stop(signal.SIGINT) == 0
    assert following.err[-1] == "Stopped; the same command goes on from here."
    assert not [line for line in following.err if "Traceback" in line or "ERROR" in line]
    assert list((tmp_path / "out" / "matches").glob("kind=match/part-*.parquet"))


def _kill(process: int) -> None:
    """End a process and all that it started, as a power loss would."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    os.kill(process, signal.SIGKILL)
    for child in map(int, children):
        with suppress(ProcessLookupError, FileNotFoundError):
            _kill(child)


def _written(out: Path) -> Counter[tuple[str, str]]:
    """How often each match and each report of a file is in the output, by kind and name.

    What is in the output is what its log names, as Spark's readers see it.
    """
    from pyarrow import parquet

    logs = sorted((out / "matches" / "_spark_metadata").glob("[0-9]*"))
    lines = [line for log in logs for line in log.read_text().splitlines()[1:]]
    found: Counter[tuple[str, str]] = Counter()
    for path in (Path(unquote(json.loads(line)["path"].removeprefix("file:"))) for line in lines):
        kind = path.parent.name.removeprefix("kind=")
        column = "id" if kind == "match" else "file"
        for name in parquet.ParquetFile(path).read([column]).column(0).to_pylist():
            found[kind, Path(name).name] += 1
    return found


@pytest.mark.nightly
def test_killed_in_the_middle_of_a_batch_each_match_is_written_once(tmp_path: Path) -> None:
    require_spark_here()
    archive, out = tmp_path / "archive", tmp_path / "out"
    for n in range(40):
        write(archive, [storm(10 * n + k) for k in range(10)], f"w-1-{n}.parquet")
    # Each file is a task, one after the other, and leaves files of its own.
    one_by_one = ("--conf", "spark.sql.files.openCostInBytes=128m", "--master", "local[1]")
    arguments = ("--follow", "--out", "out", "--xpath", "/storm", *one_by_one, *QUICK, "archive")
    log = out / "matches" / "_spark_metadata" / "0"
    with Program("backtest", *arguments, cwd=tmp_path) as following:

        def some_are_written() -> bool:
            assert following.process.poll() is None, following.err
            return len(list(out.glob("matches/kind=match/*.parquet"))) >= 3

        wait_until(some_are_written, SECONDS, says=lambda: following.err)
        _kill(following.process.pid)
    lost = set(out.glob("matches/*/*.parquet"))
    assert 3 <= len(lost) < 80 and not log.exists()

    write(archive, [storm(n) for n in range(500, 510)], "w-2-1.jsonl.gz")
    with Program("backtest", *arguments, cwd=tmp_path) as following:

        def all_is_written() -> bool:
            assert following.process.poll() is None, following.err
            return sum(_written(out).values()) >= 40 * 10 + 40 + 10 + 1

        wait_until(all_is_written, SECONDS, says=lambda: following.err)
        assert following.stop(signal.SIGINT) == 0
    numbers = (*range(400), *range(500, 510))
    files = (*(f"w-1-{n}.parquet" for n in range(40)), "w-2-1.jsonl.gz")
    assert _written(out) == Counter(
        [*(("match", f"n-{n}") for n in numbers), *(("file", name) for name in files)]
    )


# A cluster: Spark's own master and two workers, each a process, on this machine.


@contextmanager
def _started(folder: Path, name: str, *arguments: str) -> Iterator[Path]:
    """A class of Spark's as a process; its log. It and all that it started end with this."""
    import pyspark

    home = Path(pyspark.__file__).parent
    log = folder / f"{name}.log"
    variables = {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
    }
    with log.open("wb") as file:
        process = subprocess.Popen(
            (str(home / "bin" / "spark-class"), *arguments),
            cwd=folder,
            env=environment() | variables,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


def _wait_for(log: Path, text: str, times: int = 1) -> None:
    def is_logged() -> bool:
        return log.read_text(errors="replace").count(text) >= times

    wait_until(is_logged, SECONDS, says=lambda: f"no {text!r} in {log.read_text(errors='replace')}")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The URL of a standalone master with two workers of one core each."""
    require_spark_here()
    folder = tmp_path / "cluster"
    folder.mkdir()
    url = f"spark://127.0.0.1:{free_ports(1)[0]}"
    master = (
        "org.apache.spark.deploy.master.Master",
        *("--host", "127.0.0.1", "--port", url.rpartition(":")[2], "--webui-port", "0"),
    )
    worker = ("org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g")
    with ExitStack() as started:
        log = started.enter_context(_started(folder, "master", *master))
        _wait_for(log, "I have been elected leader")
        for name in ("one", "two"):
            where = ("--work-dir", str(folder / name), "--webui-port", "0", "--host", "127.0.0.1")
            started.enter_context(_started(folder, f"worker-{name}", *worker, *where, url))
        _wait_for(log, "Registering worker", 2)
        yield url


@pytest.mark.nightly
def test_a_cluster_finds_the_same(tmp_path: Path, archive: Path, cluster: str) -> None:
    for n in range(6):
        write(archive, [storm(k, f"gusts-{n}") for k in range(12)], f"w-3-{n}.parquet")
    conf = (*QUICK, "--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1")
    # Two workers, two tasks at a time; each file is a task.
    conf = (*conf, "--conf", "spark.sql.files.openCostInBytes=128m")
    done = run(
        *("backtest", "--xpath", "/storm[speed > 9]", "--output", "json"),
        *("--out", "out", "--master", cluster, *conf, "archive"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["files"], result["rows"], result["damaged"]) == (9, 8 + 1 + 11 + 72, 0)
    assert result["messages"] == 10 + 6 * 2
    assert result["samples"][0]["filters"] == ["the filter"]
    executors = [
        path.parent.parent.parent.name for path in (tmp_path / "cluster").glob("*/app-*/*/stderr")
    ]
    assert sorted(set(executors)) == ["one", "two"]
    parts = list((tmp_path / "out" / "matches").glob("part-*"))
    assert len(parts) > 1
