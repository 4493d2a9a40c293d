"""The guide to writing an adapter, followed to the letter."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # Each starts a process.

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "adapters.md").read_text()
FILES = dict(re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", GUIDE, re.DOTALL))


def test_the_adapter_of_the_guide(tmp_path: Path) -> None:
    """Its files, installed as a package, pass the contract kit."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the package, is not installed")
    project, installed = tmp_path / "project", tmp_path / "installed"
    project.mkdir()
    for name in ("shelf.py", "test_shelf.py", "pyproject.toml"):
        (project / name).write_text(FILES[name])
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(installed)]
    subprocess.run([*pip, str(project)], check=True, timeout=120)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shelf.py"],
        cwd=project, env={**os.environ, "PYTHONPATH": os.pathsep.join((str(installed), str(ROOT)))},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"^\d+ passed, 11 skipped in ", done.stdout, re.MULTILINE), done.stdout


TEST_CRATE = """
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest_asyncio
from crate import CrateAdapter
from crates import FATAL, REFUSED, Crate

from adapters import Adapter
from adapters.testing import AdapterContract
from mediation.model.messages import Notification


class TestCrate(AdapterContract):
    durable = True

    @pytest_asyncio.fixture(autouse=True)
    async def _crate(self) -> AsyncIterator[None]:
        self.crate = Crate()
        await self.crate.open()
        yield
        await self.crate.cut()

    def make_adapter(self, data: Path) -> Adapter:
        url = f"crate://127.0.0.1:{self.crate.port}?prefetch=16"
        return CrateAdapter.from_url(url, data=data, settings={})

    async def interrupt(self) -> None:
        await self.crate.cut()

    async def resume(self) -> None:
        await self.crate.open()

    def unacceptable(self) -> Sequence[Notification]:
        return [self.notification(payload=f"<a>{word}</a>") for word in (REFUSED, FATAL)]
"""


@pytest.fixture(scope="module")
def skeleton(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the skeleton of the guide, its system, and a suite of the contract kit."""
    folder = tmp_path_factory.mktemp("crate")
    (folder / "crate.py").write_text(FILES["crate.py"])
    (folder / "crates.py").write_text((ROOT / "tests" / "rigs" / "crate.py").read_text())
    (folder / "test_crate.py").write_text(TEST_CRATE)
    settings = FILES["pyproject.toml"].partition("[tool.pytest.ini_options]")
    (folder / "pyproject.toml").write_text("".join(settings[1:]))
    return folder


def test_the_skeleton_passes_the_contract_with_outages(skeleton: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=skeleton, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"^\d+ passed in ", done.stdout, re.MULTILINE), done.stdout


def test_the_skeleton_is_typed(skeleton: Path) -> None:
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(skeleton / "crate.py"), str(skeleton / "test_crate.py")],
        cwd=ROOT, env={**os.environ, "MYPYPATH": str(skeleton)},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


def test_all_files_of_the_guide_are_tried() -> None:
    assert set(FILES) == {"shelf.py", "test_shelf.py", "pyproject.toml", "crate.py"}
