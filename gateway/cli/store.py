"""``dragoman store``."""

from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli.commands import add, group, help_alone
from gateway.cli.errors import CommandFailed
from gateway.cli.output import line
from gateway.cli.serve import DataOption, StoreOption

if TYPE_CHECKING:
    from gateway.settings.settings import Settings

store = group("store", "Migrate the database of a gateway.")
store.callback()(help_alone)


def migrate(*, store: StoreOption = None, data: DataOption = None) -> None:
    r"""Bring the schema of the store up to date, as a start would, and end.

    For an upgrade in steps: a job that runs before new gateways start. It reads the settings that
    serve reads. While gateways of an older version use a PostgreSQL store and could not go on
    afterwards, nothing is done, and one line names them. Of a file of SQLite a copy stays beside
    it. The exit code is 0 when the store is up to date, 1 when it cannot be, 75 when a gateway
    runs with the data folder.

    \b
    Examples:
      dragoman store migrate
      dragoman store migrate --data /var/lib/dragoman
      dragoman store migrate --store postgresql://dragoman@db.example.org/dragoman
    """
    from gateway.observing.logs import set_up_logs
    from gateway.server.data_folder import LOCK_TAKEN, DataInUse, lock
    from gateway.settings.settings import read_settings

    settings = read_settings(store=store, data=data)
    set_up_logs(settings.log, settings.log_format)
    url = None if settings.store is None else settings.store.get_secret_value()
    if url is not None and not url.startswith("sqlite"):  # A server knows which gateways run.
        _migrate(settings, url)
        return
    try:
        folder = lock(settings.data)
    except DataInUse as error:
        raise CommandFailed(str(error), LOCK_TAKEN) from error
    try:
        _migrate(settings, url)
    finally:
        folder.release()


def _migrate(settings: "Settings", url: str | None) -> None:
    from gateway.databases import sqlite_url
    from gateway.store.migrations import newest
    from gateway.store.opening import open_database

    path: Path = settings.data / "store.db"
    engine = open_database(url or sqlite_url(path), power_safe=settings.survive_power_loss)
    engine.dispose()
    line(f"The store is up to date (schema {newest()}).")


add(store, migrate)
