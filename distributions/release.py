"""Builds what a release consists of, into an empty folder: ``make dist``.

- the sources that a wheel is built from, and from these a wheel for each supported Python that this
  machine has, which is tried with its compiled engine; the tags say which Linux each is for
- the client's wheel
- the chart, packed
- an SBOM and a NOTICE, ``SHA256SUMS`` of all

Each wheel is built with what requirements/build.txt locks, in a folder of its own, so that nothing
of the checkout goes in. Wheels are for the processor of this machine.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from distributions import sbom

ROOT = Path(__file__).parents[1]
IMAGE_SETS = "base,client,discovery,ldap,negotiate,postgresql,rabbitmq,stomp,telemetry"
"""What the image has, which ``tests/helm`` compares with the Dockerfile."""
_LANGUAGE = "Programming Language :: Python :: 3."
_TRY = """
import sys
from filters import engine_note
sys.exit(engine_note())
"""


def main(arguments: list[str] | None = None) -> None:
    """Build everything into the folder of the command line, and print what is there."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sources = build_sources(folder)
    for version, python in pythons():
        if python is None:
            print(f"Python 3.{version} is not on this machine: no wheel for it", file=sys.stderr)
        else:
            build_wheel(sources, python, folder)
    build_client(folder)
    pack_chart(folder)
    sbom.main(["--sets", IMAGE_SETS, str(folder)])
    write_checksums(folder)
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:>12,} {path.name}")


def pythons() -> Iterator[tuple[int, Path | None]]:
    """The minor versions of pyproject.toml, and where each is: in PATH, or among pyenv's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for text in project["classifiers"]:
        if text.startswith(_LANGUAGE):
            version = int(text.removeprefix(_LANGUAGE))
            found = shutil.which(f"python3.{version}")
            home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
            places = [Path(found)] if found else []
            places += sorted(home.glob(f"versions/3.{version}.*/bin/python"), reverse=True)
            yield version, next((place for place in places if _runs(place, version)), None)


def _runs(python: Path, version: int) -> bool:
    """Whether it is that Python: what pyenv puts into PATH may be a name without one."""
    command = [
        str(python),
        "-c",
        f"import sys, venv; sys.exit(sys.version_info[:2] != (3, {version}))",
    ]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def build_sources(folder: Path) -> Path:
    """Pack the sources into *folder*; returns the archive."""
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ROOT)
    [archive] = folder.glob("dragoman-*.tar.gz")
    return archive


def build_wheel(sources: Path, python: Path, folder: Path) -> Path:
    """Build a wheel from the packed *sources*, and try it; returns its path in *folder*.

    Raises:
        subprocess.CalledProcessError: Something cannot be installed or compiled, or the engine in
            the wheel does not run. The command has said what is wrong.
    """
    with tempfile.TemporaryDirectory() as room:
        tree = unpack(sources, Path(room, "sources"))
        run(python, "-m", "venv", Path(room, "build"))
        its = Path(room, "build", "bin", "python")
        pip = (its, "-m", "pip", "--disable-pip-version-check", "--quiet")
        run(*pip, "install", "--require-hashes", "--requirement", ROOT / "requirements/build.txt")
        built = Path(room, "built")
        run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", built, tree)
        [wheel] = built.glob("*.whl")
        run(*pip, "install", "--no-deps", "--target", Path(room, "installed"), wheel)
        environment = {**os.environ, "PYTHONPATH": str(Path(room, "installed"))}
        run(its, "-c", _TRY, cwd=room, env=environment)
        return tag(wheel, folder)


def tag(wheel: Path, folder: Path) -> Path:
    """Copy a wheel to *folder*, named for the oldest Linux that it runs on (PEP 600)."""
    before = set(folder.glob("*.whl"))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    platform_tag = ("--plat", "auto", "--wheel-dir", folder)
    run(sys.executable, "-m", "auditwheel", "repair", *platform_tag, wheel, env=environment)
    [made] = set(folder.glob("*.whl")) - before
    return made


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack sources into *folder*; returns the tree."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    [tree] = folder.iterdir()
    return tree


def build_client(folder: Path) -> None:
    """Build the client's wheel, which is for every Python and platform, into *folder*."""
    client = ROOT / "distributions" / "client"
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, client)


def pack_chart(folder: Path) -> None:
    """Pack the chart into *folder*, where there is a Helm for this machine."""
    try:
        import helm_python as helm
    except ImportError as exc:
        print(f"The chart is not packed: {exc}", file=sys.stderr)
    else:
        helm.package(ROOT / "helm" / "dragoman", destination=folder)


def write_checksums(folder: Path) -> None:
    """Write ``SHA256SUMS``, which ``sha256sum --check`` reads."""
    paths = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    Path(folder, "SHA256SUMS").write_text("".join(lines))


def run(*command: str | Path, cwd: Path | str = ROOT, env: dict[str, str] | None = None) -> None:
    """Run a command; what it prints is shown."""
    subprocess.run([str(part) for part in command], cwd=cwd, env=env, check=True)


if __name__ == "__main__":
    if platform.system() != "Linux":
        sys.exit("Wheels are built on Linux")
    main()
