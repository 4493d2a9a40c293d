"""How functions become commands."""

import inspect
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from gateway.cli.output import line


def group(name: str | None, about: str) -> typer.Typer:
    """A group of commands; alone, it says what it holds."""
    return typer.Typer(
        name=name,
        help=about,
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def help_alone(context: typer.Context) -> None:
    """Print the help of a group that was called without a command."""
    if context.invoked_subcommand is None:
        line(context.get_help())


def add(app: typer.Typer, function: Callable[..., Any], name: str | None = None) -> None:
    r"""Make *function* a command of *app*, its docstring the help; ``\b`` on a line of its own
    keeps the paragraph that follows as it is written."""
    text = inspect.cleandoc(function.__doc__ or "").replace("\\b\n", "\b\n")
    app.command(name, help=text)(function)


def command() -> str:
    """What a person types to run us again from the same folder: ``.venv/bin/dragoman``."""
    program = Path(sys.argv[0])
    if program.name != "dragoman":
        return f"{Path(sys.executable).name} -m gateway"
    found = shutil.which("dragoman")
    if found is not None and Path(found).samefile(program):
        return "dragoman"
    try:
        return str(program.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(program.absolute())
