"""XML documents that a command is given by name; ``-`` is standard input."""

import sys
from pathlib import Path

from gateway.cli.errors import CommandFailed

MAX_BYTES = 2 * 1024 * 1024
"""Bytes that a gateway takes in one message."""


def read_document(name: str, shown: str, code: int = 1) -> bytes:
    """The bytes of the document *name*, `MAX_BYTES` at most.

    Raises:
        CommandFailed: It cannot be read, or is longer; the text calls it *shown*.
    """
    try:
        if name == "-":
            octets = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                octets = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CommandFailed(f"{shown}: {error.strerror}", code) from error
    if len(octets) > MAX_BYTES:
        raise CommandFailed(f"{shown}: longer than {MAX_BYTES} bytes", code)
    return octets
