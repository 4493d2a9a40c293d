"""Groups of options: one declaration, the options of several commands."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.testing import CliRunner

from gateway.cli.commands import add, group, help_alone
from gateway.cli.option_groups import OptionGroup


def _options(context: typer.Context, host: str = "here", port: int = 80, log: str = "") -> None:
    """Options."""


Address = Annotated[Mapping[str, Any], OptionGroup(_options, dict, without=("log",))]


def _app(seen: list[object]) -> typer.Typer:
    app = group("app", "Try.")
    app.callback()(help_alone)

    def run(*, context: typer.Context, count: int = 1, address: Address, name: str = "x") -> None:
        """Run."""
        given = {one: value for one, value in address.items() if one != "context"}
        seen.append((context is address["context"], count, given, name))

    add(app, run, "run")
    return app


def test_options_of_a_group_are_one_value() -> None:
    seen: list[object] = []
    done = CliRunner().invoke(_app(seen), ["run", "--port", "81", "--name", "y"])
    assert done.exit_code == 0, done.output
    assert seen == [(True, 1, {"host": "here", "port": 81}, "y")]


def test_they_stand_where_the_group_stands() -> None:
    shown = CliRunner().invoke(_app([]), ["run", "--help"]).output
    places = [shown.index(option) for option in ("--count", "--host", "--port", "--name")]
    assert places == sorted(places)
    assert "--log" not in shown
