"""The compiled engine where memory is used up: each allocation fails in turn, and nothing is lost."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from filters.matching.engines.choice import engine_note

HERE = Path(__file__).parent

if note := engine_note():
    pytest.skip(note, allow_module_level=True)
if not shutil.which("g++"):
    pytest.skip("there is no g++", allow_module_level=True)


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The allocator that fails, compiled."""
    built = tmp_path_factory.mktemp("hook") / "failing_allocations.so"
    source = HERE / "failing_allocations.cpp"
    command = ["g++", "-shared", "-fPIC", "-o", str(built), str(source)]
    subprocess.run(command, check=True, timeout=120)
    return built


def failures(hook: Path, seed: int, size: int, mode: str) -> int:
    """Run the program; returns how many allocations failed, none of which left a trace."""
    module = f"{__package__}.allocation_failures"
    done = subprocess.run(
        [sys.executable, "-m", module, str(seed), str(size), mode],
        env={**os.environ, "LD_PRELOAD": str(hook)},
        cwd=HERE.parents[3],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert not done.returncode, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("mode", ["one", "rest"])
def test_each_allocation_fails(hook: Path, mode: str) -> None:
    assert failures(hook, 1, 20, mode) > 100


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("mode", ["one", "rest"])
def test_each_allocation_fails_in_larger_sets(hook: Path, seed: int, mode: str) -> None:
    assert failures(hook, seed, 60, mode) > 200
