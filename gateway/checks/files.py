"""Folders and databases. They are opened for reading alone."""

import contextlib
import fcntl
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Engine, create_engine, make_url
from sqlalchemy.exc import DBAPIError

from adapters.embedded import SCHEMA_VERSION
from filters.archive import PARQUET, best_suffix
from gateway.checks.findings import Finding, fail, ok, warn
from gateway.checks.schema import check_migration, check_migration_of_file
from gateway.databases import (
    connection_options,
    driver_url,
    first_line,
    why_not_opened,
    why_unusable,
)
from gateway.server.data_folder import OTHERS, RESTORING, readable_by_others
from gateway.settings.settings import Settings
from gateway.store import migrations

CHECKED = 3.0
"""Seconds in which a database is read for damage."""
LEAST_FREE, LITTLE_FREE = 64 * 2**20, 2**30
SMALL_DISK = 256 * 2**20
"""Bytes of a disk on which the databases, their logs and the reserves have little room."""


def is_locked(folder: Path) -> bool:
    """Whether a gateway runs with its data in *folder*."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def where_it_listens(folder: Path) -> str | None:
    """The address at which the gateway that runs with its data in *folder* listens."""
    try:
        with (folder / "lock").open() as file:
            found = file.readline(300).strip()
    except (OSError, ValueError):
        return None
    return found if found.startswith("http") and found.isprintable() else None


def check_data(settings: Settings, runs: bool) -> Iterator[Finding]:
    bad = (settings.data / RESTORING).exists()
    if bad:
        yield fail("data", f"{settings.data} holds half of a backup; run dragoman restore again")
    for finding in _check_folder("data", settings.data, "--data"):
        bad = True
        yield finding
    if not bad:
        there = where_it_listens(settings.data) if runs else None
        uses = f"a gateway uses it, which listens on {there}" if there else "a gateway uses it"
        whose = uses if runs else "no gateway uses it"
        open_ = readable_by_others(settings.data)
        if open_:
            names = ", ".join(str(path) for path in open_[:5])
            yield warn(
                "data",
                f"other users of this machine can read {names}, which hold keys and messages "
                f"({whose}); chmod go-rwx them, as a gateway does with its own when it starts",
            )
        else:
            yield ok("data", f"{settings.data.resolve()} can be written; {whose}")


def check_archive(folder: Path) -> Iterator[Finding]:
    bad = False
    for finding in _check_folder("archive", folder, "--archive"):
        bad = True
        yield finding
    if not bad and folder.is_dir() and folder.stat().st_mode & OTHERS:
        bad = True
        yield warn(
            "archive",
            f"other users of this machine can look into {folder}; chmod 700 it, unless they are "
            "meant to read what is published (files that are added are this user's alone)",
        )
    if not bad:
        form = "Parquet" if best_suffix() == PARQUET else "JSON lines, for pyarrow is not installed"
        yield ok("archive", f"{folder.resolve()} can be written, as {form}")


def _check_folder(what: str, folder: Path, option: str) -> Iterator[Finding]:
    """Findings about *folder*, which need not exist yet."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        yield fail(what, f"{there} is not a folder; move it away, or choose another with {option}")
        return
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        text = f"{there} cannot be written ({error.strerror}); let the user that runs Dragoman"
        yield fail(what, f"{text} write there, or choose another with {option}")
        return
    usage = shutil.disk_usage(there)
    if usage.total < SMALL_DISK:
        text = f"the disk of {there} has {usage.total >> 20} MiB in all; give it 256 MiB or more"
        yield warn(what, text)
    free = usage.free
    if free < LITTLE_FREE:
        finding = fail if free < LEAST_FREE else warn
        yield finding(what, f"{free >> 20} MiB are free below {there}; make room")


def check_store(settings: Settings) -> Iterator[Finding]:
    url = settings.store.get_secret_value() if settings.store else None
    if url is None:
        path = settings.data / "store.db"
    else:
        try:
            parts = make_url(driver_url(url))
        except Exception as error:
            yield fail("store", why_not_opened(error))
            return
        if parts.get_backend_name() != "sqlite":
            yield from _check_server(url)
            return
        if parts.database in (None, "", ":memory:"):
            yield warn("store", "it is in memory, and lost at a stop; choose another with --store")
            return
        path = Path(parts.database or "")
    yield from check_file("store", path, _judge_store)
    yield from check_migration_of_file(path)


def _judge_store(connection: sqlite3.Connection) -> str | None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if "alembic_version" not in tables:
        return "is the database of another program; choose another with --store" if tables else None
    found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    if found is None or found[0] in migrations.revisions():
        return None
    return migrations.why_unusable(found[0], _oldest_schema(connection))


def _oldest_schema(connection: sqlite3.Connection) -> str | None:
    with contextlib.suppress(sqlite3.OperationalError):  # One of before the table.
        query = "SELECT version FROM versions WHERE name = ?"
        for (version,) in connection.execute(query, (migrations.OLDEST,)):
            return f"{version:04d}"
    return None


def _check_server(url: str) -> Iterator[Finding]:
    try:
        url = driver_url(url)
        engine = create_engine(url, connect_args=connection_options(url))
        try:
            bad = why_unusable(engine)
            found = [fail("store", bad)] if bad else list(_check_schema(engine))
        finally:
            engine.dispose()
    except DBAPIError as error:
        yield fail("store", f"cannot be reached: {why_not_opened(error)}; see that it runs")
    except Exception as error:  # Of a driver's own classes, for what it cannot read.
        yield fail("store", why_not_opened(error))
    else:
        yield from found


def _check_schema(engine: Engine) -> Iterator[Finding]:
    with engine.connect() as connection:
        current = migrations.current_schema(connection)
        why = None if current is None else migrations.why_not_used(connection, current)
        if why is not None:
            yield fail("store", f"it {why}")
            return
        yield ok("store", "it answers")
        yield from check_migration(connection)


def check_file(
    what: str, path: Path, judge: Callable[[sqlite3.Connection], str | None]
) -> Iterator[Finding]:
    """An SQLite file; *judge* says what is bad about what is in it."""
    if not path.exists():
        yield ok(what, f"{path} is made at the first start")
        return
    end = time.monotonic() + CHECKED
    whole = True
    try:
        uri = f"file:{quote(str(path.absolute()))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=1.0)) as connection:
            bad = judge(connection)
            connection.set_progress_handler(lambda: time.monotonic() > end, 10_000)
            try:
                (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            except sqlite3.OperationalError as error:
                if "interrupted" not in str(error):
                    raise
                verdict, whole = "ok", False
    except sqlite3.OperationalError as error:
        yield fail(what, f"{path} cannot be read ({error}); see whose it is, and who locks it")
        return
    except sqlite3.DatabaseError as error:
        bad, verdict = None, str(error)
    if verdict != "ok":
        text = f"{path} is damaged ({first_line(verdict)}); put back a copy of it, or move it away"
        yield fail(what, f"{text} to begin with an empty one")
    elif bad:
        yield fail(what, f"{path} {bad}")
    else:
        yield ok(what, f"{path} is sound" + ("" if whole else ", as far as it was read"))


def judge_journal(connection: sqlite3.Connection) -> str | None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version <= SCHEMA_VERSION:
        return None
    return f"has version {version}, which a newer Dragoman wrote; install that version"
