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
        ("--engine", "yfilter"), 2, "'yfilter' is not an engine; the engines are", id="engine"
    ),
    pytest.param(("--workload", "xm2"), 2, "neither a file nor one of xm0", id="workload"),
    pytest.param(("--corpus", "no.xml"), 1, "no.xml: ", id="corpus"),
    pytest.param(("--preset", "huge"), 2, "--preset", id="preset"),
    pytest.param(
        ("--resume",), 2, "--resume: dragoman-benchmark has no unfinished run", id="nothing begun"
    ),
    pytest.param(
        ("--resume", "--out", "done"), 2, "--resume: done has no unfinished run", id="all is done"
    ),
    pytest.param(
        ("--corpus", "{plain}", "--row-tag", "w:event>"),
        *(2, "--row-tag: 'w:event>' is not the name of an element"),
        id="row tag",
    ),
    pytest.param(("--filters", "0"), 2, "--filters", id="no filters"),
    pytest.param(("--conf", "x=1"), 2, "--conf", id="conf"),
    pytest.param(("--baseline", "no"), 1, "no: No such file or directory", id="baseline"),
    pytest.param(
        ("--corpus", "{plain}", "--workload", "ev"), 1, "ev", id="a workload that does not fit"
    ),
]


@pytest.mark.parametrize(("arguments", "code", "said"), ERRORS)
def test_an_error_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    plain = tmp_path / "plain.xml"
    plain.write_text("<a/>")
    for folder, name in (("done", "figures.parquet"), ("begun", "unfinished.jsonl")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()
    given = (one.format(plain=plain) for one in arguments)
    done = run("benchmark", "filters", *given, cwd=tmp_path)
    assert done.returncode == code
    [line] = done.stderr.splitlines()
    assert line.startswith("dragoman: ") and said in line
    assert done.stdout == ""
    assert [path.stat().st_size for path in tmp_path.glob("*/*")] == [0, 0]


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
    assert done.stdout.startswith("Against 30 filters the ")
    table = [line.split()[:3] for line in done.stdout.splitlines()[3:7]]
    assert table == [
        ["mine.jsonl", n, engine] for n in ("10", "30") for engine in ("naive", "reference")
    ]
    told = done.stderr.splitlines()
    assert told[0] == "Starting Spark ..."
    assert told[1].startswith("[1/") and "240 verdicts agree, 10 matches in 12 messages" in told[1]
    assert "not counted" in done.stderr and "Traceback" not in done.stderr
    report = etree.parse(tmp_path / "out" / "report.html")
    assert report.findtext(".//h1") == "Matching XPath filters"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "figures.parquet",
        "report.html",
    }


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("figures.parquet", "The earlier run in out is replaced."),
        (
            "unfinished.jsonl",
            "The unfinished run in out is replaced; --resume would go on with it.",
        ),
    ],
)
def test_what_is_replaced_is_said_first(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).touch()
    done = run("benchmark", "filters", "--out", "out", "--baseline", "no", cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, said)


@pytest.mark.nightly
def test_one_large_file_and_an_earlier_run(tmp_path: Path) -> None:
    require_spark_here()
    rows = "".join(f"<w:storm><w:speed>{n}</w:speed></w:storm>" for n in range(50))
    (tmp_path / "big.xml").write_text(f"<w:storms xmlns:w='urn:w'>{rows}</w:storms>")
    (tmp_path / "mine.jsonl").write_text('{"id": 1, "xpath": "//*[. = 7]"}')
    options = (
        *("--corpus", "big.xml", "--row-tag", "w:storm", "--ns", "w=urn:w"),
        *("--workload", "mine.jsonl", "--partitions", "1", "--repetitions", "1"),
        *("--engine", "reference", "--master", "local[1]"),
        *(part for pair in SMALL.items() for part in ("--conf", "=".join(pair))),
    )
    for out, more in (("old", ()), ("new", ("--baseline", "old")), ("new", ())):
        done = run("benchmark", "filters", *options, "--out", out, *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert ("The earlier run in new is replaced" in done.stderr) == (out == "new" and not more)
        assert "100 verdicts agree, 1 matches in 50 messages" in done.stderr
        if "--baseline" in more:
            assert "Compared with old, in us/message:" in done.stdout
            assert "Compared with before" in (tmp_path / "new" / "report.html").read_text()


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
