"""XML documents that a command is given by name; ``-`` is standard input."""

import sys
from pathlib import Path

from gateway.cli.errors import CommandFailed

MAX_OCTETS = 2 * 1024 * 1024
"""What a gateway takes in one message."""


def read_document(name: str, shown: str, code: int = 1) -> bytes:
    """The octets of the document *name*, `MAX_OCTETS` at most.

    Raises:
        CommandFailed: It cannot be read, or is longer; the text calls it *shown*.
    """
    try:
        if name == "-":
            octets = sys.stdin.buffer.read(MAX_OCTETS + 1)
        else:
            with Path(name).open("rb") as file:
                octets = file.read(MAX_OCTETS + 1)
    except OSError as error:
        raise CommandFailed(f"{shown}: {error.strerror}", code) from error
    if len(octets) > MAX_OCTETS:
        raise CommandFailed(f"{shown}: longer than {MAX_OCTETS} octets", code)
    return octets
