"""A process that evaluates what strangers wrote: it can be killed, where a thread cannot.

It reads requests from its standard input and writes answers to its standard output; how they are
told apart is its own matter, but first of all it says that it is ready. It leads a process group of
its own, and ends with the object that has it, or with our process: at the end of its input.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping

START = 30.0
"""Seconds within which a process is ready."""
_PIECE = 65536


class NotStarted(Exception):
    """The process cannot be started: the machine has no more processes, or memory."""


class Broken(Exception):
    """The process has ended, or does not answer in time."""


class Killable:
    """Runs ``python -m module`` whenever it is needed. For one thread at a time.

    Args:
        environment: That of the process, without ``PYTHONPATH``: packages are found where we find
            them.
        greeting: The bytes with which it says that it is ready.
    """

    def __init__(self, module: str, environment: Mapping[str, str], greeting: bytes) -> None:
        self._module = module
        self._environment = environment
        self._greeting = greeting
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: weakref.finalize[..., Killable] | None = None
        self._received = bytearray()

    @property
    def pid(self) -> int | None:
        """The id of the process; None while there is none."""
        return None if self._process is None else self._process.pid

    def has_died(self) -> bool:
        """Return whether there is a process, which has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def start(self) -> None:
        """Start the process if there is none.

        Raises:
            NotStarted: It cannot be.
        """
        if self._process is not None:
            return
        path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
        try:
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env={**self._environment, "PYTHONPATH": path},
                process_group=0,
            )
        except OSError as exc:
            raise NotStarted from exc
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._finalizer = weakref.finalize(self, _end, process)
        try:
            greeting = self.read(len(self._greeting), START)
        except (Broken, OSError) as exc:
            self.close()
            raise NotStarted from exc
        assert greeting == self._greeting

    def write(self, octets: bytes, seconds: float, *, each: bool = False) -> None:
        """Send *octets* within *seconds*; or, with *each*, while each piece takes no longer.

        Raises:
            Broken, OSError: Nothing is read at the other end.
            NotStarted: There is no process, and none can be started.
        """
        self.start()
        assert self._process is not None and self._process.stdin is not None
        stream = self._process.stdin.fileno()
        deadline = time.monotonic() + seconds
        view = memoryview(octets)
        while view:
            _wait(stream, select.POLLOUT, seconds if each else deadline - time.monotonic())
            view = view[os.write(stream, view) :]

    def read(self, octets: int, seconds: float) -> bytes:
        """Receive *octets* bytes within *seconds*.

        Raises:
            Broken, OSError: No more comes.
            NotStarted: There is no process, and none can be started.
        """
        self.start()
        assert self._process is not None and self._process.stdout is not None
        stream = self._process.stdout.fileno()
        deadline = time.monotonic() + seconds
        while len(self._received) < octets:
            _wait(stream, select.POLLIN, deadline - time.monotonic())
            piece = os.read(stream, _PIECE)
            if not piece:
                raise Broken
            self._received += piece
        taken = bytes(self._received[:octets])
        del self._received[:octets]
        return taken

    def close(self) -> None:
        """End the process, with all of its group."""
        if self._finalizer is not None:
            self._finalizer()
        self._finalizer = self._process = None
        self._received.clear()


def _wait(stream: int, events: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(stream, events)
    if not poll.poll(max(0.0, seconds) * 1000):
        raise Broken


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the group of *process*, and wait for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait()
