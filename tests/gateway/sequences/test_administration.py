"""Sequences as operators see and end them, and what is counted."""

import asyncio
import itertools
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from mediation.reliable_messaging import FaultName
from tests.rigs.gateways import Running, running
from tests.rigs.programs import RunningGateway
from tests.rigs.programs import run as run_program
from tests.rigs.reliable_publishers import ReliablePublisher, fault_of
from tests.rigs.waiting import until

EMBEDDED = {"wsrm": "offered", "adapter": "embedded:"}


async def asked(run: Running, rest: str = "") -> Any:
    return json.loads((await run.api("GET", f"/sequences{rest}")).body)


async def test_what_is_shown(tmp_path: Path) -> None:
    async with running(tmp_path, **EMBEDDED) as run:
        publisher = ReliablePublisher(run)
        identifier = await publisher.create()
        for number in (1, 2, 4):
            await publisher.send(number)
        found = await asked(run)
        assert identifier[9:] not in json.dumps(found)
        [seen] = found["sequences"]
        shown = {name: seen[name] for name in ("state", "received", "published", "waiting")}
        assert shown == {"state": "open", "received": "1-2,4", "published": 2, "waiting": 1}
        assert (seen["owner"], seen["version"], seen["last"]) == ("trusted", "1.1", None)
        assert await asked(run, f"/{seen['id']}") == seen


async def test_pages(tmp_path: Path) -> None:
    async with running(tmp_path, **EMBEDDED) as run:
        for _ in range(5):
            await ReliablePublisher(run).create()
        found: list[str] = []
        after = ""
        while True:
            page = await asked(run, f"?limit=2&after={after}")
            found += [each["id"] for each in page["sequences"]]
            if page["next"] is None:
                break
            after = page["next"]
        assert len(found) == len(set(found)) == 5
        assert found == sorted(found)


async def test_an_operator_ends_a_sequence(tmp_path: Path) -> None:
    async with running(tmp_path, **EMBEDDED) as run:
        publisher = ReliablePublisher(run)
        await publisher.create()
        await publisher.send(1)
        [seen] = (await asked(run))["sequences"]
        assert (await run.api("DELETE", f"/sequences/{seen['id']}")).status == 204
        assert fault_of(await publisher.send(2)).name is FaultName.SEQUENCE_CLOSED
        one = await asked(run, f"/{seen['id']}")
        assert (one["state"], one["published"]) == ("ended", 1)


async def test_an_operator_ends_a_sequence_that_its_maker_goes_on_with(tmp_path: Path) -> None:
    async with running(tmp_path, **EMBEDDED) as run:
        publisher = ReliablePublisher(run)
        await publisher.create()
        numbers = itertools.count(1)
        told: list[FaultName] = []

        async def send_on() -> None:
            """Send, whatever comes back, until the sequence is said to be closed."""
            while FaultName.SEQUENCE_CLOSED not in told:
                said = await publisher.post(publisher.message(next(numbers), "<e/>"))
                if (read := publisher.read(said.body)) is not None and read.fault is not None:
                    told.append(fault_of(read).name)

        sending = [asyncio.create_task(send_on()) for _ in range(16)]
        await until(lambda: run.gateway.publishing.accepted > 50)
        [seen] = (await asked(run))["sequences"]
        async with asyncio.timeout(40):
            assert (await run.api("DELETE", f"/sequences/{seen['id']}")).status == 204
            await asyncio.gather(*sending)
        assert set(told) == {FaultName.SEQUENCE_CLOSED}
        one = await asked(run, f"/{seen['id']}")
        assert (one["state"], one["waiting"]) == ("ended", 0)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("mode", ["off", "offered"])
async def test_one_that_is_not_there(tmp_path: Path, method: str, mode: str) -> None:
    async with running(tmp_path, wsrm=mode) as run:
        assert await asked(run) == {"sequences": [], "next": None}
        assert (await run.api(method, "/sequences/5b1f0c9a3e77")).status == 404


async def test_what_is_counted(tmp_path: Path) -> None:
    async with running(tmp_path, **EMBEDDED) as run:
        publisher = ReliablePublisher(run)
        await publisher.create()
        for number in (1, 1, 2, 30_000):
            await publisher.send(number)

        async def counted() -> bool:
            text = (await run.admin("GET", "/metrics")).body.decode()
            assert 'dragoman_sequence_messages_total{outcome="published"} 2' in text
            assert 'dragoman_sequence_messages_total{outcome="repeated"} 1' in text
            assert 'dragoman_sequence_messages_total{outcome="dropped"} 1' in text
            assert 'dragoman_requests_total{operation="CreateSequence"} 1' in text
            return "dragoman_sequences 1" in text

        await until(counted)


@pytest.mark.slow
def test_the_commands(tmp_path: Path) -> None:
    (tmp_path / "event.xml").write_text("<e/>")
    arguments = ("--adapter", "embedded:", "--data", "own", "--wsrm", "offered")
    with RunningGateway(*arguments, cwd=tmp_path) as gateway:
        none = run_program("sequences", "list", "--gateway", gateway.url, cwd=tmp_path)
        assert (none.returncode, none.stderr) == (0, "There are no sequences.\n")
        gone = run_program(
            "sequences", "terminate", "5b1f0c9a3e77", "--gateway", gateway.url, cwd=tmp_path
        )
        assert gone.returncode != 0
        assert "There is no such sequence" in gone.stderr
        sent = run_program(
            "publish", "--reliable", "event.xml", "--gateway", gateway.url, cwd=tmp_path
        )
        assert sent.returncode == 0, sent.stderr
        listed = run_program(
            "sequences", "list", "--output", "json", "--gateway", gateway.url, cwd=tmp_path
        )
        [seen] = json.loads(listed.stdout)
        ended = run_program(
            "sequences", "terminate", seen["id"], "--gateway", gateway.url, cwd=tmp_path
        )
        assert (ended.returncode, ended.stdout) == (0, f"terminated {seen['id']}\n")
        assert gateway.stop(signal.SIGTERM) == 0
