"""The passphrase of a backup: from a file, the environment, or typed."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.errors import CommandFailed

VARIABLE = "DRAGOMAN_BACKUP_PASSPHRASE"
LONGEST = 4096
PassphraseFileOption = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        metavar="FILE",
        help=f"A file whose first line is the passphrase. [{VARIABLE} in the environment]",
    ),
]


def given_passphrase(file: Path | None) -> str | None:
    """The passphrase in *file* or in the environment; None where neither has one.

    Raises:
        CommandFailed: It is empty, or the file cannot be read.
    """
    if file is None:
        return os.environ.get(VARIABLE) or None
    try:
        with file.open(encoding="utf-8") as opened:
            found = opened.readline(LONGEST).rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise CommandFailed(f"{file} cannot be read: {why}") from error
    if not found:
        raise CommandFailed(f"the first line of {file} is empty: write a passphrase there")
    return found


def asking_for_passphrase(file: Path | None) -> Callable[[], str]:
    """Return what gets the passphrase when it is needed: given, or typed at a terminal."""

    def ask() -> str:
        found = given_passphrase(file)
        if found is None and not sys.stdin.isatty():
            raise CommandFailed(
                f"the backup is encrypted: give --passphrase-file FILE, or set {VARIABLE}"
            )
        return found or str(typer.prompt("Passphrase", hide_input=True, err=True))

    return ask
