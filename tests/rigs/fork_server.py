"""Starts ``python -m gateway`` by forking a process that has imported it.

A gateway takes 1.7 s of processor time to start, a command 0.7 s, and a run starts hundreds: almost
all of that is imports, the tables of an empty store, and the routes of the administration, which the
server makes by starting a gateway once. `installed` has `subprocess` ask a fork server instead, for exactly this
program with the environment that tests have. What starts is a process as any other: a child of the
test's, with its own id, files, folder, environment and signals. Any other call of `subprocess`, and
one behind another program (``env``), starts Python as always.

The server forks twice, while the process of the tests is the one that orphans fall to: so it becomes
the parent, which may wait for the process and is told its exit code.
"""

import asyncio
import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import inspect
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import SecretStr

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "gateway"]
PRELOADED = (
    "gateway.server.process",
    "adapters.embedded.adapter",
    "adapters.rabbitmq",
    "adapters.stomp",
    "filters.matching.engines.native",
    "alembic.command",
    "psycopg",
    "uvicorn.lifespan.off",
)
"""What a gateway imports that no module of the command line imports."""
FREE = ("DRAGOMAN_", "PYTEST_", "HYPOTHESIS_")
"""Environment variables that may differ: no import reads one that begins so."""
AT_START = {"PYTHONUNBUFFERED": (None, "1"), "PYTHONWARNINGS": (None, "error")}
"""Environment variables that Python reads as it starts, and values of them that what is forked does
itself. One server, which takes 2.9 s of processor time to start, serves all."""
_LARGEST = 2**17
"""Bytes of a request."""
_SET_CHILD_SUBREAPER = 36


