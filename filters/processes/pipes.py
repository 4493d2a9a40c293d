"""The two pipes of a killable process, on its own side: it waits for them as long as it takes."""

import os

IN, OUT = 0, 1


def read_exactly(octets: int) -> bytes | None:
    """Read *octets* bytes; None at the end of the stream."""
    buffer = bytearray()
    while len(buffer) < octets:
        piece = os.read(IN, octets - len(buffer))
        if not piece:
            return None
        buffer += piece
    return bytes(buffer)


def write_all(octets: bytes, stream: int = OUT) -> None:
    """Write *octets* to the descriptor *stream*."""
    view = memoryview(octets)
    while view:
        view = view[os.write(stream, view) :]
