"""The code in docs/soap-tcp.md runs as it stands."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gateway.tcp import TcpLimits
from mediation.packaging.dime import DimeLimits
from tests.gateway.tcp.test_gateway import on_tcp

PAGE = (Path(__file__).parents[3] / "docs" / "soap-tcp.md").read_text()


async def test_its_program_runs(tmp_path: Path) -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(code, names)  # noqa: S102 - it is ours
    main: Callable[[str], Awaitable[bytes]] = names["main"]
    async with on_tcp(tmp_path) as gateway:
        assert b"120" in await main(gateway.url)


def test_its_limits_are_ours() -> None:
    tcp, dime = TcpLimits(), DimeLimits()
    rows = dict(re.findall(r"^\| ([^|]*[^| ]) +\| ([^|]*[^| ]) +\|", PAGE, re.MULTILINE))
    mebibyte = 2**20
    said = {
        "a message, attachments included": f"{dime.message // mebibyte} MiB",
        "its envelope": f"{dime.envelope // mebibyte} MiB",
        "its records, chunks included": f"{dime.records:,}; {dime.empty} empty ones in succession",
        "its attachments": f"{dime.attachments}",
        "the id of a record, its type, its options": (
            f"{dime.id:,}, {dime.type:,}, {dime.options:,} octets"
        ),
        "the head of a record, from its first octet": f"{tcp.head_time:g} s",
        "a message, from its first octet": (
            f"{tcp.message_time:g} s, and after {tcp.grace:g} s no slower than"
            f" {tcp.rate / 1024:g} KiB/s"
        ),
        "a connection without a message": f"{tcp.idle:g} s",
        "messages of one connection at a time": f"{tcp.processing}",
        "answers that a peer does not read": (
            f"{tcp.queue // mebibyte} MiB, or {tcp.write_time:g} s"
        ),
        "the handshake of TLS": f"{tcp.handshake:g} s",
    }
    assert {name: rows.get(name) for name in said} == said
