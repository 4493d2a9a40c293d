"""The guide to writing an adapter, followed to the letter."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "adapters.md").read_text()
FILES = dict(re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", GUIDE, re.DOTALL))


def test_the_adapter_of_the_guide(tmp_path: Path) -> None:
    """Its files, installed as a package, pass the contract kit."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the package, is not installed")
    assert set(FILES) == {"shelf.py", "test_shelf.py", "pyproject.toml"}
    project, installed = tmp_path / "project", tmp_path / "installed"
    project.mkdir()
    for name, text in FILES.items():
        (project / name).write_text(text)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(installed)]
    subprocess.run([*pip, str(project)], check=True, timeout=120)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shelf.py"],
        cwd=project, env={**os.environ, "PYTHONPATH": os.pathsep.join((str(installed), str(ROOT)))},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"^\d+ passed, 3 skipped in ", done.stdout, re.MULTILINE), done.stdout
