"""Whether a database recovers what was prepared: tried, with a process that is killed.

A table is made for it, and dropped afterwards. The process that prepares is this module as a
program; it reads what it has to do from its standard input, since URLs have passwords.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from filters.extras import how_to_install
from gateway.checks.findings import Finding, fail, ok, warn
from gateway.databases import driver_url, first_line
from gateway.reliability.storage import StorageUnavailable
from gateway.reliability.stores.participants import (
    CannotPrepare,
    ConnectionManager,
    EngineConnections,
    PsycopgConnections,
)

DEADLINE = 60.0
"""Seconds for the process that prepares."""
LOCK_WAIT = 10.0
"""Seconds that a statement waits for others."""
STATEMENT = 30_000
"""Milliseconds that it may run."""
_COMMITTED, _UNDONE = 1, 2


def check_two_phase(
    url: str, *, deadline: float = DEADLINE, lock_wait: float = LOCK_WAIT
) -> Iterator[Finding]:
    """Try two-phase commit on the database of *url*: prepare, kill, recover.

    Args:
        deadline: Seconds for the process that prepares.
        lock_wait: Seconds that a statement waits for others.
    """
    what = shown(url)
    try:
        engine = _engine(url, lock_wait)
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        yield fail(what, f"{first_line(error)}; write it as SQLAlchemy does")
        return
    except ImportError as error:
        mend = f": {how_to_install('postgresql')}" if error.name == "psycopg" else ""
        yield fail(what, f"needs {error.name}, which is not installed{mend}")
        return
    left: list[str] = []
    try:
        yield from _check(what, url, engine, deadline, left)
    except (StorageUnavailable, SQLAlchemyError) as error:
        said = first_line(getattr(error, "orig", None) or error)
        yield fail(what, said.removeprefix(f"{_NAME}: "))
    finally:
        engine.dispose()
    for table in left:
        yield warn(what, f"keeps the table {table}, which could not be dropped: drop it")


def _check(
    what: str, url: str, engine: Engine, deadline: float, left: list[str]
) -> Iterator[Finding]:
    with ExitStack() as stack:
        manager = participant(url, engine)
        stack.callback(manager.close)
        try:
            manager.check()
        except CannotPrepare as error:
            found = str(error).removeprefix(f"{_NAME}: ")
            yield (warn if engine.dialect.name == "sqlite" else fail)(what, found)
            return
        node = f"doctor-{secrets.token_hex(4)}"
        table = f"dragoman_{node.replace('-', '_')}"
        with engine.begin() as connection:
            connection.execute(text(f"CREATE TABLE {table} (number INTEGER)"))
        stack.callback(_drop, engine, table, left)
        stack.callback(_undo, manager, node)
        wrong = _try(url, manager, node, table, lambda: _numbers(engine, table), deadline)
        if wrong:
            yield fail(what, f"{wrong}; no two-phase commit is safe there")
            return
    yield ok(
        what,
        "recovers: what a process had prepared before it was killed was there, and was committed "
        "and rolled back",
    )


def _try(
    url: str,
    manager: ConnectionManager,
    node: str,
    table: str,
    numbers: Callable[[], list[int]],
    deadline: float,
) -> str | None:
    """What is wrong, or None."""
    task = json.dumps({"url": url, "node": node, "table": table})
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gateway.checks.two_phase"],
            input=task, capture_output=True, text=True, timeout=deadline, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"has prepared nothing within {deadline:g} seconds"
    if done.returncode != -signal.SIGKILL:
        said = done.stderr.strip().splitlines() or ["it ended without a word"]
        return f"cannot prepare: {said[-1][:200]}"
    mine = {one.gtrid for one in manager.recover() if one.gtrid.startswith(f"{node}:")}
    if mine != {_gtrid(node, _COMMITTED), _gtrid(node, _UNDONE)}:
        return f"lists {len(mine)} of 2 transactions that a killed process had prepared"
    if numbers():
        return "shows what is prepared before it is committed"
    manager.commit(_gtrid(node, _COMMITTED))
    manager.rollback(_gtrid(node, _UNDONE))
    if any(one.gtrid.startswith(f"{node}:") for one in manager.recover()):
        return "lists what was committed or rolled back as if it were still prepared"
    if numbers() != [_COMMITTED]:
        return f"has rows {numbers()}, not [{_COMMITTED}], after one of two was committed"
    return None


def participant(url: str, engine: Engine) -> ConnectionManager:
    """As applications use it: PostgreSQL by psycopg, others by their engine."""
    if engine.dialect.name == "postgresql" and engine.dialect.driver == "psycopg":
        plain = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        return PsycopgConnections(_NAME, plain)
    return EngineConnections(_NAME, engine)


def prepare(url: str, node: str, table: str) -> None:
    """Prepare two transactions, and die."""
    engine = _engine(url)
    manager = participant(url, engine)
    for number in (_COMMITTED, _UNDONE):
        branch = manager.begin(_gtrid(node, number))
        statement = f"INSERT INTO {table} VALUES ({number})"  # noqa: S608  # Both are ours.
        plain = isinstance(manager, PsycopgConnections)
        branch.connection.execute(statement if plain else text(statement))
        branch.prepare()
    os.kill(os.getpid(), signal.SIGKILL)


def shown(url: str) -> str:
    """*url* as it may be printed: without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "a URL"


_NAME = "doctor"


def _gtrid(node: str, number: int) -> str:
    return f"{node}:{number}"


def _engine(url: str, lock_wait: float = LOCK_WAIT) -> Engine:
    parts = make_url(driver_url(url))
    if parts.get_backend_name() != "postgresql":
        return create_engine(parts)
    waits = f"-c lock_timeout={int(1000 * lock_wait)} -c statement_timeout={STATEMENT}"
    own = parts.query.get("options", "")
    options = {"connect_timeout": 10, "options": f"{own} {waits}".strip()}
    return create_engine(parts, connect_args=options)


def _numbers(engine: Engine, table: str) -> list[int]:
    with engine.connect() as connection:
        query = text(f"SELECT number FROM {table} ORDER BY number")  # noqa: S608  # It is ours.
        return [int(number) for number in connection.execute(query).scalars()]


def _undo(manager: ConnectionManager, node: str) -> None:
    """Leave nothing prepared, which would hold locks for ever."""
    with suppress(StorageUnavailable):
        for one in manager.recover():
            if one.gtrid.startswith(f"{node}:"):
                manager.rollback(one.gtrid)


def _drop(engine: Engine, table: str, left: list[str]) -> None:
    try:
        with engine.begin() as connection:
            connection.execute(text(f"DROP TABLE {table}"))
    except SQLAlchemyError:
        left.append(table)


if __name__ == "__main__":
    try:
        prepare(**json.load(sys.stdin))
    except Exception as error:
        sys.exit(first_line(getattr(error, "orig", None) or error))
