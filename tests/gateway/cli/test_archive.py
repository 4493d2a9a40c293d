"""``dragoman archive`` as its users run it."""

import json
from pathlib import Path

import pytest

from tests.filters.spark.conftest import SMALL, require_spark_here, storm, write
from tests.rigs.programs import run

QUICK = [part for pair in SMALL.items() for part in ("--conf", "=".join(pair))]
ERRORS = [
    pytest.param(("compact", "nowhere", "out"), 1, "nowhere: no such folder", id="no archive"),
    pytest.param(("compact", "a", "./a"), 2, "TARGET: ./a is a, or in it", id="onto itself"),
    pytest.param(("compact", "a", "a/cold"), 2, "TARGET: a/cold is a, or in it", id="into itself"),
    pytest.param(
        ("compact", "s3a://a/b/", "s3a://a/b"), 2, "s3a://a/b is s3a://a/b/", id="URL onto itself"
    ),
    pytest.param(("import", "no.xml", "b"), 1, "no.xml: no such file or folder", id="no file"),
    pytest.param(("import", ".", "b"), 1, ".: no messages (", id="no messages"),
    pytest.param(
        ("import", "--topic", "bad//", "a", "b"),
        *(2, "--topic: 'bad//': a topic's name is empty"),
        id="topic",
    ),
    pytest.param(
        ("import", "--row-tag", "w:event>", "a", "b"),
        *(2, "--row-tag: 'w:event>' is not the name of an element"),
        id="row tag",
    ),
    pytest.param(("compact", ".", "../out"), 1, ".: no file of an archive", id="empty archive"),
    pytest.param(("compact", "."), 2, "TARGET", id="no target"),
    pytest.param(("import", "--ns", "x", "a", "b"), 2, "--ns", id="namespace"),
    pytest.param(("import", "--conf", "x=1", "a", "b"), 2, "--conf", id="conf"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), ERRORS)
def test_an_error_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = run("archive", *arguments, cwd=tmp_path)
    assert done.returncode == code
    [line] = done.stderr.splitlines()
    assert line.startswith("dragoman: ") and said in line


@pytest.mark.nightly
def test_import_compact_and_ask(tmp_path: Path) -> None:
    """By names with blanks, and by URLs: one archive of files, with another added to it."""
    require_spark_here()
    folder = tmp_path / "a = ø"
    (folder / "given").mkdir(parents=True)
    rows = "".join(f"<storm><speed>{n}</speed></storm>" for n in range(20))
    (folder / "given" / "big.xml").write_text(f"<storms>{rows}<storm></storms>")
    write(folder / "hot", [storm(n) for n in range(5)], "w-1-1.parquet")
    spark = ("--master", "local[1]", *QUICK, "--output", "json")
    options = ("--topic", "storms", "--row-tag", "storm")
    done = run("archive", "import", *options, *spark, "a = ø/given", "a = ø/cold", cwd=tmp_path)
    fault = {"kind": "not-xml", "count": 1, "example": "big.xml: <storm></storms></storm>"}
    assert json.loads(done.stdout) == {"rows": 20, "left_out": 1, "faults": [fault]}, done.stderr
    target = f"file://{folder}/cold"
    done = run("archive", "compact", "--remove", *spark, "a = ø/hot", target, cwd=tmp_path)
    assert json.loads(done.stdout) == {
        **{"files": 1, "rows": 5, "removed": 1},
        **{"left": 0, "damaged": []},
    }
    assert not list((folder / "hot").rglob("*.parquet"))
    done = run(
        "backtest", "--topic", "storms//.", "--out", f"{target}-out", *spark, target, cwd=tmp_path
    )
    assert json.loads(done.stdout)["messages"] == 25, done.stderr
    assert (folder / "cold-out" / "report.html").is_file()
    done = run("archive", "import", *spark, "a = ø/hot", "out", cwd=tmp_path)
    assert done.returncode == 1 and "no messages" in done.stderr.splitlines()[-1]
