"""Commands made of functions."""

import inspect
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from gateway.cli.errors import CommandFailed
from gateway.cli.option_groups import with_options
from gateway.cli.output import line


@dataclass(frozen=True, slots=True)
class Deferred:
    """A command that is imported when it is asked for."""

    place: str
    """``module:name`` of its function, or of its group."""
    summary: str
    """The first sentence of its help."""


class _Command(TyperCommand):
    """A command whose short help is a whole sentence."""

    def get_short_help_str(self, limit: int = 45) -> str:
        return _first_sentence(self.help)


class _Group(TyperGroup):
    """A group of commands, of which some may be imported yet."""

    deferred: Mapping[str, Deferred] = {}
    _listing = False

    def get_short_help_str(self, limit: int = 45) -> str:
        return _first_sentence(self.help)

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.deferred, *(name for name in self.commands if name not in self.deferred)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = self.commands.get(cmd_name)
        if found is not None or cmd_name not in self.deferred:
            return found
        deferred = self.deferred[cmd_name]
        if self._listing:
            return _Command(cmd_name, callback=None, help=deferred.summary)
        self.commands[cmd_name] = _load(cmd_name, deferred)
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # Its suggestions for a misspelt command are among these.
        if args and args[0] not in self.list_commands(ctx):
            for name, deferred in self.deferred.items():
                self.commands.setdefault(name, _Command(name, callback=None, help=deferred.summary))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with self._lists():
            super().format_commands(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._lists():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _lists(self) -> Iterator[None]:
        """Meanwhile names and summaries of commands are enough."""
        self._listing = True
        try:
            yield
        finally:
            self._listing = False


def group(
    name: str | None,
    about: str,
    *,
    deferred: Mapping[str, Deferred] | None = None,
    completion: bool = False,
) -> typer.Typer:
    """A group of commands; alone, it says what it holds.

    Args:
        deferred: Its commands, by name, that are imported when they are asked for.
        completion: Whether it has the options that set up a shell's completion.
    """
    return typer.Typer(
        name=name,
        cls=type("_Holding", (_Group,), {"deferred": deferred or {}}),
        help=about,
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        add_completion=completion,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def _load(name: str, deferred: Deferred) -> Any:
    """Import a command.

    Raises:
        CommandFailed: A library that it needs is an extra, and missing.
    """
    module, _, attribute = deferred.place.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name != "aiohttp":
            raise
        raise CommandFailed(f"{name}: {error}") from error
    if not isinstance(found, typer.Typer):
        function, found = found, group(None, "")
        found.info.invoke_without_command = False
        add(found, function, name)
    made = get_command(found)
    made.name = name
    return made


def _first_sentence(text: str | None) -> str:
    head = " ".join((text or "").partition("\n\n")[0].split())
    sentence, stop, _ = head.partition(". ")
    return f"{sentence}." if stop else head


def help_alone(context: typer.Context) -> None:
    """Print the help of a group that was called without a command."""
    if context.invoked_subcommand is None:
        line(context.get_help())


def add(app: typer.Typer, function: Callable[..., Any], name: str | None = None) -> None:
    r"""Make *function* a command of *app*, its docstring the help; ``\b`` on a line of its own
    keeps the paragraph that follows as it is written. Groups of options are expanded."""
    app.command(name, cls=_Command, help=_help(function))(with_options(function))


def callback(app: typer.Typer, function: Callable[..., Any]) -> None:
    """Make *function* what *app* does without a command; help as of `add`. With one it is called,
    too, and has to return."""
    app.callback(help=_help(function))(with_options(function))


def _help(function: Callable[..., Any]) -> str:
    return inspect.cleandoc(function.__doc__ or "").replace("\\b\n", "\b\n")


def command() -> str:
    """The words that run this program again from the same folder: ``.venv/bin/dragoman``."""
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
