"""Reads Server-Sent Events: their fields ``event`` and ``data`` (WHATWG HTML, "Server-sent
events")."""

from collections.abc import AsyncIterator

DEFAULT = "message"
"""The name of an event that says none."""


async def read_events(lines: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, bytes]]:
    """Yield the name and the data of each event in *lines*; one without data is none."""
    name, data = DEFAULT, list[bytes]()
    async for line in lines:
        text = line.rstrip(b"\r\n")
        if not text:
            if data:
                yield name, b"\n".join(data)
            name, data = DEFAULT, []
            continue
        field, _, value = text.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value.decode("utf-8", "replace")
        elif field == b"data":
            data.append(value)
