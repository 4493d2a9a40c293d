"""The passphrase of a backup: from a file, the environment, or typed."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.errors import CommandFailed

LONGEST = 4096
PassphraseFileOption = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file", metavar="FILE", help="A file whose first line is the passphrase."
    ),
]
PassphraseOption = Annotated[
    str | None,
    typer.Option(
        "--passphrase",
        metavar="TEXT",
        envvar="DRAGOMAN_BACKUP_PASSPHRASE",
        help="The passphrase of an encrypted backup. The environment hides it better.",
    ),
]


def read_passphrase(text: str | None, file: Path | None) -> str | None:
    """The passphrase: *text*, or the first line of *file*; None where neither was given.

    Raises:
        CommandFailed: It is empty, or the file cannot be read.
    """
    if file is None:
        return text or None
    try:
        with file.open(encoding="utf-8") as opened:
            found = opened.readline(LONGEST).rstrip("\r\n")
    except UnicodeError as error:
        raise CommandFailed(f"{file} cannot be read: it is not UTF-8") from error
    if not found:
        raise CommandFailed(f"the first line of {file} is empty: write a passphrase there")
    return found


def asking_for_passphrase(text: str | None, file: Path | None) -> Callable[[], str]:
    """Return what gets the passphrase when it is needed: given, or typed at a terminal."""

    def ask() -> str:
        found = read_passphrase(text, file)
        if found is None and not sys.stdin.isatty():
            raise CommandFailed(
                "the backup is encrypted: give --passphrase-file FILE, or set "
                "DRAGOMAN_BACKUP_PASSPHRASE"
            )
        return found or str(typer.prompt("Passphrase", hide_input=True, err=True))

    return ask
