"""Extras: libraries that a part of Dragoman needs and an installation may lack."""

import importlib.util
import shlex
import sys
from importlib import metadata
from pathlib import Path

_MARK = "; extra == "


def how_to_install(extra: str) -> str:
    """Say how to install a missing library of *extra*, to follow a colon in a message.

    Returns a command for the environment that runs: of make where make made it (pip would go round
    what is locked), else of pip, with the requirements of Dragoman's own metadata; a sentence if
    pip is missing, as in a container image.
    """
    wanted = _requirements(extra)
    if wanted and (clone := _made_in()) is not None:
        there = "" if clone == Path.cwd() else f" -C {shlex.quote(str(clone))}"
        return f"make{there} setup EXTRAS={extra}"
    if not wanted or importlib.util.find_spec("pip") is None:
        return f"install Dragoman with its extra {extra}"
    python = shlex.quote(_python())
    return f"{python} -m pip install {' '.join(map(shlex.quote, wanted))}"


def _requirements(extra: str) -> list[str]:
    """Return the requirements that *extra* adds, as pip takes them."""
    try:
        every = metadata.requires("dragoman") or []
    except metadata.PackageNotFoundError:  # A copy of the sources, not installed.
        return []
    marks = {f"{_MARK}{quote}{extra}{quote}" for quote in "'\""}
    return [text[: -len(mark)] for text in every for mark in marks if text.endswith(mark)]


def _made_in() -> Path | None:
    """Return the clone in which make made the environment that runs; None where it did not."""
    try:
        made_with = (Path(sys.prefix) / ".made-with").read_text("utf-8")
    except OSError:
        return None
    clone = Path(made_with.rpartition(" ")[0])
    return clone if (clone / "Makefile").is_file() else None


def _python() -> str:
    """Return the interpreter that runs, as one types it in this folder."""
    path = Path(sys.executable)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
