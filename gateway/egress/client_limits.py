"""What one delivery over HTTP may cost, and what is kept of its answer."""

from dataclasses import dataclass

KEPT_HEADERS = frozenset(
    {
        b"content-type",
        b"content-encoding",
        b"retry-after",
        b"www-authenticate",
        b"webhook-allowed-origin",
        b"webhook-allowed-rate",
    }
)
LISTED_HEADERS = frozenset({b"www-authenticate"})
"""Of these, those of which several fields are one list."""


def keep_header(kept: dict[str, str], name: bytes, value: bytes) -> None:
    """Put a field of an answer among those that are *kept*; of several the first counts, where
    they are not one list."""
    key, text = name.decode("ascii"), value.decode("latin-1").strip()
    if name in LISTED_HEADERS and key in kept:
        text = f"{kept.pop(key)}, {text}"
    kept.setdefault(key, text)


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Limits of one delivery. Times in seconds, sizes in octets."""

    resolve: float = 5.0
    connect: float = 3.0
    exchange: float = 15.0
    """From the moment a connection is ours to use or to make, to the end of the answer."""
    head: int = 96 * 1024
    """Status line and header fields, interim answers and trailers included."""
    fields: int = 256
    interim: int = 8
    body: int = 64 * 1024
    connections: int = 8
    """To one destination."""
    idle: float = 60.0
    idle_connections: int = 1024
    """In all."""
