"""Documents, of which a view shows the first bytes."""

from pydantic import BaseModel


class Part(BaseModel, extra="forbid"):
    """The first bytes of a document, as text; `bytes` is how many it has."""

    text: str
    bytes: int
    whole: bool


def part_of(octets: bytes, limit: int) -> Part:
    """Show the first *limit* bytes of a document."""
    text = octets[:limit].decode("utf-8", "replace")
    return Part(text=text, bytes=len(octets), whole=len(octets) <= limit)
