"""Functions for columns: all other columns stay, and what cannot be read is null."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from filters.spark import functions as X
from filters.spark.definitions import DefinitionError, builds
from tests.conftest import ROOT
from tests.filters.spark.column_trials import FILTERS, FOUND, TRIALS, found, frame, plain


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.__name__)
def test_in_a_session_of_this_process(spark: Any, trial: Callable[[Any], Any]) -> None:
    assert plain(trial(spark)) == plain(TRIALS[trial])


@pytest.mark.nightly
def test_over_spark_connect(spark: Any, connect_port: int) -> None:
    pytest.importorskip("grpc")
    url = f"sc://127.0.0.1:{connect_port}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.filters.spark.column_trials", url],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        trial.__name__: plain(result) for trial, result in TRIALS.items()
    }


@pytest.mark.nightly
def test_what_the_documentation_begins_with(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its first program, and those after it that count, in a batch and in a stream."""
    text = (ROOT / "docs" / "spark.md").read_text().partition("### XML files")[0]
    first, batch, stream = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    rows = frame(spark).withColumnRenamed("number", "id")
    rows.write.parquet(str(tmp_path / "events"))
    namespace: dict[str, Any] = {}
    exec(first.replace("/data/", f"{tmp_path}/"), namespace)  # noqa: S102  # Our own page.
    matched = spark.read.parquet(str(tmp_path / "matched"))
    assert {row.id: sorted(row.filters) for row in matched.collect()} == {
        0: ["coast"],
        1: ["coast"],
    }
    assert matched.columns == ["id", "payload", "topic", "filters"]
    assert {row.id: row.speed for row in namespace["speeds"].collect()}[1] == "120"
    assert namespace["unread"].first()[0] == 3
    # A null payload and a topic that cannot be read, too.
    for program, written in ((batch, "counted"), (stream, "streamed")):
        capsys.readouterr()
        exec(program.replace("/data/", f"{tmp_path}/"), namespace)  # noqa: S102
        assert capsys.readouterr().out == "5\n"
        assert spark.read.parquet(str(tmp_path / written)).count() == 2


def test_the_version_of_spark_connect_is_the_locked_one() -> None:
    locked = (ROOT / "requirements" / "spark.txt").read_text()
    [version] = re.findall(r"^pyspark==(\S+)", locked, re.MULTILINE)
    for page in (ROOT / "docs" / "spark.md", ROOT / "examples" / "spark" / "columns.ipynb"):
        said = re.findall(r"pyspark\[connect\]==([\d.]+\d)", page.read_text())
        assert said == [version], page


def test_bytes_in_their_own_charset(spark: Any) -> None:
    text = '<?xml version="1.0" encoding="{}"?><place>Bergen ø</place>'
    payloads = [text.format(name).encode(name) for name in ("ISO-8859-1", "UTF-16", "UTF-8")]
    rows = spark.createDataFrame([(bytearray(one),) for one in payloads], "payload binary")
    assert [row[0] for row in rows.select(X.xpath_value("payload", "/place")).collect()] == [
        "Bergen ø"
    ] * 3


def test_names_with_dots(spark: Any) -> None:
    rows = spark.sql("SELECT '<a/>' AS `event.payload`, struct('<b>' AS payload) AS event")
    assert tuple(rows.select(X.is_xml("`event.payload`"), X.is_xml("event.payload")).first()) == (
        True,
        False,
    )


def test_actions_and_properties(spark: Any) -> None:
    rows = spark.createDataFrame(
        [(1, "<a/>", "urn:a", {"x": "1", "y": None})],
        "number int, payload string, action string, properties map<string,string>",
    )
    filters = [one for one in FILTERS if "topic" not in one]
    column = X.matches("payload", filters, action="action", properties="properties")
    assert found(rows.select("number", column.alias("found")).collect()) == {1: []}


def test_in_a_stream(spark: Any, tmp_path: Path) -> None:
    frame(spark).write.parquet(str(tmp_path / "in"))
    stream = (
        spark.readStream.schema("number int, payload string, topic string")
        .parquet(str(tmp_path / "in"))
        .withColumn("found", X.matches("payload", FILTERS, topic="topic"))
    )
    query = (
        stream.writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start(str(tmp_path / "out"))
    )
    assert query.awaitTermination(120)
    assert found(spark.read.parquet(str(tmp_path / "out")).collect()) == FOUND


