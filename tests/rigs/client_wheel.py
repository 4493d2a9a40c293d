"""The client's wheel, installed beside a project that has packages of the gateway's names."""

import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.conftest import ROOT

LIBRARIES = (
    "aiohttp", "aiohappyeyeballs", "aiosignal", "attr", "attrs", "frozenlist", "idna", "lxml",
    "multidict", "propcache", "typing_extensions.py", "yarl",
)  # fmt: skip
"""What lxml and aiohttp are, in the folder that they are installed in."""


def build(folder: Path) -> Path:
    """Build the wheel into *folder*; its path."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", ROOT / "distributions/client",
         "--outdir", folder],
        check=True, capture_output=True,
    )  # fmt: skip
    [wheel] = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> list[Path]:
    """Install *wheel* below *folder*, with aiohttp and lxml as they are here, and nothing else; the
    folders to import from."""
    packages, libraries = folder / "packages", folder / "libraries"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target",
         packages, wheel],
        check=True, capture_output=True,
    )  # fmt: skip
    libraries.mkdir()
    for name in LIBRARIES:
        libraries.joinpath(name).symlink_to(Path(sysconfig.get_path("purelib"), name))
    return [packages, libraries]


def project(folder: Path) -> Path:
    """Write a project with packages ``filters`` and ``gateway``, as Django's have them; its folder."""
    for name in ("filters", "gateway", "mediation", "adapters", "mysite"):
        folder.joinpath(name).mkdir(parents=True)
        folder.joinpath(name, "__init__.py").write_text("MINE = True\n")
    folder.joinpath("filters", "extras.py").write_text("raise RuntimeError('not for others')\n")
    return folder


def run(project: Path, imported: list[Path], script: str) -> str:
    """Run *script* as a file of *project* in an interpreter that sees, beside the standard library,
    *imported* alone; what it prints."""
    main = project / "manage.py"
    path = [str(folder) for folder in imported]
    main.write_text(f"import sys\nsys.path += {path!r}\n{script}")
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-W", "error", main],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
