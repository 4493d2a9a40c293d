"""Packages of npm for programs of others, installed into a folder of the cache when they are first
needed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

INSTALL = 60.0
"""Seconds."""


def node_modules(name: str, package: str) -> Path:
    """The folder in which node finds *package* (``NAME@VERSION``), which is *name* to people; the
    test that asks is skipped where it cannot be had."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {name}: {program} is not installed (nodejs, npm)")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "dragoman-tests" / package.replace("@", "-").replace("/", "-").lstrip("-")
    if not (folder / "installed").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]
        try:
            done = subprocess.run(
                [*command, str(folder), package], capture_output=True, timeout=INSTALL, check=False
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"needs {name}: npm installs nothing within {INSTALL:.0f} s")
        if done.returncode:
            pytest.skip(f"needs {name}: npm install {package} failed")
        (folder / "installed").touch()
    return folder / "node_modules"
