"""A real MariaDB for tests, private to the run: data in a folder of its own, on a free port.

It is started when the first test asks for it and ends with the run, however that ends. What is not
installed is skipped, and says so.
"""

import atexit
import contextlib
import functools
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pymysql

from tests.rigs import servers
from tests.rigs.ports import free_ports
from tests.rigs.waiting import wait_until

START = 180.0
STOP = 60.0
USER = "dragoman"


class MariaDB:
    """One server, with its data in *folder*."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self._server: subprocess.Popen[bytes] | None = None
        self._is_shared = False
        self._names = itertools.count(1)

    def __getstate__(self) -> dict[str, object]:
        """For another worker, which uses the server and leaves its process alone."""
        return {**vars(self), "_server": None, "_is_shared": True, "_names": itertools.count(1)}

    def url(self, database: str = "mysql") -> str:
        """The URL of *database*, for SQLAlchemy."""
        return f"mysql+pymysql://{USER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Make the data, start the server, and wait until it takes connections."""
        data = self.folder / "data"
        made = self._run("mariadb-install-db", f"--datadir={data}", "--skip-test-db", _as_user())
        assert made.wait(START) == 0, self._said()
        users = self.folder / "users.sql"
        users.write_text(
            f"CREATE USER IF NOT EXISTS '{USER}'@'%';\nGRANT ALL ON *.* TO '{USER}'@'%';\n"
        )
        self._server = self._run(
            "mariadbd", f"--datadir={data}", f"--port={self.port}", "--bind-address=127.0.0.1",
            f"--socket={self.folder}/socket", f"--init-file={users}", "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=0", _as_user(),
        )  # fmt: skip
        wait_until(self._takes_connections, START, says=self._said)

    def stop(self) -> None:
        """Stop the server."""
        assert not self._is_shared, "all workers share this server"
        if self._server is not None:
            self._server.send_signal(signal.SIGTERM)
            try:
                self._server.wait(STOP)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait(STOP)
            self._server = None

    def make_database(self) -> str:
        """The name of a fresh database."""
        name = f"test{os.getpid()}_{next(self._names)}"
        self._ask(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        return name

    def drop_database(self, name: str) -> None:
        """Drop it."""
        self._ask(f"DROP DATABASE IF EXISTS {name}")

    def _ask(self, statement: str) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    def _connect(self) -> "pymysql.Connection[pymysql.cursors.Cursor]":
        return pymysql.connect(host="127.0.0.1", port=self.port, user=USER)

    def _takes_connections(self) -> bool:
        assert self._server is not None and self._server.poll() is None, self._said()
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                pass
            self._connect().close()
        except (OSError, pymysql.Error):
            return False
        return True

    def _run(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
        assert found is not None
        with (self.folder / "output.log").open("ab") as log:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", found, "--no-defaults", *words],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def _said(self) -> str:
        return (self.folder / "output.log").read_text()[-2000:]


def _as_user() -> str:
    return f"--user={'root' if os.geteuid() == 0 else os.environ.get('USER', 'nobody')}"


def needs_mariadb() -> None:
    """Skip who says this, in one line, where there is no MariaDB server."""
    if shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        import pytest  # Benchmarks start a server without it.

        pytest.skip("needs a MariaDB server: it is not installed (mariadb-server)")


@contextlib.contextmanager
def mariadb_server() -> Iterator[MariaDB]:
    """A server of one's own."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-mariadb-"))
    server = MariaDB(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def mariadb() -> MariaDB:
    """The server that all tests of this run share."""
    return servers.of_the_run("mariadb", _own_mariadb)


@functools.cache
def _own_mariadb() -> MariaDB:
    """The server that the tests of this process share."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(mariadb_server())


@contextlib.contextmanager
def fresh_mariadb() -> Iterator[str]:
    """The URL of an empty database of the shared server, which is dropped afterwards."""
    server = mariadb()
    name = server.make_database()
    try:
        yield server.url(name)
    finally:
        server.drop_database(name)