@pytest.mark.nightly
def test_a_worker_compiles_once(spark: Any) -> None:
    """Batches of one row, in one partition: the set is built by the first of them alone."""
    import pyarrow
    from pyspark.sql.functions import arrow_udf

    def count(payloads: Any) -> Any:
        import pyarrow

        return pyarrow.array([builds()] * len(payloads))

    count.__annotations__ = {"payloads": pyarrow.Array, "return": pyarrow.Array}

    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
    try:
        filters = [{"id": "one", "xpath": f"/a[b = '{datetime.now(UTC)}']"}]
        rows = spark.createDataFrame([("<a/>",)] * 20, "payload string").coalesce(1)
        matched = rows.withColumn("found", X.matches("payload", filters))
        counted = matched.withColumn("builds", arrow_udf(count, "long")("payload"))
        counts = [row.builds for row in counted.collect()]
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before)
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        ([{"id": "a", "xpath": "/a["}], "filter 1: a: "),
        ([{"id": "a", "xpath": "/x:a"}], "filter 1: a: "),
        ([{"id": "a"}, {"id": "a"}], "filter 2: the id 'a' is there already"),
        ([{"xpath": "/a"}], "filter 1: there is no id"),
        ([], "there are no filters"),
        ([{"id": "a", "xptah": "/a"}], "filter 1: a: there is no 'xptah'; a filter has id, xpath,"),
        ([{"id": "a", "xpath": "/a", "action": "urn:a"}], "filter 1: a: there is no 'action'"),
        ([{"id": "T", "Topic": "q"}], "filter 1: T: there is no 'Topic'"),
        ([{"id": "a", "xpath": ""}], "filter 1: a: xpath is empty; give an expression, or leave"),
        ([{"id": "a", "topic": ""}], "filter 1: a: topic is empty; give an expression, or leave"),
        (["/a"], 'filter 1 is of the type str; give a dictionary, such as {"id": "fast", "xpath'),
        ({"id": "a", "xpath": "/a"}, "matches: definitions is of the type dict; give a list of"),
        ({"a": "/a"}, "matches: definitions is of the type dict; give a list of filters: [{"),
        (None, "matches: definitions is None; give a list of filters: [{"),
        (7, "matches: definitions is of the type int; give a list of filters: [{"),
        (b"/a", "matches: definitions is of the type bytes; give a list of filters: [{"),
    ],
)
def test_filters_that_are_wrong(filters: Any, says: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        X.as_definitions(filters)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize("path", ["/a/b", "//storm[speed > 100]", "/", "", "/a" * 300])
def test_an_expression_where_a_file_belongs(path: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        X.matches("payload", path)
    assert str(caught.value) == (
        f"matches: {path!r} is not a file of filters; give the path of one, "
        "or use xpath_matches for a single XPath"
    )


@pytest.mark.parametrize("made", [FILTERS, X.as_definitions(FILTERS)], ids=["list", "definitions"])
def test_an_engine_that_is_not_there(made: Any) -> None:
    with pytest.raises(
        DefinitionError, match=r"^matches: 'foo' is not an engine; there are native"
    ):
        X.matches("payload", made, engine="foo")


def test_tables_of_filters_that_say_nothing(spark: Any) -> None:
    for row, said in {
        "'a' AS id, '/a' AS xptah": "the filters have the columns id, xptah; give id, and xpath,",
        "'/a' AS xpath": "the filters have the columns xpath; give id, and xpath, topic or filter",
        "'a' AS id, '/a' AS xpath, 't' AS Topic": "have a column 'Topic'; rename it to 'topic'",
    }.items():
        with pytest.raises(DefinitionError) as caught:
            X.as_definitions(spark.sql(f"SELECT {row}"))
        assert said in str(caught.value)
    others = "'a' AS id, '/a' AS xpath, 'urn:x' AS consumer, 1 AS number"
    assert len(X.as_definitions(spark.sql(f"SELECT {others}"))) == 1


def test_filters_with_a_topic_and_no_topics_are_warned_of(spark: Any) -> None:
    with pytest.warns(UserWarning) as warned:
        X.matches("payload", FILTERS)
    assert [(str(one.message), one.filename) for one in warned] == [
        (
            "matches: filters with a topic, such as 'coast', match no row without topic=; "
            "give the column of topics",
            __file__,
        )
    ]


def test_what_is_left_out_of_a_file_is_warned_of(tmp_path: Path) -> None:
    of_envelope = {"id": "b", "filter": {"contents": [{"text": "/a", "view": "envelope"}]}}
    rows = [{"id": "a", "filter": {"contents": [{"text": "/a"}]}}, of_envelope]
    (tmp_path / "subscriptions.json").write_text(json.dumps(rows))
    for given in (rows, str(tmp_path / "subscriptions.json")):
        with pytest.warns(UserWarning, match=r"^filters that .* are left out \(1\): b$"):
            assert len(X.as_definitions(given)) == 1


@pytest.mark.parametrize("make", [X.xpath_matches, X.xpath_value])
def test_an_expression_that_is_wrong(make: Any) -> None:
    with pytest.raises(DefinitionError, match="prefix"):
        make("payload", "/w:storm")
