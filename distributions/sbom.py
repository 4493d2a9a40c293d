"""Lists the packages that Dragoman is installed with: an SBOM in CycloneDX, a NOTICE of licences.

``python distributions/sbom.py --sets base,client FOLDER`` writes ``sbom.cdx.json`` and ``NOTICE``
for what ``requirements/*.txt`` lock, with what is known about it where it is installed: beside the
Python that runs this, whose standard library is enough: it runs in the build of the image, too.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LICENCES = {"saxonche": "MPL-2.0"}
"""Of packages whose metadata names none: https://www.saxonica.com/license/license.xml."""
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s;]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Package:
    """A package that is installed, and what is locked of it."""

    name: str
    version: str
    licence: str
    """An expression of SPDX, where `is_expression` says so."""
    is_expression: bool
    hashes: tuple[str, ...]
    """SHA-256 of the files that may be installed, one for each platform."""
    needs: tuple[str, ...]

    @property
    def purl(self) -> str:
        """The URL of the package (https://github.com/package-url/purl-spec)."""
        return f"pkg:pypi/{self.name}@{self.version}"


def main(arguments: list[str] | None = None) -> None:
    """Write both files, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default="base", help="files of requirements/, with commas")
    options = parser.parse_args(arguments)
    packages = read_packages(options.sets.split(","))
    options.folder.mkdir(parents=True, exist_ok=True)
    Path(options.folder, "sbom.cdx.json").write_text(json.dumps(sbom(packages), indent=1) + "\n")
    Path(options.folder, "NOTICE").write_text(notice(packages))


def read_packages(sets: Iterable[str]) -> list[Package]:
    """The packages of *sets*, files of ``requirements/``, that are installed here, by name.

    What is locked for other platforms alone is left out.

    Raises:
        OSError: There is no such file.
        ValueError: Another version is installed than is locked, or a package names no licence.
    """
    locked: dict[str, dict[str, tuple[str, ...]]] = {}
    for name in sets:
        for package, version, hashes in _pins((ROOT / f"requirements/{name}.txt").read_text()):
            locked.setdefault(package, {})[version] = hashes
    return [found for name in sorted(locked) if (found := _read_package(name, locked[name]))]


def _pins(text: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The name, the version and the hashes of each package that a file locks."""
    for part in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE):
        if match := _PIN.match(part):
            yield _normal(match[1]), match[2], tuple(_HASH.findall(part))


def _read_package(name: str, locked: dict[str, tuple[str, ...]]) -> Package | None:
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    if found.version not in locked:
        raise ValueError(f"{name} {found.version} is installed, and {', '.join(locked)} is locked")
    licence, is_expression = _licence(name, found.metadata)
    needs = {_normal(text) for text in found.requires or () if "extra ==" not in text}
    return Package(
        name,
        found.version,
        licence,
        is_expression,
        locked[found.version],
        tuple(sorted(needs)),
    )


def _licence(name: str, found: metadata.PackageMetadata) -> tuple[str, bool]:
    """What the metadata say: an expression of SPDX, and that it is one; or else a name."""
    if "License-Expression" in found and (expression := found["License-Expression"]):
        return expression, True
    if name in LICENCES:
        return LICENCES[name], True
    text = next(iter(found.get_all("License", [])), "").strip()
    if text and "\n" not in text:
        return text, False
    for classifier in found.get_all("Classifier", []):
        if classifier.startswith("License :: "):
            return classifier.rpartition(" :: ")[2], False
    raise ValueError(f"{name} names no licence: say it in LICENCES of {__file__}")


def sbom(packages: list[Package]) -> dict[str, Any]:
    """The packages as a document of CycloneDX 1.6 (ECMA-424); the same for the same packages."""
    version = _version()
    own = f"pkg:pypi/dragoman@{version}"
    purls = {package.name: package.purl for package in packages}
    roots = {_normal(text) for text in metadata.distribution("dragoman").requires or ()}
    needs = [(own, sorted(roots)), *((package.purl, package.needs) for package in packages)]
    main = {"type": "application", "bom-ref": own, "name": "dragoman", "version": version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                **main,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [_component(package) for package in packages],
        "dependencies": [
            {"ref": ref, "dependsOn": [purls[name] for name in names if name in purls]}
            for ref, names in needs
        ],
    }


def _component(package: Package) -> dict[str, Any]:
    licence = {"expression": package.licence}
    found = licence if package.is_expression else {"license": {"name": package.licence}}
    files = {
        "type": "distribution",
        "url": f"https://pypi.org/project/{package.name}/{package.version}/#files",
        "hashes": [{"alg": "SHA-256", "content": text} for text in package.hashes],
    }
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "licenses": [found],
        "externalReferences": [files],
    }


def notice(packages: list[Package]) -> str:
    """Our own NOTICE, and a table of the packages, whose licences are installed with them."""
    own = (ROOT / "NOTICE").read_text()
    width = max(len(package.name) for package in packages)
    rows = [f"{one.name:{width}}  {one.version:14}  {one.licence}\n" for one in packages]
    return f"{own}\nIt is installed with these packages (https://pypi.org/project/NAME):\n\n{''.join(rows)}"


def _version() -> str:
    [found] = re.findall(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    return str(found)


def _normal(requirement: str) -> str:
    """The name of a package as the locks write it (PEP 503), from a name or a requirement."""
    match = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", match[0] if match else "").lower()


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as exc:
        sys.exit(str(exc))
