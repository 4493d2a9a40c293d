"""Real brokers for tests, each private to the run: folders, ports, names and a cookie of its own.

A broker is started when the first test asks for it and ends with the run, however that ends. All
workers share one; tests that stop a broker, or change what holds for all of it, have another. What
is not installed is skipped, and says so.
"""

import asyncio
import atexit
import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.rigs import servers
from tests.rigs.certificates import server_context
from tests.rigs.ports import free_ports
from tests.rigs.waiting import wait_until

START = 180.0
STOP = 60.0
CONTROL = 120.0
USER, PASSWORD = "dragoman", "s3cret/:@"
"""Characters that a URL must escape are part of the trial."""

_HOME = Path("/usr/lib/rabbitmq/bin")
_PLUGINS = "[rabbitmq_consistent_hash_exchange,rabbitmq_stomp].\n"


def wait_for(port: int, process: subprocess.Popen[bytes], output: Path) -> None:
    """Wait until *process*, which writes to *output*, takes connections."""

    def said() -> str:
        return output.read_text()[-2000:]

    def listens() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        assert process.poll() is None, said()
        return False

    wait_until(listens, START, says=said)


class Node:
    """One broker in *folder*, a process of its own. Ports stay the same from start to start."""

    path = ""
    """Of its URL."""

    def __init__(self, folder: Path, scheme: str, ports: Sequence[int]) -> None:
        self.folder = folder
        self.port = ports[0]
        self.ca = folder / "server.pem"
        self._scheme = scheme
        self._ports = ports
        self._node: subprocess.Popen[bytes] | None = None
        self._is_shared = False

    def __getstate__(self) -> dict[str, object]:
        """For another worker, which uses the broker and leaves its process alone."""
        return {**vars(self), "_node": None, "_is_shared": True}

    @property
    def url(self) -> str:
        return self.at(self.port)

    def at(self, port: int, *, user: str = USER, password: str = PASSWORD) -> str:
        """The URL of the broker behind *port*."""
        secret = "".join(f"%{ord(letter):02X}" for letter in password)
        return f"{self._scheme}://{user}:{secret}@127.0.0.1:{port}{self.path}"

    def start(self) -> None:
        """Start the broker, and wait until it takes connections."""
        self._check_own()
        self._node = self._run_node()
        self._wait()

    async def start_again(self) -> None:
        """Start the broker while the event loop goes on.

        The process is started by the thread that is here: it ends with the one that started it.
        """
        self._node = self._run_node()
        await asyncio.to_thread(self._wait)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the broker: politely, or with SIGKILL."""
        self._check_own()
        if self._node is not None:
            self._node.send_signal(number)
            try:
                self._node.wait(STOP)
            except subprocess.TimeoutExpired:
                self._node.kill()
                self._node.wait(STOP)
            self._node = None

    def freeze(self, frozen: bool) -> None:
        """Let the broker hang, or go on."""
        assert self._node is not None
        self._node.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def _check_own(self) -> None:
        assert not self._is_shared, "all workers share this broker: stop one of the test's own"

    def _run_node(self) -> subprocess.Popen[bytes]:
        """Start its process."""
        raise NotImplementedError

    def _run(self, words: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a process that does not outlive this one, however this one ends."""
        with (self.folder / "output.log").open("ab") as log:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *words],
                env=environment, cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def _wait(self) -> None:
        assert self._node is not None
        for port in self._ports:
            wait_for(port, self._node, self.folder / "output.log")


