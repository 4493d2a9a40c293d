"""The bench of engines: what all get, the verdicts of the two that are always there, the picture."""

import json
import sys
from pathlib import Path

import pytest
from lxml import etree

from benchmarks.engines.__main__ import EndedEarlyError, driven
from benchmarks.engines.patterns import LANGUAGES, MESSAGES, SHAPES, TRUE, Shape, write
from benchmarks.engines.picture import Panel, draw
from benchmarks.engines.python_drivers import dragoman, libxml2
from filters import parse_document
from filters.matching.engines.choice import engine_note

COUNT = 400


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_messages_and_patterns(shape: Shape, tmp_path: Path) -> None:
    write(tmp_path, shape, COUNT)
    values = [json.loads(line) for line in (tmp_path / "messages.json").read_text().splitlines()]
    octets = (tmp_path / "messages.xml").read_bytes().splitlines()
    roots = [parse_document(line) for line in octets]
    assert [dict(root.attrib) for root in roots] == values
    for language in LANGUAGES:
        assert len((tmp_path / f"patterns.{language}").read_text().splitlines()) == COUNT
    wanted = [json.loads(line) for line in (tmp_path / "patterns.json").read_text().splitlines()]
    true = sum(
        all(message[field] in values for field, values in pattern.items())
        for message in values
        for pattern in wanted
    )
    assert TRUE / 2 < true / MESSAGES < TRUE * 2
    patterns = (tmp_path / "patterns.xpath").read_text().splitlines()
    assert sum(map(libxml2(patterns), roots)) == true
    if not engine_note():
        assert sum(map(dragoman(patterns), roots)) == true


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("while True: pass", "more than 1 s"),
        ("import time; b = bytearray(300 * 2**20); time.sleep(60)", "more than 200 MiB"),
        ("raise MemoryError", "out of memory"),
        ("raise ValueError('no field')", "fails: ValueError: no field"),
    ],
)
def test_a_driver_is_ended(program: str, reason: str) -> None:
    with pytest.raises(EndedEarlyError, match=f"^{reason}$"):
        driven([sys.executable, "-c", program], 1, 200)


def test_a_driver_has_a_peak() -> None:
    program = "import time; b = bytearray(100 * 2**20); time.sleep(0.2); print('{\"true\": 3}')"
    figures = driven([sys.executable, "-c", program], 5, 1_000)
    assert figures["true"] == 3
    assert 100 < figures["peak"] < 300


def test_picture() -> None:
    lines = {"ours": [(125.0, 3.5), (1e6, 20.0)], "a < b": [(125.0, 900.0)]}
    panel = Panel(lines, {"a < b": 1e6})
    drawn = etree.fromstring(
        draw({"equal": panel, "two": panel}, "patterns", "us", "late").encode()
    )
    assert len(drawn.findall("{*}polyline")) == 4
    assert len(drawn.findall("{*}circle")) == 6
    assert [text.text for text in drawn.iter("{*}text")].count("\u00d7") == 2
