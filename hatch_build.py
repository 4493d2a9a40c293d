"""Builds the compiled filter engine into a wheel, or beside its sources for an editable install.

Where there is no compiler the package is built without it: the reference engine then does the work,
more slowly, and `dragoman doctor` says so. ``python hatch_build.py`` builds it again in a checkout.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path("filters/matching/kernel")
MODULE = "filters.matching._kernel"
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
    with tempfile.TemporaryDirectory() as folder:
        try:
            built = _compile(root, Path(folder))
        finally:
            for old in package.glob("_kernel.*.so"):
                old.unlink()
        target = package / built.name
        # Renamed into place: a process that has the old one mapped keeps it.
        shutil.copy(built, f"{target}.new")
        return Path(f"{target}.new").rename(target)


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
