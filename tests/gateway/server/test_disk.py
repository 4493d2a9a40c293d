"""What the disk has before an answer is sent, and what happens when it is full."""

import asyncio
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.server.test_kill import judge
from tests.rigs.consumers import accept, consumers, status
from tests.rigs.disks import fill, small_disk
from tests.rigs.processes import GatewayProcess, Publisher, gateway_process
from tests.rigs.waiting import until

MESSAGES = 50
LOG = "journal.db-wal"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 8) as folder:
        yield folder


async def test_disk_full(disk: Path) -> None:
    """Publishers are refused with 503 and Retry-After; there is room again, and it goes on."""
    data = disk / "data"
    environment = {"DRAGOMAN_RETRY_DELAYS": "[0.5, 0.5, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]"}
    async with consumers() as sinks, gateway_process(data, environment) as gateway:
        there, too, behind = (sinks.add(keep=False) for _ in range(3))
        for consumer in (there, too, behind):
            await gateway.subscribe(consumer.url)
        publisher = Publisher(gateway, "a", filling=10_000)
        for _ in range(20):
            assert await publisher.publish() == 202
        await there.have(20)
        filler = fill(disk)
        # What is delivered leaves room for what comes: somebody must be behind.
        behind.behaviour = status(503)
        refused = 0
        for _ in range(300):
            answer = await asyncio.wait_for(publisher.publish(), 10)
            assert answer in (202, 503), gateway.log.read_text()
            if answer == 503:
                assert int(publisher.headers["retry-after"]) > 0
                refused += 1
        assert refused
        assert (await gateway.request("GET", "/healthz")).status == 200
        filler.unlink()
        behind.behaviour = accept
        async with asyncio.timeout(30):
            while await publisher.publish() != 202:
                pass
            while (await gateway.request("GET", "/readyz")).status != 200:
                pass
        for _ in range(20):
            assert await publisher.publish() == 202
        publisher.close()
        await gateway.at_rest()
        judge([publisher], [there, too])
        await behind.have_all(publisher.acknowledged)
        await gateway.end()
        await gateway.start()
        assert (await gateway.at_rest())["conservation_error"] == 0


@pytest.fixture
def strace() -> str:
    found = shutil.which("strace")
    if found is None or subprocess.run([found, "true"], capture_output=True).returncode:
        pytest.skip("strace is not installed, or may not trace here")
    return found


async def test_flush_before_answer(strace: str, tmp_path: Path) -> None:
    """Between the write of a message and its 202 the log is flushed."""
    trace = tmp_path / "trace"
    gateway = GatewayProcess(tmp_path / "data")
    await gateway.start(
        strace, "-D", "-f", "-y", "-s", "5000", "-o", str(trace), "-e", "signal=none",
        "-e", "trace=write,pwrite64,fdatasync,fsync,sendto,sendmsg,writev",
    )  # fmt: skip
    publisher = Publisher(gateway, "a")
    for _ in range(MESSAGES):
        assert await publisher.publish() == 202
    publisher.close()
    assert await gateway.end() == 0
    ended = re.compile(rf"^{gateway.pid} +\+\+\+ exited", re.MULTILINE)
    await until(lambda: bool(ended.search(trace.read_text(errors="replace"))))
    assert read_trace(trace) == MESSAGES


def read_trace(trace: Path) -> int:
    """How many answers 202 there were; each must follow the flush that follows the write."""
    written: set[int] = set()
    flushed: set[int] = set()
    flushing: dict[str, set[int]] = {}
    answered = 0
    for line in trace.read_text(errors="replace").splitlines():
        process, _, call = line.partition(" ")
        call = call.strip()
        if LOG in call and call.startswith("pwrite64"):
            written |= {int(number) for number in re.findall(r"urn:test:a(\d+)", call)}
        elif LOG in call and re.match(r"f(data)?sync", call):
            flushing[process] = set(written)
            if call.endswith("= 0"):
                flushed |= flushing.pop(process)
        elif re.match(r"<\.\.\. f(data)?sync resumed", call) and process in flushing:
            assert call.endswith("= 0")
            flushed |= flushing.pop(process)
        elif "HTTP/1.1 202 " in call:
            answered += 1
            assert answered in flushed, f"message {answered} was answered before it was flushed"
    return answered
