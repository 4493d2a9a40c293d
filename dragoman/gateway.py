"""A gateway inside a program or a test: a broker with every specification, gone when it is left.

::

    with Gateway("memory:") as gateway, WsnClient(gateway.url) as client:
        client.publish("<speed>120</speed>", topic="storms")

It is the real gateway, in a process of its own, which ends with the program. It needs the
distribution ``dragoman`` beside ``dragoman-client``.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from importlib import metadata
from pathlib import Path
from typing import Self

_READY = re.compile(r"Dragoman is ready on (\S+)")
# A gateway ends when its standard input does: that of a program that was killed does, too.
_PROGRAM = """
import os, runpy, signal, threading

def end():
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=end, daemon=True).start()
runpy.run_module("gateway", run_name="__main__", alter_sys=True)
"""


class GatewayFailed(Exception):
    """A gateway did not start; the text is what it said."""


class Gateway:
    """A gateway on a free port of this machine; a context manager, asynchronous or not.

    The process imports Dragoman alone, whatever folders the program has: not what lies in the
    current folder, and nothing of ``PYTHONPATH``. It reads no ``dragoman.toml``.

    Args:
        adapter: The messaging system behind it: ``memory:`` keeps nothing, ``embedded:`` keeps all
            in *data*, or the URL of a broker.
        data: Its folder; one that is removed afterwards, when None.
        settings: Any others, as in ``dragoman.toml``: ``hold_while_paused=True``.
        seconds: That it may take to start.

    Raises:
        GatewayFailed: On entry: it did not start, or Dragoman is not installed here.
    """

    def __init__(
        self,
        adapter: str = "memory:",
        *,
        data: Path | str | None = None,
        seconds: float = 60.0,
        **settings: str | int | bool,
    ) -> None:
        self._adapter = adapter
        self._data = data
        self._seconds = seconds
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        """Where it is, such as ``http://127.0.0.1:43131``; known once it is entered."""

    def __enter__(self) -> Self:
        try:
            metadata.distribution("dragoman")
        except metadata.PackageNotFoundError:
            raise GatewayFailed(
                "a gateway needs Dragoman itself in this environment (the distribution dragoman),"
                " beside dragoman-client"
            ) from None
        self._folder = tempfile.mkdtemp(prefix="dragoman-")
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    def _start(self) -> None:
        data = Path(self._data or self._folder).absolute()
        errors = Path(self._folder, "log")
        with errors.open("wb") as log:
            self._process = subprocess.Popen(
                # Neither the current folder nor PYTHONPATH is imported from.
                [sys.executable, "-P", "-E", "-c", _PROGRAM, "serve", "--port", "0",
                 "--data", str(data)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                cwd=self._folder, env=self._environment(),
            )  # fmt: skip
        killer = threading.Timer(self._seconds, self._process.kill)
        killer.start()
        try:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                if found := _READY.match(line):
                    self.url = found[1]
                    break
        finally:
            killer.cancel()
        if not self.url:
            said = errors.read_text("utf-8", "replace").strip()
            raise GatewayFailed(f"the gateway did not start: {said or 'it said nothing'}")
        threading.Thread(target=self._read_on, args=[self._process], daemon=True).start()

    def _environment(self) -> dict[str, str]:
        mine = {
            name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")
        }
        given = {"adapter": self._adapter, **self._settings}
        return mine | {f"DRAGOMAN_{name.upper()}": str(value) for name, value in given.items()}

    @staticmethod
    def _read_on(process: "subprocess.Popen[str]") -> None:
        """Read what else it prints: a full pipe would hold it up."""
        assert process.stdout is not None
        try:
            for _ in process.stdout:
                pass
        except ValueError:
            pass  # It was closed.
