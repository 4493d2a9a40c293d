"""Corpora of every form."""

import gzip
import json
from pathlib import Path

import pytest

from filters.archive import Row
from filters.spark.corpus import CorpusError, read_corpus
from tests.filters.spark.conftest import START, write


def test_every_form_is_read(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text(json.dumps({"id": 1, "xml": "<a>ø</a>"}) + "\n")
    with gzip.open(tmp_path / "2.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps({"payload": "<b/>"}) + "\n" + json.dumps({"payload": "<b"}) + "\n")
    (tmp_path / "3.xml").write_bytes(b"<?xml version='1.0'?><c/>")
    (tmp_path / "4.txt").write_bytes(b"<d/>")
    expected = ["<a>ø</a>".encode(), b"<b/>", b"<?xml version='1.0'?><c/>"]
    assert read_corpus([tmp_path], 10) == expected
    assert read_corpus([tmp_path / "3.xml", tmp_path / "1.jsonl"], 10) == expected[::-2]


def test_an_archive_is_a_corpus(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    write(tmp_path, [Row(str(n), START, f"<a>{n}</a>") for n in range(10)], "w.parquet")
    assert read_corpus([tmp_path], 100) == [f"<a>{n}</a>".encode() for n in range(10)]
    assert read_corpus([tmp_path], 4) == [b"<a>0</a>", b"<a>3</a>", b"<a>6</a>", b"<a>9</a>"]


ERRORS = [
    pytest.param("a.jsonl", b"{", "a.jsonl: ", id="not JSON"),
    pytest.param("a.jsonl", b'{"text": "<a/>"}', "neither xml nor payload", id="no column"),
    pytest.param("a.jsonl.gz", b"no gzip", "a.jsonl.gz: ", id="not gzip"),
    pytest.param("a.txt", b"<a/>", "none of .jsonl", id="suffix"),
    pytest.param("a.xml", b"<a", "no XML documents", id="not XML"),
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
