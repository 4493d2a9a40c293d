"""The benchmark of topic discovery runs; its figures are nobody's here."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from lxml import etree


@pytest.mark.slow
def test_it_answers_its_questions(tmp_path: Path) -> None:
    options = (
        "--runs 2 --sizes 1 2 --types tags --advertisements 40 --stores sqlite --rounds 1 "
        f"--folder {tmp_path} --charts {tmp_path}"
    )
    said = subprocess.run(
        [sys.executable, "-m", "benchmarks.discovery", "all", *options.split()],
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert said.returncode == 0, said.stderr[-3000:]
    rows = re.findall(r"^\| ([^|]+) \| [0-9.]+ \|", said.stdout, re.MULTILINE)
    for name in ("creation", "1 found", "2 found", "2 found and checked"):
        assert rows.count(name) == 2, (name, said.stdout)  # On this machine, and away.
    assert {"creation, node", "2 found, program"} <= set(rows)
    assert "; 0 were not kept" in said.stdout
    assert etree.parse(tmp_path / "discovery-shares.svg").getroot().tag.endswith("}svg")
