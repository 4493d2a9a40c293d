"""The four packages have plain names: tell when another distribution has taken one of them."""

import json
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


def test_the_packages_are_the_four_floors() -> None:
    assert PACKAGES == ["gateway", "adapters", "mediation", "filters"]
    assert PROJECT["tool"]["importlinter"]["contracts"][0]["layers"] == PACKAGES


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_imported_from_here(package: str) -> None:
    # pytest puts the checkout first on the path, which the command `dragoman` does not: an
    # isolated interpreter sees what the command sees.
    script = (
        "import json, importlib.util as util;"
        f"print(json.dumps([*util.find_spec({package!r}).submodule_search_locations]))"
    )
    seen = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=False
    )
    assert seen.returncode == 0, seen.stderr
    assert [Path(path) for path in json.loads(seen.stdout)] == [ROOT / package]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_other_distribution_has_the_name(package: str) -> None:
    # An editable installation lists no packages, so that the answer may be empty.
    others = set(metadata.packages_distributions().get(package, [])) - {"dragoman"}
    assert not others, f"{package}/ of {others} hides ours: give Dragoman its own environment"


def test_the_version_is_the_installed_one() -> None:
    assert metadata.version("dragoman") == PROJECT["project"]["version"]
