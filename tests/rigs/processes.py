"""A gateway as a process that can be killed, and publishers that know what it acknowledged."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.rigs.envelopes import Answer, Speaker
from tests.rigs.gateways import exchange, http_request, manager_path, read_http
from tests.rigs.waiting import DEADLINE, until

START = 120.0
STOP = 120.0
READY = "Dragoman is ready on "
SPEAKER = Speaker()
ANSWER = 30.0


class GatewayProcess:
    """``python -m gateway serve`` with its data in *data*, again and again."""

    def __init__(
        self, data: Path, environment: Mapping[str, str] | None = None, *arguments: str
    ) -> None:
        self.data = data
        self.arguments = arguments
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("DRAGOMAN_")},
            "PYTHONUNBUFFERED": "1",
            **(environment or {}),
        }
        self.log = data.with_name(data.name + ".log")
        self.process: asyncio.subprocess.Process | None = None
        self.port = 0
        self.up = asyncio.Event()
        """Set while it is ready."""

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, *prefix: str) -> None:
        """Start it, behind *prefix*, and wait until it is ready."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *prefix, sys.executable, "-m", "gateway", "serve",
                "--port", "0", "--data", str(self.data), *self.arguments,
                stdout=asyncio.subprocess.PIPE, stderr=log, env=self.environment,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = (await asyncio.wait_for(self.process.stdout.readline(), START)).decode()
        assert line.startswith(READY), self.log.read_text()[-2000:]
        self.port = int(line.removeprefix(READY).split()[0].rpartition(":")[2])
        self.up.set()

    async def end(self, number: int = signal.SIGTERM, seconds: float = STOP) -> int:
        """Send it a signal and wait for its end; its exit code, negative for a signal."""
        self.up.clear()
        assert self.process is not None
        if self.process.returncode is None:
            # Not send_signal: it reaps a process that has ended, whose code asyncio then misses.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)
        async with asyncio.timeout(seconds):
            code = await self.process.wait()
            if self.process.stdout is not None:
                await self.process.stdout.read()
        return code

    async def kill(self) -> None:
        assert await self.end(signal.SIGKILL) == -signal.SIGKILL

    async def request(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        return await exchange(self.port, http_request(self.port, method, path, body, headers))

    async def ask(self, body: str, path: str = "/soap") -> Answer:
        """Send an envelope."""
        return await self.request(
            "POST", path, SPEAKER.envelope(body), content_type=SPEAKER.soap.media_type
        )

    async def subscribe(self, consumer: str, expires: str | None = None) -> str:
        """Subscribe *consumer* to everything; the path of the subscription's manager."""
        answer = await self.ask(SPEAKER.wse_subscribe(consumer, expires=expires))
        assert answer.status == 200, answer.body
        return manager_path(answer.message)

    async def metrics(self) -> dict[str, float]:
        """The values without labels."""
        answer = await self.request("GET", "/metrics")
        text = answer.body.decode()
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#"]
        return {name.removeprefix("dragoman_"): float(value) for name, value in lines}

    async def at_rest(
        self, *, waiting: int | None = 0, seconds: float = 2 * DEADLINE
    ) -> dict[str, float]:
        """Wait until nothing is under way, and *waiting* deliveries wait; the law must hold."""
        metrics: dict[str, float] = {}

        async def rests() -> bool:
            metrics.update(await self.metrics())
            quiet = metrics["in_flight"] == 0 and metrics["unsettled"] == 0
            return quiet and (waiting is None or metrics["waiting"] == waiting)

        await until(rests, seconds)
        assert metrics["conservation_error"] == 0, metrics
        return metrics

    def memory(self) -> int:
        """Resident octets."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")


@asynccontextmanager
async def gateway_process(
    data: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[GatewayProcess]:
    """One that runs; on the way out it is stopped politely, and must take that well."""
    gateway = GatewayProcess(data, environment)
    await gateway.start()
    try:
        yield gateway
        assert await gateway.end() == 0, gateway.log.read_text()[-2000:]
    finally:
        if gateway.process is not None and gateway.process.returncode is None:
            await gateway.end(signal.SIGKILL)


def event(number: str, filling: int = 0) -> bytes:
    """An envelope whose payload has *number*."""
    return SPEAKER.envelope(
        f'<t:event xmlns:t="urn:test"><n>{number}</n><f>{"x" * filling}</f></t:event>',
        action="urn:test:event",
        message_id=f"urn:test:{number}",
    )


class Publisher:
    """Publishes numbered events one after the other, and knows what became of each."""

    def __init__(
        self, gateway: GatewayProcess, name: str = "", *, filling: int = 0, path: str = "/soap"
    ) -> None:
        self._gateway = gateway
        self._path = path
        self._name = name
        self._filling = filling
        self._next = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.attempted: list[str] = []
        self.acknowledged: list[str] = []
        self.statuses: dict[int, int] = {}
        self.headers: Mapping[str, str] = {}
        """Of the last answer."""

    async def publish(self) -> int:
        """Publish the next event; the status of the answer, 0 where there was none."""
        await self._gateway.up.wait()
        self._next += 1
        number = f"{self._name}{self._next}"
        self.attempted.append(number)
        try:
            async with asyncio.timeout(ANSWER):
                status = await self._post(event(number, self._filling))
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            status = 0
            self.close()
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status == 202:
            self.acknowledged.append(number)
        return status

    async def _post(self, body: bytes) -> int:
        port = self._gateway.port
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", port)
        reader, writer = self._streams
        writer.write(
            f"POST {self._path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: "
            f"{SPEAKER.soap.media_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        first, self.headers, _ = await read_http(reader)
        if self.headers.get("connection", "").lower() == "close":
            self.close()
        return int(first.split(" ")[1])

    async def run(self, rate: float) -> None:
        """Publish *rate* events a second, for ever."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self.publish()
            due = max(due + 1 / rate, loop.time() - 0.1)
            await asyncio.sleep(due - loop.time())

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@asynccontextmanager
async def publishing(
    gateway: GatewayProcess,
    rate: float,
    *,
    publishers: int = 4,
    filling: int = 0,
    topics: bool = False,
) -> AsyncIterator[list[Publisher]]:
    """Publishers that together publish *rate* events a second, with *topics* each on its own."""
    those = [
        Publisher(
            gateway, name, filling=filling, path=f"/soap/topic/of-{name}" if topics else "/soap"
        )
        for name in "abcdefgh"[:publishers]
    ]
    tasks = [asyncio.create_task(one.run(rate / publishers)) for one in those]
    try:
        yield those
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            with contextlib.suppress(asyncio.CancelledError):
                if isinstance(outcome, BaseException):
                    raise outcome
        for one in those:
            one.close()
