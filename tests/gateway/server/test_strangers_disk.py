"""A stranger does not fill the disk: what it may send, and what is kept of it, is bounded in bytes."""

import os
from pathlib import Path

import pytest

from gateway.security.quotas import PrincipalRate
from gateway.store import StoreUnavailable
from gateway.store.disk_reserve import Reserve
from tests.gateway.web.test_api import SPEAKER, metrics
from tests.rigs.gateways import Running, running
from tests.rigs.json_mailboxes import Box, put


async def statuses(run: Running, path: str, filling: int, number: int) -> list[int]:
    """What a stranger is answered who sends so many events of so many bytes to *path*."""
    body = f"<a>{'x' * filling}</a>"
    return [(await run.ask(SPEAKER, body, path)).status for _ in range(number)]


@pytest.mark.parametrize("trusted", [(), ("127.0.0.0/8",)], ids=["stranger", "trusted"])
async def test_a_full_mailbox_of_a_stranger_refuses(
    tmp_path: Path, trusted: tuple[str, ...]
) -> None:
    """What a trusted peer's box has no room for makes room; a stranger's becomes no dead letter."""
    async with running(tmp_path, trusted=trusted, mailbox_messages=2) as run:
        box = await Box.make(run)
        answered = await statuses(run, box.path, 100, 5)
        letters = (await metrics(run))["dragoman_dead_letters"]
    if trusted:
        assert (answered, letters) == ([202] * 5, 3)
    else:
        assert answered == [202, 202, 503, 503, 503]  # A fault, with Retry-After.
        assert letters == 0


async def test_bytes_of_a_stranger_have_a_rate(tmp_path: Path) -> None:
    async with running(tmp_path, trusted=(), adapter="embedded:") as run:
        run.gateway.intake.bytes = PrincipalRate(1.0, 1_000_000.0, "Too many bytes.")
        assert await statuses(run, "/soap", 400_000, 4) == [202, 202, 429, 429]
        assert await statuses(run, "/soap", 1000, 1) == [202]
        box = await Box.make(run)
        assert await statuses(run, box.path, 400_000, 1) == [429]
    async with running(tmp_path, adapter="embedded:") as run:
        run.gateway.intake.bytes = PrincipalRate(1.0, 1_000_000.0, "Too many bytes.")
        assert await statuses(run, "/soap", 400_000, 4) == [202] * 4


async def test_publishers_leave_the_store_room(tmp_path: Path) -> None:
    """Whoever publishes is refused before the disk is full; what is there can be taken and ends."""
    async with running(tmp_path, adapter="embedded:") as run:
        box = await Box.make(run)
        await put(run, box.path, "before")
        disk = os.statvfs(tmp_path)
        run.gateway.reserve._octets = disk.f_blocks * disk.f_frsize
        run.gateway.reserve._room = 0
        for path in ("/soap", "/soap/topic/a", box.path):
            answer = await run.ask(SPEAKER, "<a/>", path)
            assert answer.status == 503 and int(answer.headers["retry-after"]) > 0
        assert await box.take() == ["before"]
        run.gateway.reserve._octets = 0
        run.gateway.reserve._asked = 0.0
        assert await statuses(run, "/soap", 10, 1) == [202]


def test_what_is_free_within_the_file_counts(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    more_than_there_is = 2 * disk.f_blocks * disk.f_frsize
    with pytest.raises(StoreUnavailable):
        Reserve(tmp_path, more_than_there_is).take(1)
    inside = Reserve(tmp_path, more_than_there_is, inside=lambda: more_than_there_is)
    inside.take(1)
    Reserve(None, more_than_there_is).take(2**40)
    with pytest.raises(StoreUnavailable):
        Reserve(tmp_path / "gone").take(1)
