"""How functions become commands."""

import inspect
from collections.abc import Callable
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
