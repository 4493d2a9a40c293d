"""The processes of programs with queued transactions leave nothing behind."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, time
from tests.rigs.queued import Killed

Killed(time.sleep, (50,)).start()
os.kill(os.getpid(), signal.SIGKILL)
"""
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_they_end_with_the_process_that_started_them() -> None:
    """Its output is theirs, too: it ends when the last of them does."""
    run = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(run, cwd=ROOT, stdout=subprocess.PIPE, timeout=30, check=False)
    assert ended.returncode == -signal.SIGKILL
