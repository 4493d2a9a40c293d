"""Builds the compiled filter engine into a wheel, or beside its sources for an editable install.

Where there is no compiler the package is built without it: the reference engine then does the work,
more slowly, and `dragoman doctor` says so. ``python hatch_build.py`` builds it again in a checkout.

What has been compiled once is kept in ``$XDG_CACHE_HOME/dragoman`` (``~/.cache/dragoman``), under a
hash of all that it is made of, so that a new clone or environment need not wait for it again.
"""

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path("filters/matching/kernel")
MODULE = "filters.matching._kernel"
KEPT = 8
"""Modules that the cache holds; the oldest go."""
# What is inlined across the containers is most of the speed.
FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-fvisibility=hidden", "-g0", "-Wall", "-Wextra"]


class KernelBuildHook(BuildHookInterface[Any]):
    """Compiles kernel.pyx with the headers of the lxml in the build environment."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before the files of the wheel are collected."""
        try:
            target = build(Path(self.root))
        except (Exception, SystemExit) as exc:
            self.app.display_warning(
                "Dragoman is installed without its compiled filter engine, the slower reference"
                f" engine serves instead: {exc}"
            )
            return
        if version == "standard":
            # An installation with a newer lxml would have the slower engine.
            build_data["dependencies"].append(f"lxml=={importlib.metadata.version('lxml')}")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].append(str(target.relative_to(self.root)))


def build(root: Path) -> Path:
    """Build the module where *root*, the tree, has its package; returns its path.

    Raises:
        Exception, SystemExit: As setuptools and Cython do. There is no module then: one that was
            built from older sources would be taken for theirs.
    """
    package = Path(root, *MODULE.split(".")[:-1])
    target = package / f"_kernel{sysconfig.get_config_var('EXT_SUFFIX')}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            kept = _place_in_cache(root)
            if kept is not None and kept.is_file():
                print(f"Taking the compiled filter engine from {kept.parent}", file=sys.stderr)
                built = kept
            else:
                print(
                    "Compiling the filter engine, which takes about a minute ...", file=sys.stderr
                )
                built = _compile(root, Path(folder))
                _keep(built, kept)
        finally:
            _remove_outdated(root, target)
        return _copy(built, target)


def _remove_outdated(root: Path, target: Path) -> None:
    """Remove the module at *target*, and those of other Pythons that are older than the sources.

    One that another Python has of the same sources stays: a checkout in which two were tested had
    the slower engine with the first, without a word.
    """
    sources = [Path(__file__), *(root / SOURCES).rglob("*")]
    changed = max(path.stat().st_mtime_ns for path in sources)
    for module in target.parent.glob("_kernel.*.so"):
        if module == target or module.stat().st_mtime_ns < changed:
            module.unlink()


def _copy(built: Path, target: Path) -> Path:
    """Copy a module whole or not at all. It is renamed into place: a process that has an older one
    mapped keeps that, and a crash leaves no half of it under its name."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".kernel-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(built.read_bytes())
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o755)
        return Path(name).rename(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _place_in_cache(root: Path) -> Path | None:
    """Where the module that is made of these sources by these tools is kept; None where nothing
    can be kept, or others could put a module of theirs."""
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME")
    if not base or not Path(base).is_absolute():
        return None
    cache = Path(base) if os.environ.get("XDG_CACHE_HOME") else Path(base, ".cache")
    folder = cache / "dragoman" / _fingerprint(root)[:32]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return None
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        return None
    return folder / "_kernel.so"


def _fingerprint(root: Path) -> str:
    """A hash of all that decides what is compiled."""
    import Cython
    import lxml
    import setuptools
    from lxml import etree

    digest = hashlib.sha256()
    tools = [sys.version, sysconfig.get_platform(), *platform.libc_ver(), Cython.__version__]
    tools += [setuptools.__version__, lxml.__version__, str(etree.LIBXML_COMPILED_VERSION), *FLAGS]
    tools += [os.environ.get(name, "") for name in ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS")]
    for tool in tools:
        digest.update(tool.encode() + b"\0")
    for path in [Path(__file__), *sorted((root / SOURCES).rglob("*"))]:
        if path.is_file() and path.suffix != ".pyc":
            octets = path.read_bytes()
            digest.update(f"{path.name}\0{len(octets)}\0".encode() + octets)
    return digest.hexdigest()


def _keep(built: Path, place: Path | None) -> None:
    """Put a module into the cache, and let the oldest of many go; a full disk fails nothing."""
    if place is None:
        return
    with contextlib.suppress(OSError):
        _copy(built, place)
        there = [path.parent for path in place.parent.parent.glob(f"*/{place.name}")]
        others = [folder for folder in there if folder != place.parent]  # Not what others keep.
        for old in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT - 1 :]:
            shutil.rmtree(old, ignore_errors=True)


def _compile(root: Path, folder: Path) -> Path:
    import lxml
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    sources = root / SOURCES
    extension = Extension(
        MODULE,
        [str(sources / "kernel.pyx")],
        language="c++",
        include_dirs=[str(sources)],
        define_macros=[("DRAGOMAN_LXML_VERSION", f'"{lxml.__version__}"')],
        # Warnings about the headers of others are theirs.
        extra_compile_args=[*FLAGS, *(f"-isystem{headers}" for headers in lxml.get_include())],
    )
    modules = cythonize([extension], build_dir=str(folder), quiet=True)
    command = build_ext(Distribution({"ext_modules": modules}))
    command.build_lib = command.build_temp = str(folder)
    command.ensure_finalized()
    command.run()
    return next(folder.rglob("_kernel.*.so"))


if __name__ == "__main__":
    print(build(Path(__file__).parent))
