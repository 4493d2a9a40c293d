"""Messages of files, and archives of them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from filters.spark import functions as X
from filters.spark.archive_writing import remove_empty
from filters.spark.backtest import BacktestError
from filters.spark.corpus import CorpusError
from filters.spark.message_files import (
    NO_PAYLOAD,
    NOT_A_TIME,
    NOT_A_TOPIC,
    NOT_JSON,
    NOT_XML,
    Fault,
    Imported,
    import_messages,
    messages_in,
    require_messages,
    sample_rows,
)
from filters.spark.xml_rows import xml_rows
from tests.filters.spark.conftest import START

ROOT_ELEMENT = '<?xml version="1.0"?>\n<events xmlns:w="urn:w">\n{}\n</events>'
ELEMENTS = [
    '<event id="1" w:k="a&amp;b > c"><!-- no <event> --><w:speed>1</w:speed> mixed <b/></event>',
    "<event/>",
    "<event at='/>' />",
    "<event\n id='4'><![CDATA[<q>]]>$1 \\ ø</event>",
    "<event><a></event>",
    "<events2/>",
    "<event></event>",
]
ROWS = [one for one in ELEMENTS if one != "<events2/>"]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events [1].xml"
    path.write_text(ROOT_ELEMENT.format("\n".join(ELEMENTS)), encoding="utf-8")
    return path


def test_elements_are_rows_as_they_are_written(spark: Any, events: Path) -> None:
    rows = xml_rows(spark.read, str(events), "event")
    assert [row.payload for row in rows.collect()] == ROWS
    declared = xml_rows(spark.read, str(events), "event", {"w": "urn:w&$1", "": "urn:x"})
    payloads = [row.payload for row in declared.collect()]
    assert payloads[1] == '<event xmlns="urn:x" xmlns:w="urn:w&amp;$1"/>'
    read = [row[0] for row in declared.select(X.is_xml("payload")).collect()]
    assert read == [True, True, True, True, False, True]


DECLARING = [
    pytest.param("<w:e xmlns:w='urn:w'/>", "<w:e xmlns:w='urn:w'/>", id="itself"),
    pytest.param(
        '<w:e a="1 > 0" xmlns:w = "urn:v">x</w:e>',
        '<w:e a="1 > 0" xmlns:w = "urn:v">x</w:e>',
        id="itself, behind a value with >, as something else",
    ),
    pytest.param(
        "<w:e\n\ta='\n'\n\txmlns:w\n=\n'urn:w'\n>x</w:e>",
        "<w:e\n\ta='\n'\n\txmlns:w\n=\n'urn:w'\n>x</w:e>",
        id="itself, over lines",
    ),
    pytest.param("<w:e/>", '<w:e xmlns:w="urn:w"/>', id="nothing"),
    pytest.param(
        "<w:e>$1 \\</w:e>", '<w:e xmlns:w="urn:w">$1 \\</w:e>', id="nothing, with content"
    ),
    pytest.param(
        """<w:e a=" xmlns:w='x'"/>""",
        """<w:e xmlns:w="urn:w" a=" xmlns:w='x'"/>""",
        id="a value that reads so",
    ),
    pytest.param(
        """<w:e a="'" b=' xmlns:w="x"'/>""",
        """<w:e xmlns:w="urn:w" a="'" b=' xmlns:w="x"'/>""",
        id="a value that reads so, behind the other quote",
    ),
    pytest.param(
        "<w:e xmlns:w2='urn:2' xmlns='urn:d'/>",
        "<w:e xmlns:w=\"urn:w\" xmlns:w2='urn:2' xmlns='urn:d'/>",
        id="other prefixes",
    ),
    pytest.param(
        "<w:e><b xmlns:w='urn:w'/></w:e>",
        "<w:e xmlns:w=\"urn:w\"><b xmlns:w='urn:w'/></w:e>",
        id="a child",
    ),
]


def test_a_prefix_is_declared_where_the_element_does_not(spark: Any, tmp_path: Path) -> None:
    for number, row in enumerate(DECLARING):
        (tmp_path / f"{number}.xml").write_text(f"<es>{row.values[0]}</es>")
    rows = xml_rows(spark.read, str(tmp_path), "w:e", {"w": "urn:w"}, with_metadata=True)
    found = {
        int(Path(row["file_name"]).stem): (row["payload"], row["xml"])
        for row in rows.select(
            "payload", X.is_xml("payload").alias("xml"), "_metadata.file_name"
        ).collect()
    }
    for number, row in enumerate(DECLARING):
        assert found[number] == (row.values[1], True), row.id


def test_many_attributes_before_a_declaration(spark: Any, tmp_path: Path) -> None:
    """Java's regular expressions recurse: what they are asked must not grow with the element."""
    attributes = " ".join(f'a{n}="{n}"' for n in range(1000))
    elements = f"<w:e {attributes} xmlns:w='urn:w'/><w:e {attributes}/>"
    (tmp_path / "a.xml").write_text(f"<es>{elements}</es>")
    rows = xml_rows(spark.read, str(tmp_path), "w:e", {"w": "urn:w"})
    assert [row.payload.count("xmlns:w=") for row in rows.collect()] == [1, 1]


