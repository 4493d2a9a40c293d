"""A test that hangs ends the run; those before it do not shorten its time, and few are watched anew."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

CONFTEST = """
from tests.rigs.hang_watch import HangWatch

def pytest_configure(config):
    config.pluginmanager.register(HangWatch(limit={limit}, renewed={renewed}))
"""
TESTS = """
import time, pytest

@pytest.mark.parametrize("n", range(8))
def test_short(n):
    time.sleep(0.1)

def test_fails():
    assert False

def test_waits():
    time.sleep(30)
"""


def run(folder: Path, tests: str, *, limit: float, renewed: float) -> tuple[int, str]:
    (folder / "conftest.py").write_text(CONFTEST.format(limit=limit, renewed=renewed))
    (folder / "test_some.py").write_text(tests)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)],
        cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=90,
    )  # fmt: skip
    return ended.returncode, ended.stdout + ended.stderr


def test_what_hangs_is_named(tmp_path: Path) -> None:
    code, told = run(tmp_path, TESTS, limit=2.0, renewed=0.5)
    assert code == 1
    assert "in test_waits" in told


@pytest.mark.parametrize("mark", ["", "@pytest.mark.release\n"])
def test_short_tests_have_time_in_sum_and_campaigns_always(tmp_path: Path, mark: str) -> None:
    slow = f"import pytest, time\n{mark}def test_slow():\n    time.sleep({2.5 if mark else 0.1})\n"
    many = "@pytest.mark.parametrize('n', range(24))\ndef test_n(n):\n    time.sleep(0.1)\n"
    code, told = run(tmp_path, slow + many, limit=2.0, renewed=0.2)
    assert code == 0, told
