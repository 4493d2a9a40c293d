"""Builds the client's wheel: ``dragoman/``, and below it what it imports of the gateway's packages.

An application may have folders named ``gateway`` or ``filters`` of its own. So the modules that
``dragoman`` reaches are copied into ``dragoman/_vendor``, and whatever names one of them (imports,
and strings that are the name of a module, as ``python -m`` takes it) names its copy.
"""

import ast
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateway", "adapters", "mediation", "filters")
VENDOR = "dragoman._vendor"
LEFT_OUT = frozenset({"gateway.client.serving"})
"""Modules that stay out with all that they need: the gateway's own web server."""
_PART = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class ClientBuildHook(BuildHookInterface[Any]):
    """Puts the files of the wheel together in a folder that lasts as long as the build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the tree, and have its files included."""
        self._folder = tempfile.mkdtemp()
        write_tree(ROOT, Path(self._folder))
        build_data["force_include"][str(Path(self._folder, "dragoman"))] = "dragoman"
        build_data["force_include"][str(ROOT / "LICENSE")] = "dragoman/LICENSE"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)


def write_tree(root: Path, target: Path) -> None:
    """Write the package ``dragoman`` of the wheel into *target*.

    Raises:
        ValueError: A module imports another in a way that cannot be rewritten.
    """
    for path in sorted((root / "dragoman").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            copy = target / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(_rewritten(root, path))
    vendor = target.joinpath(*VENDOR.split("."))
    vendor.mkdir(parents=True)
    vendor.joinpath("__init__.py").write_text('"""Modules of the gateway that clients need."""\n')
    for module in sorted(reachable(root)):
        path = _path(root, module)
        copy = vendor / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(_rewritten(root, path))


def reachable(root: Path) -> set[str]:
    """The names of the modules that ``dragoman`` imports, and those import in turn, wherever in
    them; and their packages."""
    found: set[str] = set()
    ahead = [name for path in (root / "dragoman").rglob("*.py") for name in _named(root, path)]
    while ahead:
        name = ahead.pop()
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            module = ".".join(parts[:length])
            if module not in found and module not in LEFT_OUT:
                found.add(module)
                ahead += _named(root, _path(root, module))
    return found


def rewritten(root: Path, source: bytes) -> bytes:
    """*source*, a module, with the names of modules as they are in the wheel.

    Raises:
        ValueError: An import binds the name of a package (``import gateway.client``).
    """
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    places = {starts[line - 1] + column for line, column, _ in _mentions(root, source)}
    for place in sorted(places, reverse=True):
        source = source[:place] + f"{VENDOR}.".encode() + source[place:]
    return source


def _rewritten(root: Path, path: Path) -> bytes:
    source = path.read_bytes()
    try:
        return rewritten(root, source) if path.suffix == ".py" else source
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _named(root: Path, path: Path) -> Iterator[str]:
    """The modules that the one at *path* names."""
    for _, _, names in _mentions(root, path.read_bytes()):
        yield from names


def _mentions(root: Path, source: bytes) -> Iterator[tuple[int, int, list[str]]]:
    """Where *source* names modules of ours: the line from 1, the byte in it, and which they are."""
    tree, lines = ast.parse(source), source.splitlines(keepends=True)
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    if _is_ours(alias.name):
                        if alias.asname is None:
                            raise ValueError(f"line {node.lineno}: import {alias.name} as a name")
                        yield alias.lineno, alias.col_offset, [_module(root, alias.name)]
            case ast.ImportFrom(module=str(module), level=0) if _is_ours(module):
                column = lines[node.lineno - 1].index(module.encode(), node.col_offset + 5)
                names = [_module(root, f"{module}.{alias.name}") for alias in node.names]
                yield node.lineno, column, names
            case ast.Constant(value=str(text)) if _is_module(root, text):
                # Behind the quotation mark.
                yield node.lineno, node.col_offset + 1, [text]


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


def _is_module(root: Path, text: str) -> bool:
    """Whether a string is the whole name of a module of ours, and not just a word."""
    return (
        "." in text
        and _PART.fullmatch(text) is not None
        and _is_ours(text)
        and _module(root, text) == text
    )


def _module(root: Path, name: str) -> str:
    """The module that *name* is, or that is the home of what *name* is."""
    while not _find(root, name):
        name = name.rpartition(".")[0]
    return name


def _find(root: Path, module: str) -> Path | None:
    place = root.joinpath(*module.split("."))
    for path in (place / "__init__.py", place.with_suffix(".py")):
        if path.is_file():
            return path
    return None


def _path(root: Path, module: str) -> Path:
    path = _find(root, module)
    assert path is not None
    return path
