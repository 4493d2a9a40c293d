"""The client's wheel: what is in it, and that it lives beside an application's own packages."""

import ast
import asyncio
import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from distributions.client import hatch_build
from tests.conftest import ROOT
from tests.rigs import client_wheel
from tests.rigs.gateways import running

pytestmark = pytest.mark.slow
CONVERSATION = """
import asyncio

import filters
import gateway

assert filters.MINE and gateway.MINE
from dragoman.client import WsnClient
from dragoman.sync import WseClient


async def main():
    async with WsnClient({url!r}) as client:
        async with client.listen(topic="storms") as events:
            await client.publish("<speed>120</speed>", topic="storms")
            print((await anext(events)).payload.decode())


asyncio.run(main())
with WseClient({url!r}) as client, client.listen(topic="storms", pull=True) as events:
    client.publish("<speed>130</speed>", topic="storms")
    print(next(events).payload.decode())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return client_wheel.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return client_wheel.install(wheel, tmp_path_factory.mktemp("installed"))


def test_its_one_import_name_is_dragoman(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"dragoman"}
    assert "dragoman/py.typed" in names
    assert not [name for name in names if "kernel" in name or "serving" in Path(name).parts]


def test_nothing_in_it_names_a_package_of_the_gateway(wheel: Path) -> None:
    # Beside an application's own `filters`, such a name would be the application's package.
    archive = zipfile.ZipFile(wheel)
    for name in archive.namelist():
        if name.endswith(".py"):
            assert list(leftovers(archive.read(name))) == [], name


def leftovers(source: bytes) -> list[str]:
    """The modules of the gateway that *source* still names."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = []
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(module=str(module)):
                names = [module]
            case ast.Constant(value=str(text)) if re.fullmatch(r"[a-z_]+(\.[A-Za-z_]\w*)+", text):
                place = ROOT.joinpath(*text.split("."))
                names = [text] if Path(f"{place}.py").exists() or place.is_dir() else []
        found += [name for name in names if name.partition(".")[0] in hatch_build.PACKAGES]
    return found


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("from filters import Topic", "from dragoman._vendor.filters import Topic"),
        (
            "from  filters.extras import (\n    a,\n)",
            "from  dragoman._vendor.filters.extras import (\n    a,\n)",
        ),
        (
            "x = 'ä'; import gateway.client as g",
            "x = 'ä'; import dragoman._vendor.gateway.client as g",
        ),
        (
            "if x:\n    start('gateway.client')",
            "if x:\n    start('dragoman._vendor.gateway.client')",
        ),
        ("log('filters.none_such'); 'filters'; 'see gateway.client'", None),
        ("from filters_of_mine import a\nimport gateways", None),
        ("# from filters import a\n'''from filters import a'''", None),
    ],
)
def test_names_of_modules_are_rewritten_where_they_stand(source: str, written: str | None) -> None:
    assert hatch_build.rewritten(ROOT, source.encode()).decode() == (written or source)


def test_an_import_that_binds_a_package_is_refused() -> None:
    with pytest.raises(ValueError, match=r"import gateway\.client"):
        hatch_build.rewritten(ROOT, b"import gateway.client\n")


def test_it_asks_for_what_the_gateway_is_tested_with() -> None:
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    its = tomllib.loads((ROOT / "distributions/client/pyproject.toml").read_text())["project"]
    extras = ours["optional-dependencies"]
    known = {
        Requirement(text).name: Requirement(text)
        for text in [*ours["dependencies"], *(text for extra in extras.values() for text in extra)]
    }
    asked = [
        *its["dependencies"],
        *(text for extra in its["optional-dependencies"].values() for text in extra),
    ]
    assert [text for text in asked if Requirement(text) != known[Requirement(text).name]] == []


async def test_it_works_in_a_project_that_has_folders_of_these_names(
    installed: list[Path], tmp_path: Path
) -> None:
    site = client_wheel.project(tmp_path / "site")
    async with running(tmp_path / "data") as run:
        script = CONVERSATION.format(url=run.url)
        said = await asyncio.to_thread(client_wheel.run, site, installed, script)
    assert said == "<speed>120</speed>\n<speed>130</speed>\n"


def test_every_module_in_it_can_be_imported(installed: list[Path], tmp_path: Path) -> None:
    site = client_wheel.project(tmp_path / "site")
    script = """
import importlib
import pkgutil

import dragoman

lacking = set()
for module in pkgutil.walk_packages(dragoman.__path__, "dragoman."):
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        lacking.add(error.name)
print(sorted(lacking))
"""
    lacking = ast.literal_eval(client_wheel.run(site, installed, script))
    extras = {
        "cryptography",
        "django",
        "prometheus_client",
        "signxml",
        "sqlalchemy",
        "psycopg",
        "pytest",
    }
    assert set(lacking) <= extras | {"dragoman._vendor.filters.matching"}  # The compiled engine.