class RabbitMQ(Node):
    """One RabbitMQ node and its epmd.

    Args:
        plugins: The text of the file of enabled plug-ins.
    """

    path = "/"

    def __init__(self, folder: Path, *, plugins: str = _PLUGINS) -> None:
        port, self.tls_port, self.stomp_port, distribution, epmd = free_ports(5)
        super().__init__(folder, "amqp", (port, self.tls_port))
        self._epmd_port = epmd
        self._epmd: subprocess.Popen[bytes] | None = None
        server_context(folder, "localhost")
        (folder / "plugins").write_text(plugins)
        (folder / "rabbitmq.conf").write_text(
            f"""listeners.tcp.1 = 127.0.0.1:{self.port}
listeners.ssl.1 = 127.0.0.1:{self.tls_port}
ssl_options.certfile = {folder}/server.pem
ssl_options.keyfile = {folder}/server.pem
ssl_options.cacertfile = {self.ca}
ssl_options.versions.1 = tlsv1.2
default_user = {USER}
default_pass = {PASSWORD}
disk_free_limit.absolute = 1MB
log.file.level = warning
"""
            + (
                f"stomp.listeners.tcp.1 = 127.0.0.1:{self.stomp_port}\n"
                if "stomp" in plugins
                else ""
            )
        )
        self._environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "RUNNING_UNDER_SYSTEMD": "1",  # The script becomes the node: one process to signal.
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
            "RABBITMQ_NODENAME": f"dragoman{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "generated"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PID_FILE": str(folder / "node.pid"),
            # A broker that is idle shall cost nothing.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
        }

    def start(self) -> None:
        if self._epmd is None:
            words = ("epmd", "-port", str(self._epmd_port), "-address", "127.0.0.1")
            self._epmd = self._run(words, self._environment)
            wait_for(self._epmd_port, self._epmd, self.folder / "output.log")
        super().start()

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_epmd": None}

    def close(self) -> None:
        """Stop everything, for good."""
        self.stop()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait(STOP)
            self._epmd = None

    def control(self, *words: str) -> str:
        """Run ``rabbitmqctl``; what it printed."""
        done = subprocess.run(
            [str(_HOME / "rabbitmqctl"), "--quiet", *words],
            env=self._environment, capture_output=True, timeout=CONTROL, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def _run_node(self) -> subprocess.Popen[bytes]:
        return self._run([str(_HOME / "rabbitmq-server")], self._environment)


def _missing() -> str | None:
    for program in (str(_HOME / "rabbitmq-server"), "epmd", "setpriv"):
        if shutil.which(program) is None:
            return program
    return None


def needs_rabbitmq() -> None:
    """Skip the module that says this, in one line, where there is no RabbitMQ."""
    if (missing := _missing()) is not None:
        import pytest  # Benchmarks start a broker without it.

        pytest.skip(
            f"needs a RabbitMQ server: {missing} is not installed (rabbitmq-server)",
            allow_module_level=True,
        )


@contextlib.contextmanager
def rabbitmq_node(plugins: str = _PLUGINS) -> Iterator[RabbitMQ]:
    """A node of one's own."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-rabbitmq-"))
    node = RabbitMQ(folder, plugins=plugins)
    try:
        node.start()
        yield node
    finally:
        node.close()
        shutil.rmtree(folder, ignore_errors=True)


def rabbitmq() -> RabbitMQ:
    """The node that all tests of this run share; who stops it or limits it takes `own_rabbitmq`."""
    return servers.of_the_run("rabbitmq", own_rabbitmq)


@functools.cache
def own_rabbitmq() -> RabbitMQ:
    """The node that the tests of this process share; whoever stops it starts it again."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(rabbitmq_node())


class Wire:
    """A way to a port that can be cut: TCP in between."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._silent = False
        self.swallowed = asyncio.Event()
        """Set once something was swallowed."""
        self.carried: Counter[asyncio.StreamWriter] = Counter()
        """How many pieces each open connection has carried, in each direction."""
        (self.port,) = free_ports(1)

    async def join(self) -> None:
        """Let connections through; the port is always the same."""
        self._silent = False
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", self.port)

    async def cut(self) -> None:
        """End all connections and refuse new ones."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    def fall_silent(self) -> None:
        """Swallow what comes, on connections that stay open."""
        self.swallowed.clear()
        self._silent = True

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:  # One that came while the wire was cut, and its test ended, is in nobody's list.
            for end in (writer, far_writer):
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError):
            while octets := await reader.read(2**16):
                if self._silent:
                    self.swallowed.set()
                    continue
                writer.write(octets)
                await writer.drain()
                self.carried[writer] += 1
        del self.carried[writer]
        writer.transport.abort()
        self._writers.discard(writer)


@asynccontextmanager
async def wire_to(port: int) -> AsyncIterator[Wire]:
    wire = Wire(port)
    await wire.join()
    try:
        yield wire
    finally:
        await wire.cut()
