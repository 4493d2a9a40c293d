"""``dragoman spool`` and ``/api/v1/spool``: what the messaging system does not take."""

import asyncio
import json
import time
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from gateway.store import spool
from tests.gateway.publishing.test_spool import message
from tests.rigs.gateways import running
from tests.rigs.programs import run
from tests.rigs.waiting import until

pytestmark = pytest.mark.slow  # Commands are processes.


async def test_what_is_refused_is_listed_shown_retried_and_discarded(tmp_path: Path) -> None:
    async with running(tmp_path / "data", adapter="memory:") as gateway:
        store = gateway.gateway.store
        refused = [(message(number), f"too {number}") for number in (1, 2, 3)]
        put = partial(spool.put_aside, refused=refused, now=time.time(), messages=100, octets=10**6)
        await store.submit(put)

        async def command(*words: str) -> CompletedProcess[str]:
            words = ("spool", *words, "--gateway", gateway.url)
            return await asyncio.to_thread(run, *words, cwd=tmp_path)

        listed = await command("list", "--state", "refused", "--output", "json")
        records = json.loads(listed.stdout)
        assert [one["message_id"] for one in records] == [f"urn:test:{n}" for n in (1, 2, 3)]
        first, second, third = (str(one["number"]) for one in records)
        table = (await command("list")).stdout
        assert all(words in table for _, words in refused)
        waiting = await command("list", "--state", "waiting", "--output", "json")
        assert json.loads(waiting.stdout) == []
        shown = (await command("show", first)).stdout
        assert "too 1" in shown and "<n>1</n>" in shown and "{urn:weather}storm" in shown

        assert (await command("retry", first)).stdout == "retried 1 message\n"

        async def left() -> bool:
            return (await gateway.gateway.spool.size()).messages == 2

        await until(left)
        assert (await command("discard", second)).stdout == "discarded 1 message\n"
        assert (await command("show", second)).returncode == 1
        for wrong in (["retry"], ["discard"], ["retry", "--all", third]):
            assert (await command(*wrong)).returncode == 2
        done = await command("discard", "--all", "--output", "json")
        assert json.loads(done.stdout) == {"discarded": 1}
        assert "The spool is empty." in (await command("list")).stderr
