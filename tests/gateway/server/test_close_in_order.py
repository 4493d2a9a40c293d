"""What a whole gateway still does for rooms that are being closed, and what they leave behind."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from gateway.identities.room import AuditRoom
from gateway.replicas.room import SharingRoom
from gateway.rooms import Room
from gateway.security.audit_chain import AuditUnusable, read_records
from gateway.server.process import listen, serve
from gateway.settings.settings import Settings
from tests.gateway.soap.test_username_tokens import make_file
from tests.rigs.gateways import Running, running

GOT = "gave us a receipt"


def rooms_behind(run: Running, kind: type[Room]) -> list[Room]:
    """The rooms that are closed before the one of this *kind*."""
    rooms = list(run.gateway.application.rooms)
    return rooms[next(n for n, room in enumerate(rooms) if isinstance(room, kind)) + 1 :]


async def test_receipts_are_kept_whichever_room_is_being_closed(tmp_path: Path) -> None:
    """An attempt that ends while its room is closed waits until its receipt is on the disk."""
    async with running(tmp_path / "data", identities=make_file(tmp_path)) as run:
        [identity] = [room for room in run.gateway.application.rooms if isinstance(room, AuditRoom)]
        behind = rooms_behind(run, AuditRoom)
        assert any(isinstance(room, SharingRoom) for room in behind)
        for number, room in enumerate(behind):

            async def keep_and_close(number: int = number, room: Room = room) -> None:
                await identity._audit.keep("cert:CN=ward", "", GOT, f"urn:{number}", b"<receipt/>")
                await type(room).close(room)

            room.close = keep_and_close  # type: ignore[method-assign]
    records = read_records(tmp_path / "data" / "audit.jsonl")
    did = [(one["did"], one["what"]) for one in records]
    kept = [what for text, what in did if text == GOT]
    assert kept == [f"urn:{number}" for number in reversed(range(len(behind)))]
    assert did[-1][0] == "stopped the gateway"


async def test_a_gateway_that_does_not_start_leaves_its_folder_to_the_next(tmp_path: Path) -> None:
    """The room that fails starts before the one that has the store and the lock of the folder."""
    settings = Settings(
        adapter="memory:",
        data=tmp_path / "data",
        identities=make_file(tmp_path),
        audit=tmp_path / "missing" / "audit.jsonl",
    )
    for _ in range(2):
        with (
            contextlib.closing(listen("127.0.0.1", 0)) as listener,
            pytest.raises(AuditUnusable),
        ):
            await serve(settings, listener, stop=asyncio.Event())
