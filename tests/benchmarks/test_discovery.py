"""The benchmark of topic discovery runs; its figures are nobody's here."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from lxml import etree

pytestmark = pytest.mark.slow


def run(question: str, options: str, folder: Path) -> str:
    """What it prints."""
    said = subprocess.run(
        [
            sys.executable, "-m", "benchmarks.discovery", question, *options.split(),
            "--runs", "2", "--sizes", "1", "2", "--stores", "sqlite", "--folder", str(folder),
        ],
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr[-3000:]
    return said.stdout


def rows(said: str) -> list[str]:
    """The names of the rows of its tables."""
    return re.findall(r"^\| ([^|]+) \| [0-9.]+ \|", said, re.MULTILINE)


@pytest.mark.nightly
def test_topics_are_made_and_found_a_way_away(tmp_path: Path) -> None:
    said = run("exchange", "--types tags --away 5", tmp_path)
    assert {"creation", "- advertisement", "1 found", "2 found and checked"} <= set(rows(said))


@pytest.mark.nightly
def test_the_time_goes_into_activities(tmp_path: Path) -> None:
    said = run("shares", f"--charts {tmp_path}", tmp_path)
    assert rows(said) == [
        f"{what}, {side}"
        for what in ("creation", "1 found", "2 found")
        for side in ("node", "program")
    ]
    for name, bars in (("creation", 2), ("discovery", 4)):
        drawn = etree.parse(tmp_path / f"shares-of-{name}.svg")
        shown = [text for text in drawn.findall("{*}text") if text.get("text-anchor") == "end"]
        assert len(shown) == bars
        assert len(drawn.findall("{*}rect")) > 2 * bars


@pytest.mark.nightly
def test_advertisements_are_taken(tmp_path: Path) -> None:
    said = run("intake", "--advertisements 40 --rounds 1", tmp_path)
    assert "; 0 were not kept" in said


@pytest.mark.nightly
def test_many_topics_are_searched(tmp_path: Path) -> None:
    said = run("catalogue", "--known 250 --most 2 --dialects words", tmp_path)
    assert re.search(r"^words, a phrase: median [0-9.]+ ms", said, re.MULTILINE), said
    assert re.search(r"^words: p95 [0-9.]+ ms, aim 50 ms$", said, re.MULTILINE), said


BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pytest", "hypothesis"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import benchmarks.discovery.__main__
from benchmarks.discovery import catalogue, exchange, intake, setting, shares
"""


def test_it_needs_no_library_of_tests() -> None:
    said = subprocess.run(
        [sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=120, check=False
    )
    assert said.returncode == 0, said.stderr[-3000:]
