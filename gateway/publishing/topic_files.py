"""The files of the setting ``topic_namespaces``, read at the start."""

from collections.abc import Sequence
from pathlib import Path

from filters import Reason, Refused
from mediation.notification.topic_namespaces import TopicNamespaces, read_topic_namespaces

MOST_BYTES = 4 * 2**20
"""Bytes of one file, at most."""


def read_namespaces(paths: Sequence[Path], *, fixed: bool = False) -> TopicNamespaces:
    """Read the topic namespaces of *paths*; with *fixed* there are no topics but theirs.

    Raises:
        Refused: A file cannot be read, or is no TopicNamespace; the text says which, and why.
    """
    try:
        return read_topic_namespaces(((str(path), _read(path)) for path in paths), fixed=fixed)
    except Refused as refused:
        raise Refused(refused.reason, f"topic_namespaces: {refused.text}") from refused


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            octets = file.read(MOST_BYTES + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise Refused(Reason.MESSAGE_INVALID, f"{path} cannot be read ({why})") from error
    if len(octets) > MOST_BYTES:
        raise Refused(Reason.TOO_LARGE, f"{path} is larger than {MOST_BYTES >> 20} MiB")
    return octets
