"""Builds the compiled filter engine into a wheel, or beside its sources for an editable install.

Where there is no compiler the package is built without it: the reference engine then does the work,
more slowly, and `dragoman doctor` says so.
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
        with tempfile.TemporaryDirectory() as folder:
            try:
                built = self._compile(Path(folder))
            except (Exception, SystemExit) as exc:
                self.app.display_warning(
                    "Dragoman is installed without its compiled filter engine, the slower"
                    f" reference engine serves instead: {exc}"
                )
                return
            target = Path(self.root, *MODULE.split(".")[:-1], built.name)
            for old in target.parent.glob("_kernel.*.so"):
                old.unlink()
            # Renamed into place: a process that has the old one mapped keeps it.
            shutil.copy(built, f"{target}.new")
            Path(f"{target}.new").rename(target)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].append(str(target.relative_to(self.root)))

    def _compile(self, folder: Path) -> Path:
        import lxml
        from Cython.Build import cythonize
        from setuptools import Distribution, Extension
        from setuptools.command.build_ext import build_ext

        sources = Path(self.root, SOURCES)
        extension = Extension(
            MODULE,
            [str(sources / "kernel.pyx")],
            language="c++",
            include_dirs=[str(sources), *lxml.get_include()],
            define_macros=[("DRAGOMAN_LXML_VERSION", f'"{lxml.__version__}"')],
            extra_compile_args=FLAGS,
        )
        modules = cythonize([extension], build_dir=str(folder), quiet=True)
        command = build_ext(Distribution({"ext_modules": modules}))
        command.build_lib = command.build_temp = str(folder)
        command.ensure_finalized()
        command.run()
        return next(folder.rglob("_kernel.*.so"))
