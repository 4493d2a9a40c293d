"""A NATS server of the tests' own: its port, its folder, its process."""

import asyncio
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

START = STOP = 20.0
MAX_PAYLOAD = 2 * 2**20
FORBIDDEN = "forbidden"
"""The first word of subjects that nobody may publish to."""


OPEN = "open"
"""The user, and password, of who says no name where no user is asked for."""


class Server:
    """nats-server with JetStream in *folder*. The port stays the same from start to start."""

    def __init__(self, folder: Path, *, user: str = "", password: str = "") -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._output = folder / "output.log"
        self._configuration = folder / "nats.conf"
        self._configuration.write_text(
            f'listen: "127.0.0.1:{self.port}"\n'
            f"max_payload: {MAX_PAYLOAD}\n"
            f'jetstream {{ store_dir: "{folder}" }}\n'
            + f'authorization {{ default_permissions: {{ publish: {{ deny: "{FORBIDDEN}.>" }} }}\n'
            + f'  users: [{{ user: "{user or OPEN}", password: "{password or OPEN}" }}] }}\n'
            + ("" if user else f'no_auth_user: "{OPEN}"\n')
        )
        self._login = f"{quote(user, '')}:{quote(password, '')}@" if user else ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://{self._login}127.0.0.1:{self.port}"

    def start(self) -> None:
        self._run()
        self._wait()

    def _run(self) -> None:
        """Start the process, which ends with the thread that is here, however that ends."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "nats-server", "-c", self._configuration],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _wait(self) -> None:
        assert self._process is not None
        end = time.monotonic() + START
        while not self._answers():
            said = self._output.read_text()[-2000:]
            assert self._process.poll() is None, said
            assert time.monotonic() < end, said
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(STOP)
            self._process = None

    def pause(self) -> None:
        """Let it be there, and say nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def start_meanwhile(self) -> None:
        """Start it while the event loop goes on."""
        self._run()
        await asyncio.to_thread(self._wait)

    async def kill_and_start(self) -> None:
        """As a crash would have it."""
        self.stop(signal.SIGKILL)
        await self.start_meanwhile()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                return connection.recv(4) == b"INFO"
        except OSError:
            return False
