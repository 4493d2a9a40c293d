"""Servers that all workers of a run share. Each is started once, by the worker that asks first.

It belongs to a keeper, a process of its own (`tests.rigs.keeper`), because a worker may end long
before the last test of another one. The keeper ends with the run, however that ends.
"""

import fcntl
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

START = 240.0
ROOT = Path(__file__).parents[2]

Server = TypeVar("Server")

_run: Path | None = None
"""What the workers of this run have in common; None where this process runs all tests."""
_there: dict[str, Any] = {}


def share_in(folder: Path) -> None:
    """Share servers with all workers that name the same *folder*."""
    global _run
    folder.mkdir(exist_ok=True)
    _run = folder


def of_the_run(name: str, own: Callable[[], Server]) -> Server:
    """Return the server *name* that all workers of the run share; without workers, *own*."""
    if _run is None:
        return own()
    if name not in _there:
        with (_run / f"{name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (_run / name).exists():
                _have_kept(_run, name)
        _there[name] = pickle.loads((_run / name).read_bytes())
    server: Server = _there[name]
    return server


def _have_kept(run: Path, name: str) -> None:
    """Have a keeper start server *name*, and wait until it has."""
    output = run / f"{name}.log"
    controller = os.getppid()
    with output.open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-m", "tests.rigs.keeper", name, str(run), str(controller)],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=START, check=False,
        )  # fmt: skip
    assert done.returncode == 0, output.read_text()
