"""Locks what Dragoman is installed with, so that every machine installs the same.

``python requirements/lock.py`` writes one file for what every gateway needs (``base.txt``), one for
each extra with what it adds to that, and one for what builds Dragoman, all with hashes. Versions
stay as they are where pyproject.toml lets them; with ``--upgrade`` all become the newest.
``--check`` says whether the files agree with pyproject.toml; it needs no network.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).parent
PROJECT = FOLDER.parent / "pyproject.toml"
HEADER = "# Written by `make lock` from pyproject.toml, with the hashes of all platforms.\n"
WHOLE = "dev"
"""The extra that holds all others: it decides the versions."""
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)


def main() -> int:
    """Lock or check, as the command line says; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--upgrade", action="store_true", help="take the newest of everything")
    either.add_argument("--check", action="store_true", help="compare with pyproject.toml alone")
    options = parser.parse_args()
    if options.check:
        wrong = list(disagreements())
        for text in wrong:
            print(f"requirements/{text}; `make lock` writes the files anew", file=sys.stderr)
        return 1 if wrong else 0
    lock(upgrade=options.upgrade)
    return 0


def wanted() -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for itself, by the file that it is locked in."""
    project = tomllib.loads(PROJECT.read_text())
    extras = project["project"]["optional-dependencies"]
    lists = {
        "base": project["project"]["dependencies"],
        "build": project["build-system"]["requires"],
    }
    lists |= {name: texts for name, texts in extras.items() if name != "all"}
    own = canonicalize_name(project["project"]["name"])
    return {
        name: [found for text in texts if (found := Requirement(text)).name != own]
        for name, texts in lists.items()
    }


def pins(name: str) -> dict[str, list[str]]:
    """The versions that ``requirements/NAME.txt`` locks, by package; several where they differ by
    Python or machine.

    Raises:
        OSError: There is no such file.
    """
    found: dict[str, list[str]] = {}
    for line in (FOLDER / f"{name}.txt").read_text().splitlines():
        if match := _PIN.match(line):
            found.setdefault(canonicalize_name(match[1]), []).append(match[2])
    return found


def disagreements() -> Iterator[str]:
    """Where the files do not hold what pyproject.toml asks for, or hold what it does not."""
    asked = wanted()
    for stray in sorted({path.stem for path in FOLDER.glob("*.txt")} - set(asked)):
        yield f"{stray}.txt belongs to no extra"
    files = {name: pins(name) for name in asked if (FOLDER / f"{name}.txt").exists()}
    for package, versions in files.get("build", {}).items():
        if versions != files.get("base", {}).get(package, versions):
            yield f"build.txt has {package} {versions[0]}, and base.txt another"
    for name, requirements in asked.items():
        if name not in files:
            yield f"{name}.txt is missing"
            continue
        beside = files.values() if name == WHOLE else (files.get("base", {}), files[name])
        for requirement in requirements:
            package = canonicalize_name(requirement.name)
            versions = [version for found in beside for version in found.get(package, ())]
            if not versions:
                yield f"{name}.txt lacks {requirement}"
            for version in versions:
                if not requirement.specifier.contains(version, prereleases=True):
                    yield f"{name}.txt has {package} {version}, not {requirement}"
        packages = {canonicalize_name(requirement.name) for requirement in requirements}
        for package in sorted(_asked_for_itself(name) - packages):
            yield f"{name}.txt has {package}, which pyproject.toml does not ask for"


def _asked_for_itself(name: str) -> set[str]:
    """The packages of a file that the resolver took because pyproject.toml names them."""
    found, package = set(), ""
    for line in (FOLDER / f"{name}.txt").read_text().splitlines():
        if match := _PIN.match(line):
            package = canonicalize_name(match[1])
        elif "(pyproject.toml)" in line:
            found.add(package)
    return found


def lock(*, upgrade: bool) -> None:
    """Write all files.

    Raises:
        subprocess.CalledProcessError: The resolver has said what is wrong.
    """
    project = tomllib.loads(PROJECT.read_text())
    locked = "".join(path.read_text() for path in sorted(FOLDER.glob("*.txt")))
    whole = _resolve("" if upgrade else locked, PROJECT, "--extra", WHOLE)
    base = _resolve(whole, PROJECT)
    texts = {"base": base}
    for name in (name for name in wanted() if name not in ("base", "build", WHOLE)):
        texts[name] = _resolve(whole, PROJECT, "--extra", name, but=_names(base))
    others = {package for text in texts.values() for package in _everywhere(text)}
    texts[WHOLE] = _resolve(whole, PROJECT, "--extra", WHOLE, but=others)
    with tempfile.TemporaryDirectory() as folder:
        builds = Path(folder, "build.in")
        builds.write_text("\n".join(project["build-system"]["requires"]))
        texts["build"] = _resolve(whole, builds, "--no-annotate")
    for name, text in texts.items():
        (FOLDER / f"{name}.txt").write_text(HEADER + text)
        print(f"requirements/{name}.txt: {len(_names(text))} packages")


def _resolve(preferred: str, source: Path, *options: str, but: Iterable[str] = ()) -> str:
    """What *source* needs on every Linux and Python that we run on, without what *but* names; the
    versions of *preferred* where they will do."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "locked.txt")
        output.write_text(preferred)
        uv = str(Path(sys.executable).with_name("uv"))
        command = [uv, "pip", "compile", "--quiet", "--no-config", *options]
        command += ["--universal", "--python-version", "3.11", "--generate-hashes"]
        # No index of whoever locks: the hashes say what is meant, wherever it is fetched from.
        command += ["--no-header", "--no-emit-index-url", "--no-emit-find-links"]
        command += [f"--no-emit-package={package}" for package in but]
        subprocess.run([*command, "--output-file", output, source], check=True)
        return output.read_text().partition("\n# The following packages were excluded")[0] + "\n"


def _names(text: str) -> set[str]:
    return {canonicalize_name(match[1]) for match in _PIN.finditer(text)}


def _everywhere(text: str) -> set[str]:
    """The packages that *text* locks whatever the machine: one for Windows alone may be wanted
    elsewhere, too."""
    return {canonicalize_name(match[1]) for match in _PIN.finditer(text) if not _marked(match)}


def _marked(pin: re.Match[str]) -> bool:
    return pin.string[pin.end() :].partition("\n")[0].lstrip().startswith(";")


if __name__ == "__main__":
    sys.exit(main())
