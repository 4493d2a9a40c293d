"""A real PostgreSQL for tests, private to the run: a cluster in a folder of its own, on a free port.

It is made when the first test asks for it and ends with the run, however that ends; the cluster
that Debian makes is left alone. PostgreSQL refuses to run as root: for root it runs as another
user. What is not installed is skipped, and says so.
"""

import atexit
import contextlib
import functools
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
from psycopg import sql

from tests.rigs import servers
from tests.rigs.ports import free_ports
from tests.rigs.waiting import wait_until

START = 180.0
STOP = 60.0
USER = "dragoman"
CONNECTIONS = 200
"""Of the workers of a run, each with tests of several gateways that have ten each."""
PREPARED = 80
_CONFIGURATION = """listen_addresses = '127.0.0.1'
unix_socket_directories = '{folder}'
max_connections = {connections}
max_prepared_transactions = {prepared}
shared_buffers = 16MB
fsync = off                       # No test cuts the power.
log_min_messages = warning
"""


class PostgreSQL:
    """One cluster, in *folder*. The port stays the same from start to start."""

    def __init__(self, folder: Path, programs: Path, prepared: int) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self._programs = programs
        self._server: subprocess.Popen[bytes] | None = None
        self._is_shared = False
        self._names = itertools.count(1)
        self._as_user: Sequence[str] = ()
        if os.geteuid() == 0:
            user = _user()
            os.chown(folder, user.pw_uid, user.pw_gid)
            identity = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
            self._as_user = identity
        data = str(folder / "data")
        made = self._run(
            "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )
        assert made.wait(START) == 0, self._said()
        with (folder / "data/postgresql.conf").open("a") as file:
            file.write(
                _CONFIGURATION.format(folder=folder, prepared=prepared, connections=CONNECTIONS)
            )

    def __getstate__(self) -> dict[str, object]:
        """For another worker, which uses the cluster and leaves its process alone."""
        return {**vars(self), "_server": None, "_is_shared": True, "_names": itertools.count(1)}

    def url(self, database: str = "postgres", port: int | None = None) -> str:
        """The URL of *database*, behind *port* where that is another one."""
        return f"postgresql://{USER}@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        """Start the server, and wait until it takes connections."""
        self._check_own()
        self._server = self._run("postgres", "-D", str(self.folder / "data"), "-p", str(self.port))
        wait_until(self._takes_connections, START, says=self._said)

    def _takes_connections(self) -> bool:
        assert self._server is not None and self._server.poll() is None, self._said()
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends connections, SIGQUIT is a crash."""
        self._check_own()
        if self._server is not None:
            self._server.send_signal(number)
            try:
                self._server.wait(STOP)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait(STOP)
            self._server = None

    def make_database(self) -> str:
        """The name of a fresh database."""
        name = self._next_name()
        self._ask(f"CREATE DATABASE {name}")
        return name

    def make_database_on(self, folder: Path) -> str:
        """The name of a fresh database whose tables are in *folder*, on whatever disk that is; what
        is logged ahead of them is not there. A tablespace has the same name."""
        name = self._next_name()
        place = folder / name
        place.mkdir()
        if self._as_user:
            user = _user()
            os.chown(place, user.pw_uid, user.pw_gid)
        for above in place.parents:  # What tests are given is closed to others.
            if not above.stat().st_mode & 0o001:
                above.chmod(above.stat().st_mode | 0o011)
        self._ask(f"CREATE TABLESPACE {name} LOCATION '{place}'")
        self._ask(f"CREATE DATABASE {name} TABLESPACE {name}")
        return name

    def drop_tablespace(self, name: str) -> None:
        self._ask(f"DROP TABLESPACE {name}")

    def drop_database(self, name: str) -> None:
        """Drop it, whoever is connected, and whatever is prepared there."""
        with (
            contextlib.suppress(psycopg.OperationalError),
            psycopg.connect(self.url(name), autocommit=True) as connection,
        ):
            for (gid,) in connection.execute(
                "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
            ).fetchall():
                connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
        self._ask(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def admit_to(self, name: str, admit: bool) -> None:
        """Let connections to a database be made; or refuse them, and end those that are there."""
        self._ask(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {admit}")
        if not admit:
            self._ask(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", name
            )

    @contextlib.contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Meanwhile the server, and what it does for the connections to database *name*, stands
        still; the kernel still accepts connections."""
        assert self._server is not None
        with psycopg.connect(self.url(), autocommit=True) as connection:
            query = "SELECT pid FROM pg_stat_activity WHERE datname = %s"
            pids = [pid for (pid,) in connection.execute(query, (name,)).fetchall()]
        pids.append(self._server.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Meanwhile somebody has all tables of database *name* to himself."""
        with psycopg.connect(self.url(name)) as connection:
            query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            tables = [sql.Identifier(table) for (table,) in connection.execute(query).fetchall()]
            names = sql.SQL(", ").join(tables)
            lock = sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(names)

            def locks() -> bool:
                try:
                    connection.execute(lock)
                except psycopg.errors.DeadlockDetected:  # With a transaction of who has tables.
                    connection.rollback()
                    return False
                return True

            wait_until(locks)
            yield
            connection.rollback()

    def _next_name(self) -> str:
        """A name that no other worker gives."""
        return f"test{os.getpid()}_{next(self._names)}"

    def _check_own(self) -> None:
        assert not self._is_shared, "all workers share this cluster: stop one of the test's own"

    def _ask(self, statement: str, *values: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode(), values)

    def _run(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        return self.run(str(self._programs / program), *words)

    def run(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a process as the server's user, that does not outlive this one, however this one
        ends."""
        with (self.folder / "output.log").open("ab") as log:
            return subprocess.Popen(
                [
                    "setpriv", *self._as_user, "--pdeathsig", "QUIT",
                    program, *words,
                ],
                env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}, cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def _said(self) -> str:
        return (self.folder / "output.log").read_text()[-2000:]


def _user() -> pwd.struct_passwd:
    """Whom root starts it as."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    return pwd.getpwnam("nobody")


def _programs() -> Path | None:
    """Where the newest version of the server is installed."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: int(path.parts[-3]) if path.parts[-3].isdecimal() else 0,
    )
    path = found[-1] if found else shutil.which("initdb")
    return Path(path).parent if path and shutil.which("setpriv") else None


def needs_postgresql(*, allow_module_level: bool = False) -> None:
    """Skip who says this, in one line, where there is no PostgreSQL server."""
    if _programs() is None:
        import pytest  # Benchmarks start a server without it.

        pytest.skip(
            "needs a PostgreSQL server: it is not installed (postgresql)",
            allow_module_level=allow_module_level,
        )


@contextlib.contextmanager
def postgresql_cluster(prepared: int = PREPARED) -> Iterator[PostgreSQL]:
    """A cluster of one's own, with *prepared* as its ``max_prepared_transactions``."""
    programs = _programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="dragoman-postgresql-"))
    cluster = None
    try:
        cluster = PostgreSQL(folder, programs, prepared)
        cluster.start()
        yield cluster
    finally:
        if cluster is not None:
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def pgbouncer(cluster: PostgreSQL, mode: str) -> Iterator[int]:
    """The port of PgBouncer in front of *cluster*, with *mode* as its ``pool_mode``."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        import pytest  # Benchmarks start servers with this module, and have no library of tests.

        pytest.skip("needs PgBouncer: it is not installed (pgbouncer)")
    (port,) = free_ports(1)
    settings, users = cluster.folder / f"pgbouncer-{port}.ini", cluster.folder / f"users-{port}"
    users.write_text(f'"{USER}" ""\n')
    settings.write_text(
        f"[databases]\n* = host=127.0.0.1 port={cluster.port}\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n"
        f"auth_file = {users}\npool_mode = {mode}\ndefault_pool_size = 8\n"
    )
    for path in (settings, users):
        path.chmod(0o644)
    pooler = cluster.run(program, str(settings))

    def answers() -> bool:
        assert pooler.poll() is None
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        wait_until(answers, START)
        yield port
    finally:
        pooler.kill()
        pooler.wait()


def postgresql() -> PostgreSQL:
    """The cluster that all tests of this run share; who stops or freezes it makes one, with
    `postgresql_cluster`."""
    return servers.of_the_run("postgresql", _own_postgresql)


@functools.cache
def _own_postgresql() -> PostgreSQL:
    """The cluster that the tests of this process share."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(postgresql_cluster())


@contextlib.contextmanager
def database_on(folder: Path) -> Iterator[str]:
    """The URL of an empty database whose tables are in *folder*, which is dropped afterwards.

    Its cluster is its own: where that disk is full, each checkpoint fails, and with it every CREATE
    DATABASE of the cluster.
    """
    with postgresql_cluster() as cluster:
        name = cluster.make_database_on(folder)
        try:
            yield cluster.url(name)
        finally:
            cluster.drop_database(name)
            cluster.drop_tablespace(name)


@contextlib.contextmanager
def fresh_database() -> Iterator[str]:
    """The URL of an empty database of the shared cluster, which is dropped afterwards."""
    cluster = postgresql()
    name = cluster.make_database()
    try:
        yield cluster.url(name)
    finally:
        cluster.drop_database(name)
