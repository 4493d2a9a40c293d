"""``dragoman backup``."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from gateway.cli.errors import CommandFailed
from gateway.cli.output import line, note
from gateway.cli.passphrases import (
    PassphraseFileOption,
    PassphraseOption,
    asking_for_passphrase,
    read_passphrase,
)
from gateway.cli.serve import AdapterOption, DataOption, IdentitiesOption, StoreOption

if TYPE_CHECKING:
    from gateway.backup.manifest import Manifest


def backup(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[verify] FILE", help="The file; - is standard output, or input with verify."
        ),
    ],
    *,
    data: DataOption = None,
    store: StoreOption = None,
    adapter: AdapterOption = None,
    identities: IdentitiesOption = None,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt it with a passphrase, which is typed.")
    ] = False,
    passphrase: PassphraseOption = None,
    passphrase_file: PassphraseFileOption = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace FILE where it exists, once the new one is whole."),
    ] = False,
    temporary: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where copies of the databases lie meanwhile, unencrypted. [the folder of FILE]",
        ),
    ] = None,
) -> None:
    r"""Back up a gateway while it runs, or verify a backup.

    Run it on the gateway's machine, as its user, with the options, environment and folder of serve.
    FILE gets the store and the journal of one moment, with mailboxes and keys, the file of
    identities, dragoman.toml and the audit log; it appears when it is whole, readable by you alone.
    Standard error says what else has to be kept.

    \b
    Examples:
      dragoman backup /backups/dragoman-monday.tar --data /var/lib/dragoman
      dragoman backup /backups/dragoman.tar --replace --passphrase-file /etc/dragoman/passphrase
      dragoman backup verify /backups/dragoman.tar
    """
    if words[0] == "verify" and len(words) == 2:
        _verify(words[1], asking_for_passphrase(passphrase, passphrase_file))
    elif len(words) == 1:
        passphrase = read_passphrase(passphrase, passphrase_file)
        if encrypt and passphrase is None:
            passphrase = str(
                typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)
            )
        given = {"data": data, "store": store, "adapter": adapter, "identities": identities}
        _create(words[0], given, passphrase, temporary, replace=replace)
    else:
        raise typer.BadParameter("give FILE, or verify FILE", param_hint="'[verify] FILE'")


def _create(
    name: str,
    given: Mapping[str, object],
    passphrase: str | None,
    temporary: Path | None,
    *,
    replace: bool,
) -> None:
    from gateway.backup.creation import write_backup
    from gateway.backup.sources import left_out, sources_of
    from gateway.client.signals import end_as_by_interrupt
    from gateway.settings.settings import read_settings

    settings = read_settings(**given)
    target = None if name == "-" else Path(name)
    if target is not None and target.exists() and not replace:
        raise CommandFailed(f"{target} exists: choose another name, or give --replace")
    if not settings.data.is_dir():
        raise CommandFailed(f"there is no data folder {settings.data}: name it with --data")
    end_as_by_interrupt()  # The copies, which are not encrypted, are to be gone in any case.
    meanwhile = temporary or (target.absolute().parent if target else settings.data)
    made = write_backup(sources_of(settings), target, meanwhile, passphrase)
    note(described(made, encrypted=passphrase is not None))
    for sentence in left_out(settings):
        note(sentence)


def _verify(name: str, passphrase: Callable[[], str]) -> None:
    from gateway.backup.reading import Backup, verify

    with opened(name) as file:
        found = Backup(file, passphrase)
        verify(found)
    line(f"The backup is whole. {described(found.manifest, encrypted=found.encrypted)}")


@contextlib.contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """The file of a backup, or standard input for ``-``."""
    if name == "-":
        yield sys.stdin.buffer
        return
    with Path(name).open("rb") as file:
        yield file


def described(made: "Manifest", *, encrypted: bool) -> str:
    """Say in a sentence what is in a backup."""
    size = sum(file.bytes for file in made.files) / 2**20
    schema = f", schema {made.schema}" if made.schema else ", without the store"
    how = "encrypted" if encrypted else "not encrypted"
    names = ", ".join(file.name.rpartition("/")[2] for file in made.files)
    by = f"Dragoman {made.made_by}{schema}"
    return f"Backup of {made.moment} by {by}, {size:.1f} MiB, {how}: {names}."
