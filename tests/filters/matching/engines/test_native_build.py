"""The compiled engine as it is built, installed, and refused where it does not fit."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from lxml import etree

from filters.matching.engines.choice import engine_note

ROOT = Path(__file__).parents[4]
PACKAGES = ("gateway", "adapters", "mediation", "filters")
FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "NOTICE")

ASK = """
import filters
from filters.matching.engines.choice import engine, engine_note, make_index
print(filters.__file__)
print(engine())
print(engine_note())
try:
    print(type(make_index("native")).__name__)
except ValueError as exc:
    print(exc)
"""


def build(folder: Path, **environment: str) -> Path:
    """A wheel of a copy of the tree, in *folder*."""
    tree = folder / "tree"
    tree.mkdir()
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / package, tree / package, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, tree)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    command += ["--skip-dependency-check", "--outdir", str(folder), str(tree)]
    run(command, folder, **environment)
    (wheel,) = folder.glob("dragoman-*.whl")
    return wheel


def run(command: list[str], folder: Path, **environment: str) -> str:
    found = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not found.returncode, found.stdout + found.stderr
    return found.stdout


def install(wheel: Path, folder: Path) -> Path:
    target = folder / "installed"
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
    run([*command, "--target", str(target), str(wheel)], folder)
    # What was compiled stands without its sources.
    shutil.rmtree(target / "filters/matching/kernel", ignore_errors=True)
    return target


def ask(folder: Path, script: str = ASK) -> list[str]:
    """What the package in *folder* says."""
    where, *answers = run(
        [sys.executable, "-c", script], folder, PYTHONPATH=str(folder)
    ).splitlines()
    assert Path(where).is_relative_to(folder)
    return answers


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_a_wheel_has_the_engine(tmp_path: Path) -> None:
    wheel = build(tmp_path)
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    assert sum(name.startswith("filters/matching/_kernel.") for name in names) == 2  # and its types
    assert "none-any" not in wheel.name
    # It is installed with the lxml that it was built with.
    [described] = (name for name in names if name.endswith(".dist-info/METADATA"))
    assert f"Requires-Dist: lxml=={etree.__version__}\n" in archive.read(described).decode()
    assert ask(install(wheel, tmp_path)) == ["native", "None", "NativeIndex"]


@pytest.mark.nightly
def test_a_wheel_without_a_compiler(tmp_path: Path) -> None:
    wheel = build(tmp_path, CC="/bin/false", CXX="/bin/false")
    assert not any(name.endswith(".so") for name in zipfile.ZipFile(wheel).namelist())
    assert wheel.name.endswith("-none-any.whl")
    name, note, refusal = ask(install(wheel, tmp_path))
    assert name == "reference"
    assert "was not built" in note and "g++" in note
    assert refusal == note


@pytest.mark.parametrize("found", ["('6.0.0', '2.14.6')", "(_kernel.BUILT_FOR[0], '2.9.4')"])
def test_another_lxml(found: str) -> None:
    if note := engine_note():
        pytest.skip(note)
    script = f"from filters.matching import _kernel\n_kernel.BUILT_FOR = {found}\n{ASK}"
    name, note, refusal = ask(ROOT, script)
    assert name == "reference"
    assert "was built for lxml" in note and "install Dragoman again" in note
    assert refusal == note
