"""``dragoman benchmark filters`` as its users run it."""

import json
import os
from pathlib import Path

import pytest
from lxml import etree

from tests.filters.spark.conftest import SMALL, require_spark_here
from tests.rigs.programs import run

ERRORS = [
    pytest.param(
        ("--engine", "yfilter"), 1, "'yfilter' is not an engine; the engines are", id="engine"
    ),
    pytest.param(("--workload", "xm2"), 2, "neither a file nor one of xm0", id="workload"),
    pytest.param(("--corpus", "no.xml"), 1, "no.xml: ", id="corpus"),
    pytest.param(("--preset", "huge"), 2, "--preset", id="preset"),
    pytest.param(("--filters", "0"), 2, "--filters", id="no filters"),
    pytest.param(("--conf", "x=1"), 2, "--conf", id="conf"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), ERRORS)
def test_an_error_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = run("benchmark", "filters", *arguments, cwd=tmp_path)
    assert done.returncode == code
    [line] = done.stderr.splitlines()
    assert line.startswith("dragoman: ") and said in line
    assert done.stdout == ""


OLD_JAVA = """#!/bin/sh
echo java.lang.UnsupportedClassVersionError: only up to 55.0 >&2
exit 1
"""
JAVAS = [
    pytest.param("/nowhere", "", "there is none in PATH", id="none"),
    pytest.param("{path}", "/nowhere", "none in JAVA_HOME (/nowhere)", id="none in JAVA_HOME"),
    pytest.param("{path}", "{home}", "{home}/bin/java is older", id="old"),
]


@pytest.mark.parametrize(("path", "home", "said"), JAVAS)
def test_without_java_it_says_what_to_install(
    tmp_path: Path, path: str, home: str, said: str
) -> None:
    pytest.importorskip("pyspark")
    java = tmp_path / "jre" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(OLD_JAVA)
    java.chmod(0o755)
    here = {"path": os.environ["PATH"], "home": str(tmp_path / "jre")}
    done = run(
        *("benchmark", "filters", "--engine", "naive"),
        cwd=tmp_path,
        PATH=path.format(**here),
        JAVA_HOME=home.format(**here),
        # PySpark forgets the pipe to a Java machine that has ended.
        PYTHONWARNINGS="ignore",
    )
    assert done.returncode == 1
    # Only Java itself can say how old it is.
    *before, line = done.stderr.splitlines()
    assert before == (["Starting Spark ..."] if "older" in said else [])
    assert "Spark needs Java 17 or later" in line and "default-jre-headless" in line
    assert said.format(**here) in line


@pytest.mark.nightly
def test_a_corpus_and_filters_of_ones_own(tmp_path: Path) -> None:
    require_spark_here()
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for n in range(12):
        (corpus / f"{n}.xml").write_text(f"<storm><speed>{n}</speed></storm>")
    rows = [{"id": n, "xpath": f"/storm[speed = {n}]"} for n in range(30)]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = run(
        *("benchmark", "filters", "--corpus", "corpus", "--workload", "mine.jsonl", "--out", "out"),
        *("--filters", "10", "--filters", "1000", "--partitions", "1", "--repetitions", "1"),
        *("--engine", "naive", "--engine", "reference", "--master", "local[1]"),
        *(part for pair in SMALL.items() for part in ("--conf", "=".join(pair))),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    table = [line.split()[:3] for line in done.stdout.splitlines()[1:5]]
    assert table == [
        ["mine.jsonl", n, engine] for n in ("10", "30") for engine in ("naive", "reference")
    ]
    told = done.stderr.splitlines()
    assert told[0] == "Starting Spark ..."
    assert told[1].startswith("[1/") and "240 verdicts agree, 10 matches in 12 messages" in told[1]
    assert "not counted" in done.stderr and "Traceback" not in done.stderr
    report = etree.parse(tmp_path / "out" / "report.html")
    assert report.findtext(".//h1") == "Matching XPath filters"
    assert (tmp_path / "out" / "figures.parquet").stat().st_size > 0


FORGETFUL = """
from filters.spark.engines import Indexed

find = Indexed.find
Indexed.find = lambda self, root: find(self, root)[1:]
"""


@pytest.mark.nightly
def test_an_engine_that_is_wrong_ends_the_run(tmp_path: Path) -> None:
    """In every process of Spark, an engine forgets what it found first."""
    require_spark_here()
    (tmp_path / "sitecustomize.py").write_text(FORGETFUL)
    (tmp_path / "mine.jsonl").write_text('{"id": "right", "xpath": "/*[1]"}')
    done = run(
        *("benchmark", "filters", "--engine", "reference", "--workload", "mine.jsonl"),
        *("--messages", "5", "--partitions", "1", "--master", "local[1]", "--out", "out"),
        *(part for pair in SMALL.items() for part in ("--conf", "=".join(pair))),
        cwd=tmp_path,
        PYTHONPATH=str(tmp_path),
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Starting Spark ...",
        "dragoman: reference and libxml2 differ about '/*[1]' on message 0 of mine.jsonl with"
        " seed 1: nothing was measured",
    ]
    assert done.stdout == "" and list((tmp_path / "out").iterdir()) == []