class Request(NamedTuple):
    """What is to be started."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]


class ForkServer:
    """A process that has imported the gateway, with an environment of its own."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.rigs.fork_server", str(theirs.fileno())],
                cwd=ROOT, env={**_rest_of(os.environ), "PYTHONWARNINGS": "error"}, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip

    def start(self, request: Request, files: list[int]) -> int:
        """Start the gateway's command line with *files* as its standard input, output and error
        output; its process id."""
        with self._lock, _orphans_are_ours():
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            return int(self._socket.recv(64))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Meanwhile `subprocess` starts the gateway by forking."""
    opened: Any = subprocess.Popen  # What is replaced is private: nothing public is called by all.
    plain = opened._execute_child
    signature = inspect.signature(plain)
    servers: list[ForkServer] = []
    lock = threading.Lock()

    @functools.wraps(plain)
    def start(process: Any, *values: Any) -> None:
        call = signature.bind(process, *values).arguments
        if not _may_be_forked(call):
            plain(process, *values)
            return
        with lock:
            if not servers:
                servers.append(ForkServer())
        _start_by(servers[0], process, call)

    opened._execute_child = start
    try:
        yield
    finally:
        opened._execute_child = plain
        for server in servers:
            server.close()


def _may_be_forked(call: Mapping[str, Any]) -> bool:
    """Whether a server may start a process; else Python must be started."""
    special = ("preexec_fn", "pass_fds", "shell", "executable", "start_new_session", "gid", "uid")
    if any(call[name] for name in special) or call["process_group"] not in (None, -1):
        return False
    if isinstance(call["args"], (str, bytes, os.PathLike)):
        return False
    if [str(word) for word in call["args"]][:3] != PROGRAM:
        return False
    environment = os.environ if call["env"] is None else call["env"]
    if _rest_of(environment) != _rest_of(os.environ):
        return False
    return all(environment.get(name) in values for name, values in AT_START.items())


def _rest_of(environment: Mapping[str, str]) -> dict[str, str]:
    """What a server and what it starts have in common: all but what is free, or done in each."""
    return {
        name: text
        for name, text in environment.items()
        if name not in AT_START
        and not name.startswith(FREE)
        and (name, text) != ("PYTHONPATH", str(ROOT))
    }


def _start_by(server: ForkServer, process: Any, call: Mapping[str, Any]) -> None:
    """What `_execute_child` does, by *server*."""
    given = (call["p2cread"], call["c2pwrite"], call["errwrite"])
    files = [own if one == -1 else one for own, one in enumerate(given)]
    environment = dict(os.environ if call["env"] is None else call["env"])
    folder = Path(call["cwd"] or ".").absolute()
    arguments = [str(word) for word in call["args"]][3:]
    process.pid = server.start(Request(arguments, str(folder), environment), files)
    process._child_created = True
    pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
    process._close_pipe_fds(*(call[name] for name in pipes))


@contextlib.contextmanager
def _orphans_are_ours() -> Iterator[None]:
    """Meanwhile this process becomes the parent of processes below it whose own parent ends."""
    library = ctypes.CDLL(None)
    library.prctl(_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        library.prctl(_SET_CHILD_SUBREAPER, 0)


# ------------------------------------------------------------------------------------ the server


def serve(number: int) -> Request | None:
    """Start what the socket of file descriptor *number* asks for, until it is closed: then None.
    What is to be done is returned in each process that is started."""
    requests = socket.socket(fileno=number)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(requests, _LARGEST, 3)
        if not message:
            requests.close()
            return None
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            if (orphan := os.fork()) != 0:
                os.write(writing, str(orphan).encode())
                os._exit(0)
            for own, one in enumerate(files):
                os.dup2(one, own)
            for one in (*files, reading, writing):
                os.close(one)
            requests.close()
            return Request(*json.loads(message))
        os.waitpid(between, 0)
        requests.send(os.read(reading, 64))
        for one in (*files, reading, writing):
            os.close(one)


def run(request: Request) -> None:
    """Become what *request* says."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request.environment)
    if "PYTHONWARNINGS" not in os.environ:
        _warn_as_always()
    if "PYTHONUNBUFFERED" in os.environ:
        _write_at_once()
    os.chdir(request.folder)
    sys.path[0] = request.folder
    sys.argv = ["gateway", *request.arguments]
    code: str | int | None = None
    try:
        runpy.run_module("gateway", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code
    _end(code)


def _warn_as_always() -> None:
    """Have warnings that are not errors: what ``PYTHONWARNINGS=error`` added is gone."""
    sys.warnoptions.clear()
    others = [one for one in warnings.filters if one[0] != "error"]
    warnings.resetwarnings()
    warnings.filters.extend(others)  # type: ignore[attr-defined]  # It is a list.


def _write_at_once() -> None:
    """Have standard output and error output that keep nothing back, as ``PYTHONUNBUFFERED`` does."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        raw = open(stream.fileno(), "wb", buffering=0, closefd=False)  # noqa: SIM115 - It stays.
        setattr(sys, name, TextIOWrapper(
            raw, stream.encoding, stream.errors, line_buffering=stream.line_buffering, write_through=True,
        ))  # fmt: skip
        setattr(sys, f"__{name}__", getattr(sys, name))


def _end(code: str | int | None) -> None:
    """End as Python does, but leave alone what was imported: Python would look at all of it once
    more, which makes all memory the process's own and takes 0.1 s."""
    threading._shutdown()  # type: ignore[attr-defined]  # Nothing public waits for all threads.
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # Nobody reads: Python says so its own way.
        sys.exit(code)
    if isinstance(code, str):
        sys.exit(code)
    os._exit(code or 0)


async def start_once() -> None:
    """Start a gateway and stop it, so that what a process makes once is there for all."""
    from gateway.server.process import listen
    from gateway.server.process import serve as serve_gateway
    from gateway.settings.settings import Settings

    stop = asyncio.Event()
    with tempfile.TemporaryDirectory() as folder, listen("127.0.0.1", 0) as listener:
        settings = Settings(adapter=SecretStr("memory:"), data=Path(folder), port=0)
        await serve_gateway(
            settings, listener, started=lambda _gateway, _port: stop.set(), stop=stop
        )


if __name__ == "__main__":
    from gateway.cli import COMMANDS
    from tests.rigs import compiled_statements, store_copies

    for module in (*(one.place.partition(":")[0] for one in COMMANDS.values()), *PRELOADED):
        with contextlib.suppress(ImportError):  # An extra that is missing, an engine not compiled.
            importlib.import_module(module)
    with store_copies.installed(), compiled_statements.shared():
        asyncio.run(start_once())
        assert threading.active_count() == 1, threading.enumerate()
        gc.collect()
        gc.freeze()
        if (asked := serve(int(sys.argv[1]))) is not None:
            run(asked)
