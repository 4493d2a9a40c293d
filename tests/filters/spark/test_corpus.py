"""Corpora of every form."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from filters.archive import Row
from filters.documents import parse_own
from filters.spark.corpus import MAX_LINE, Corpus, CorpusError, read_corpus
from tests.filters.spark.conftest import START, write


def test_every_form_is_read(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text(json.dumps({"id": 1, "xml": "<a>ø</a>"}) + "\n")
    with gzip.open(tmp_path / "2.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps({"payload": "<b/>"}) + "\n" + json.dumps({"payload": "<b"}) + "\n")
    (tmp_path / "3.xml").write_bytes(b"<?xml version='1.0'?><c/>")
    (tmp_path / "4.txt").write_bytes(b"<d/>")
    expected = ("<a>ø</a>".encode(), b"<b/>", b"<?xml version='1.0'?><c/>")
    assert read_corpus([tmp_path], 10) == Corpus(expected, left_out=1)
    some = read_corpus([tmp_path / "3.xml", tmp_path / "1.jsonl"], 10)
    assert some == Corpus(expected[::-2])


def test_utf_16_becomes_utf_8(tmp_path: Path) -> None:
    (tmp_path / "1.xml").write_bytes("<a>ø</a>".encode("utf-16"))
    [octets] = read_corpus([tmp_path], 10).messages
    assert octets.decode().endswith("<a>ø</a>")
    assert parse_own(octets).text == "ø"


def test_a_large_message_is_a_message(tmp_path: Path) -> None:
    large = "<a>" + "<b>x</b>" * 20_000 + "</a>"
    (tmp_path / "1.jsonl").write_text(json.dumps({"xml": large}) + "\n\n")
    assert read_corpus([tmp_path], 10).messages == (large.encode(),)


def test_files_of_a_folder_that_are_about_something_else(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"payload": "<a/>"}\n')
    (tmp_path / "filters.jsonl").write_text('{"id": 1, "xpath": "/a"}\n')
    read = read_corpus([tmp_path], 10)
    assert read == Corpus((b"<a/>",), passed_over=(tmp_path / "filters.jsonl",))
    with pytest.raises(CorpusError, match="neither xml nor payload"):
        read_corpus([tmp_path, tmp_path / "filters.jsonl"], 10)
    (tmp_path / "a.jsonl").write_text('{"payload": "<a/>"}\n{"id": 1}\n')
    with pytest.raises(CorpusError, match="line 2: neither xml nor payload"):
        read_corpus([tmp_path], 10)


def test_an_archive_is_a_corpus(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    write(tmp_path, [Row(str(n), START, f"<a>{n}</a>") for n in range(10)], "w.parquet")
    all_ = tuple(f"<a>{n}</a>".encode() for n in range(10))
    assert read_corpus([tmp_path], 100).messages == all_
    assert read_corpus([tmp_path], 4).messages == all_[::3]


COLUMNS = [
    pytest.param({"id": ["1"]}, "neither xml nor payload among its names", id="no column"),
    pytest.param({"xml": [1, 2]}, "xml is not a text, but int64", id="numbers"),
    pytest.param({"payload": [["<a/>"]]}, "payload is not a text, but list", id="lists"),
]


@pytest.mark.parametrize(("columns", "said"), COLUMNS)
def test_wrong_columns_of_parquet(tmp_path: Path, columns: dict[str, Any], said: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    with pytest.raises(CorpusError) as raised:
        read_corpus([tmp_path / "a.parquet"], 10)
    assert said in str(raised.value) and "a.parquet" in str(raised.value)


def test_octets_in_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"payload": [b"<a/>", None]}), tmp_path / "a.parquet")
    assert read_corpus([tmp_path], 10) == Corpus((b"<a/>",))


ERRORS = [
    pytest.param("a.jsonl", b'{"xml": "<a/>"}\n{', "a.jsonl: line 2: not JSON", id="not JSON"),
    pytest.param("a.jsonl", b'{"xml": "<a>\xff</a>"}', "line 1: not JSON", id="not UTF-8"),
    pytest.param("a.jsonl", b"5", "line 1: not an object", id="a number"),
    pytest.param("a.jsonl", b'{"text": "<a/>"}', "line 1: neither xml nor payload", id="no key"),
    pytest.param("a.jsonl", b'{"xml": 5}', "line 1: xml is not a text", id="key of a number"),
    pytest.param("a.jsonl", b'{"xml": null}', "line 1: xml is not a text", id="key of null"),
    pytest.param("a.jsonl", b'{"xml": "\\ud800"}', "half of a surrogate pair", id="surrogate"),
    pytest.param("a.jsonl", b"[" * 100_000, "line 1: ", id="deep"),
    pytest.param("a.jsonl", b'"' * MAX_LINE, "line 1: over 8,388,608 octets", id="long"),
    pytest.param("a.jsonl", b"", "a.jsonl: no XML documents", id="empty"),
    pytest.param("a.jsonl.gz", b"", "a.jsonl.gz: no XML documents", id="empty gzip"),
    pytest.param("a.jsonl.gz", b"no gzip", "a.jsonl.gz: ", id="not gzip"),
    pytest.param("a.jsonl.gz", gzip.compress(b"{}" * 99)[:-9], "a.jsonl.gz: ", id="cut gzip"),
    pytest.param("a.parquet", b"", "a.parquet: ", id="empty Parquet"),
    pytest.param("a.txt", b"<a/>", "has to end with one of .jsonl", id="suffix"),
    pytest.param("a.xml", b"<a", "none of 1 documents can be used", id="not XML"),
    pytest.param("a.xml", b"", "none of 1 documents can be used", id="empty XML"),
]


@pytest.mark.parametrize(("name", "octets", "said"), ERRORS)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, octets: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(octets)
    with pytest.raises(CorpusError) as raised:
        read_corpus([tmp_path / name], 10)
    assert said in str(raised.value)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no XML documents"):
        read_corpus([tmp_path], 10)
    with pytest.raises(CorpusError, match="No such file"):
        read_corpus([tmp_path / "no.xml"], 10)