def test_many_files_of_many_splits(spark: Any, tmp_path: Path) -> None:
    """Wherever Spark cuts them: each element is there once, whole."""
    folder = tmp_path / "a=b ø"
    folder.mkdir()
    for number in range(2):
        rows = "".join(f"<w:row n='{number}-{n}'>{'x' * (n % 50)}</w:row>" for n in range(200))
        (folder / f"{number}.xml").write_text(f"<rows xmlns:w='urn:w'>{rows}</rows>")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1000")
    try:
        rows = xml_rows(spark.read, str(folder), "w:row", {"w": "urn:w"})
        assert rows.rdd.getNumPartitions() > 10
        found = [row[0] for row in rows.select(X.xpath_value("payload", "/*/@n")).collect()]
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert sorted(found) == sorted(f"{number}-{n}" for number in range(2) for n in range(200))


def test_beside_columns_that_spark_makes(spark: Any, events: Path) -> None:
    """``from_xml`` and our functions over the same text; and the rows are those of Spark's format."""
    from pyspark.sql import functions as F

    rows = xml_rows(spark.read, str(events), "event", {"w": "urn:w"})
    both = rows.select(
        F.from_xml("payload", "_id int, b string").alias("parsed"),
        X.xpath_matches("payload", "/event/w:speed = 1", {"w": "urn:w"}).alias("slow"),
    )
    assert (both.first().parsed._id, both.first().slow) == (1, True)
    ids = (
        spark.read.format("xml")
        .option("rowTag", "event")
        .schema("_id int")
        .load(str(events.parent))
    )
    assert [row[0] for row in ids.where("_id is not null").collect()] == [1, 4]


def test_a_name_that_is_none(spark: Any) -> None:
    with pytest.raises(ValueError, match="'<a' is not the name"):
        xml_rows(spark.read, "/nowhere", "<a")


def test_files_of_every_kind_become_an_archive(spark: Any, events: Path, tmp_path: Path) -> None:
    folder, target = tmp_path / "given", str(tmp_path / "archive")
    folder.mkdir()
    lines = [
        {
            "id": "j-1",
            "time": "2026-11-20T22:30:00Z",
            "topic": "storms/coast",
            "payload": "<a>ø</a>",
        },
        {
            "xml": "<?xml version='1.0' encoding='UTF-16'?><b/>",
            "topic": "a b//",
            "properties": {"x": "1"},
        },
        {"xml": "<b"},
        {"other": 1},
    ]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\nno JSON\n")
    (folder / "b.xml").write_bytes(
        "<?xml version='1.0' encoding='ISO-8859-1'?><c>ø</c>".encode("latin-1")
    )
    spark.createDataFrame([("<d/>", "p-1")], "xml string, id string").coalesce(1).write.parquet(
        str(folder / "c")
    )
    done = import_messages(spark, str(folder), target, topic="{urn:t}tides")
    assert (done.rows, done.left_out) == (4, 3)
    assert done.faults == (
        Fault(NOT_JSON, 1, "a.jsonl: no JSON"),
        Fault(NO_PAYLOAD, 1, "a.jsonl"),
        Fault(NOT_XML, 1, "a.jsonl: <b"),
        Fault(NOT_A_TOPIC, 1, "a.jsonl: a b//"),
    )
    rows = {row["payload"]: row for row in spark.read.parquet(target).collect()}
    assert rows.keys() == {"<a>ø</a>", "<b/>", "<c>ø</c>", "<d/>"}
    first = rows["<a>ø</a>"]
    assert (first["id"], first["topic"], first["root"]) == ("j-1", "storms/coast", "storms")
    assert first["time"].timestamp() == START.timestamp()
    other = rows["<b/>"]
    assert (other["topic"], other["properties"]) == ("{urn:t}tides", {"x": "1"})
    assert other["id"].startswith("urn:uuid:") and rows["<d/>"]["id"] == "p-1"

    done = import_messages(spark, str(events), target, row_tag="event", namespaces={"w": "urn:w"})
    assert (done.rows, done.left_out) == (5, 1)
    # An archive is files of messages, too.
    assert messages_in(spark, target).where("payload is not null").count() == 9


ADAPTIVE = "spark.sql.adaptive.enabled"
"""Spark's default, by which a plan without rows becomes another while it runs."""


@pytest.fixture
def adaptive(spark: Any) -> Iterator[None]:
    before = spark.conf.get(ADAPTIVE)
    spark.conf.set(ADAPTIVE, "true")
    yield
    spark.conf.set(ADAPTIVE, before)


