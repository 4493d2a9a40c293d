"""``dragoman restore``."""

from typing import Annotated

import typer

from gateway.cli.backup import described, opened
from gateway.cli.errors import CommandFailed
from gateway.cli.output import line, note
from gateway.cli.passphrases import (
    PassphraseFileOption,
    PassphraseOption,
    asking_for_passphrase,
)
from gateway.cli.serve import DataOption


def restore(
    name: Annotated[str, typer.Argument(metavar="FILE", help="The backup; - is standard input.")],
    *,
    data: DataOption = None,
    passphrase: PassphraseOption = None,
    passphrase_file: PassphraseFileOption = None,
) -> None:
    r"""Restore a backup into an empty data folder.

    The folder is made where it does not exist; with anything in it nothing is done. What was ended
    in the middle can be done again, and no gateway starts with the half of it. dragoman.toml and
    the file of identities come into the folder restored-settings in it: put them where they
    belong. The backup must be of a schema that this version can use.

    \b
    Examples:
      dragoman restore /backups/dragoman.tar --data /var/lib/dragoman-new
      dragoman restore - --data /var/lib/dragoman --passphrase-file passphrase < dragoman.tar
    """
    from gateway.backup.reading import Backup
    from gateway.backup.restoration import SETTINGS
    from gateway.backup.restoration import restore as restore_into
    from gateway.server.data_folder import LOCK_TAKEN, DataInUse
    from gateway.settings.settings import read_settings

    folder = read_settings(data=data).data
    with opened(name) as file:
        found = Backup(file, asking_for_passphrase(passphrase, passphrase_file))
        try:
            restore_into(found, folder)
        except DataInUse as error:
            raise CommandFailed(str(error), LOCK_TAKEN) from error
    line(f"Restored into {folder}. {described(found.manifest, encrypted=found.encrypted)}")
    if (folder / SETTINGS).exists():
        note(f"Settings and identities are in {folder / SETTINGS}: put them where they belong.")
    if found.manifest.schema is None:
        note("The store is not in the backup: restore it with the tools of its database.")
