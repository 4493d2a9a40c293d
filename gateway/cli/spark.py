"""Shared by the commands that run on Spark."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from filters.spark.backtest import BacktestError
from filters.spark.definitions import DefinitionError
from filters.spark.session import SparkUnavailable
from gateway.cli.errors import CommandFailed

MasterOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="DRAGOMAN_MASTER",
        help="Where Spark runs: local[2], spark://HOST:7077, k8s://https://HOST:443. [local[*]]",
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The engine that matches: native, reference, or an installed one."
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; repeatable."),
]


def read_conf(pairs: list[str] | None) -> dict[str, str]:
    """The configuration that ``--conf NAME=VALUE`` sets.

    Raises:
        typer.BadParameter: One is not of that form.
    """
    read = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.startswith("spark."):
            raise typer.BadParameter(
                f"{pair!r} is not a setting of Spark; write it as spark.executor.memory=2g",
                param_hint="--conf",
            )
        read[name] = value
    return read


@contextmanager
def failures() -> Iterator[None]:
    """Let what is wrong with a job be one line, without what libraries log of it."""
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        yield
    except (SparkUnavailable, DefinitionError, BacktestError) as error:
        raise CommandFailed(str(error)) from error
