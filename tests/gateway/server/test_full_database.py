"""The disk of a PostgreSQL server is full: what was not stored is not answered as if it were."""

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.disks import fill, small_disk
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.json_mailboxes import Box
from tests.rigs.postgresql import database_on, needs_postgresql
from tests.rigs.stores import execute
from tests.rigs.waiting import until

OCTETS = 60_000
SPEAKER = Speaker()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    needs_postgresql()
    with small_disk(tmp_path / "disk", 24) as folder:
        yield folder


async def put(run: Running, box: Box, number: int) -> int:
    """Send an event that cannot be made smaller to a mailbox; the status."""
    filling = base64.b64encode(os.urandom(OCTETS)).decode()
    answer = await run.ask(SPEAKER, f"<n><f>{filling}</f>{number}</n>", box.path)
    if answer.status == 503:
        assert int(answer.headers["retry-after"]) > 0
    return answer.status


async def test_what_is_answered_is_stored(disk: Path, tmp_path: Path) -> None:
    with database_on(disk) as url:
        async with running(tmp_path / "data", store=url) as run:
            box = await Box.make(run)
            assert await put(run, box, 0) == 202
            accepted, statuses, subscribed = ["0"], [], 0
            filler = fill(disk)
            for number in range(1, 40):
                statuses.append(await put(run, box, number))
                if statuses[-1] == 202:
                    accepted.append(str(number))
                consumer = f"http://127.0.0.1:18999/{'x' * 2000}/{number}"
                answer = await run.ask(SPEAKER, SPEAKER.wsn_subscribe(consumer))
                assert answer.status in (200, 503), answer.body
                subscribed += answer.status == 200
            assert set(statuses) <= {202, 503} and 503 in statuses
            assert (await run.request("GET", "/healthz")).status == 200
            assert execute(url, "SELECT count(*) FROM subscriptions") == [(subscribed,)]
            assert len(run.gateway.subscriptions) == subscribed
            filler.unlink()
            await until(lambda: run.gateway.store.writable)
            assert await put(run, box, 99) == 202
            found: list[str] = []
            while taken := await box.take():
                found += taken
            assert found == [*accepted, "99"]
            law = await run.admin("GET", "/readyz")
            assert law.status == 200, json.loads(law.body)
