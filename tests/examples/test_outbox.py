"""The two services of outbox and inbox, killed with their gateway."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

END = 240.0


@pytest.mark.slow
def test_kills_lose_and_double_no_sale() -> None:
    said = subprocess.run(
        [sys.executable, "examples/outbox/run.py", "--sales", "10", "--kills", "1", "--seed", "5"],
        cwd=ROOT, capture_output=True, timeout=END, check=False,
    )  # fmt: skip
    assert b"0 lost, 0 twice, 0 with a wrong state" in said.stdout, said.stderr[-2000:].decode()
    assert said.returncode == 0
