"""Server-Sent Events, as they are read."""

from collections.abc import AsyncIterator

import pytest

from gateway.client.server_sent_events import read_events


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"retry: 2000\n\n:\n\n", []),
        (b"event: lost\ndata: {}\n\ndata:1\n\n", [("lost", b"{}"), ("message", b"1")]),
        (b"data: a\r\ndata: b\r\nid: 7\r\n\r\n", [("message", b"a\nb")]),
        (b"event: x\n\ndata: cut", []),
        (b"\xff: y\ndatab: z\n\n", []),
    ],
)
async def test_what_is_read(stream: bytes, events: list[tuple[str, bytes]]) -> None:
    async def lines() -> AsyncIterator[bytes]:
        for line in stream.splitlines(keepends=True):
            yield line

    assert [one async for one in read_events(lines())] == events