@pytest.mark.usefixtures("adaptive")
def test_nothing_to_write_is_said_and_leaves_nothing(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text('{"foo": "<a/>"}\n')
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "export.xml").write_text("<events><event/></events>")
    target = tmp_path / "archive"
    done = import_messages(spark, str(tmp_path / "none.jsonl"), str(target))
    assert done == Imported(0, 1, (Fault(NO_PAYLOAD, 1, "none.jsonl"),))
    assert import_messages(spark, str(tmp_path / "empty.jsonl"), str(target)) == Imported(0, 0)
    export = str(tmp_path / "export.xml")
    with pytest.raises(BacktestError, match=r"export\.xml: no element nothere$"):
        import_messages(spark, export, str(target), row_tag="nothere")
    (tmp_path / "latin.xml").write_bytes("<ø>".encode("latin-1"))
    done = import_messages(spark, str(tmp_path / "latin.xml"), str(target))
    assert done == Imported(0, 1, (Fault(NOT_XML, 1, "latin.xml: <\N{REPLACEMENT CHARACTER}>"),))
    assert not target.exists()
    assert import_messages(spark, export, str(target), row_tag="event") == Imported(1, 0)
    import_messages(spark, str(tmp_path / "none.jsonl"), str(target))
    assert list(target.rglob("*.parquet"))


def test_times_that_cannot_be_read_are_told(spark: Any, tmp_path: Path) -> None:
    """In JSON as in a column of text; what is empty is no time, and a number is seconds."""
    times = ["yesterday", "2026-11-20T22:30:00Z", None, 1_795_213_800]
    lines = [json.dumps({"payload": "<a/>", "time": time}) for time in times]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    rows = [("<b/>", "soon"), ("<b/>", ""), ("<b/>", None), ("<b/>", "2026-11-20 22:30:00+00:00")]
    table = spark.createDataFrame(rows, "payload string, time string")
    table.coalesce(1).write.parquet(str(tmp_path / "p"))
    target = str(tmp_path / "archive")
    done = import_messages(spark, str(tmp_path / "a.jsonl"), target)
    assert done == Imported(4, 0, (Fault(NOT_A_TIME, 1, "a.jsonl: yesterday"),))
    done = import_messages(spark, str(tmp_path / "p"), target)
    [fault] = done.faults
    assert (done.rows, fault.kind, fault.count) == (4, NOT_A_TIME, 1)
    assert fault.example.startswith("part-") and fault.example.endswith(".parquet: soon")
    found = [row["time"].timestamp() for row in spark.read.parquet(target).collect()]
    assert found.count(START.timestamp()) == 3


def test_a_folder_in_which_another_job_writes_stays(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "_temporary").mkdir()
    remove_empty(spark, str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2
    (tmp_path / "_temporary").rmdir()
    remove_empty(spark, str(tmp_path))
    assert not tmp_path.exists()
    remove_empty(spark, str(tmp_path))


NO_FILES = [
    pytest.param("gone.jsonl", None, "gone.jsonl: no such file or folder", id="missing"),
    pytest.param("gone.xml", "event", "gone.xml: no such file or folder", id="missing XML"),
    pytest.param("texts", None, "texts: no messages", id="a folder of other files"),
    pytest.param("texts/a.txt", None, "a.txt: no messages", id="another file"),
]


@pytest.mark.parametrize(("name", "row_tag", "said"), NO_FILES)
def test_files_that_are_missing_are_told_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, row_tag: str | None, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").touch()
    (tmp_path / "texts" / "_b.xml").touch()
    with pytest.raises(BacktestError, match=re.escape(said)):
        require_messages(name, row_tag=row_tag)
    require_messages("texts", row_tag="event")
    require_messages(f"s3a://{name}")


def test_a_sample_of_elements_is_from_all_of_the_files(spark: Any, tmp_path: Path) -> None:
    rows = "".join(f"<row n='{n}'>{'' if n % 10 else '<'}</row>" for n in range(100))
    (tmp_path / "a.xml").write_text(f"<rows>{rows}</rows>")
    every = sample_rows(spark, [str(tmp_path / "a.xml")], "row", 1000)
    assert (len(every.messages), every.left_out) == (90, 10)
    few = sample_rows(spark, [str(tmp_path / "a.xml")], "row", 30)
    numbers = [int(one.split(b'"')[1]) for one in few.messages]
    assert len(numbers) + few.left_out == 25 and max(numbers) > 90 and numbers == sorted(numbers)
    with pytest.raises(CorpusError, match="none of 0 tide can be used"):
        sample_rows(spark, [str(tmp_path / "a.xml")], "tide", 30)


def test_what_has_no_messages(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    spark.createDataFrame([(1,)], "x int").write.parquet(str(tmp_path / "p"))
    with pytest.raises(BacktestError, match="no messages"):
        messages_in(spark, str(tmp_path))
    with pytest.raises(ValueError, match="topic"):
        import_messages(spark, str(tmp_path), "x", topic="a b//")
