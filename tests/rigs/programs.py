"""Runs the command line as its users do: as processes."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

DRAGOMAN = (sys.executable, "-m", "gateway")
SECONDS = 90.0


def environment() -> dict[str, str]:
    """Ours, without settings of Dragoman that happen to be in it."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("DRAGOMAN_")}
    return {**kept, "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "error"}


def run(
    *arguments: str, cwd: Path, stdin: bytes = b"", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    ended = subprocess.run(
        (*DRAGOMAN, *arguments),
        cwd=cwd,
        env=environment() | variables,
        input=stdin,
        capture_output=True,
        timeout=SECONDS * 10,  # a Java machine or two start in some
        check=False,
    )
    return subprocess.CompletedProcess(
        ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode()
    )


async def command(url: str, *words: str, cwd: Path, code: int = 0) -> str:
    """Run a command at the gateway in this process whose *url* this is; what it prints, also as an
    error. It must end with *code*."""
    ended = await asyncio.to_thread(run, *words, "--gateway", url, cwd=cwd)
    assert ended.returncode == code, ended.stderr
    return ended.stdout + ended.stderr


class Program:
    """A command that runs; what it prints is collected as it comes."""

    def __init__(self, *arguments: str, cwd: Path, **variables: str) -> None:
        self.process = subprocess.Popen(
            (*DRAGOMAN, *arguments),
            cwd=cwd,
            env=environment() | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._changed = threading.Condition()
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=pair, daemon=True)
            for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(SECONDS)
            self.process.kill()
        self._join()

    def _read(self, stream: IO[bytes], lines: list[str]) -> None:
        for text in stream:
            with self._changed:
                lines.append(text.decode().rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _join(self) -> None:
        for reader in self._readers:
            reader.join(SECONDS)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def wait_for(self, text: str, *, lines: Sequence[str] | None = None) -> str:
        """The first line of the output that holds *text*, once there is one."""
        searched = self.out if lines is None else lines
        deadline = time.monotonic() + SECONDS
        with self._changed:
            while True:
                for found in searched:
                    if text in found:
                        return found
                left = deadline - time.monotonic()
                alive = any(reader.is_alive() for reader in self._readers)
                if left <= 0 or not alive:
                    raise AssertionError(f"no {text!r} in {self.out} nor {self.err}")
                self._changed.wait(min(left, 0.5))

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """Wait for the end; the exit code."""
        code = self.process.wait(SECONDS)
        self._join()
        return code


class RunningGateway(Program):
    """A gateway on a free port, with the data folder ``data`` in *cwd*."""

    def __init__(self, *arguments: str, cwd: Path, **variables: str) -> None:
        super().__init__("serve", "--port", "0", "--data", "data", *arguments, cwd=cwd, **variables)
        self.url = self.wait_for("Dragoman is ready on ").split()[4]
