"""Documents, of which a view shows the first bytes, masked."""

from pydantic import BaseModel

from gateway.observing.masking import HIDDEN, Mask


class Part(BaseModel, extra="forbid"):
    """The first bytes of a document, as text; `bytes` is how many it has."""

    text: str
    bytes: int
    whole: bool


UNSHOWN = Part(text=HIDDEN, bytes=0, whole=False)
"""A document that cannot be read, of which nothing is shown where anything is masked."""


def masked_part(octets: bytes, mask: Mask, limit: int) -> Part:
    """Show the first *limit* bytes of a document without what is masked. It takes time for a large
    one."""
    masked = mask.document(octets)
    return UNSHOWN if masked is None else part_of(masked, limit)


def part_of(octets: bytes, limit: int) -> Part:
    """Show the first *limit* bytes of a document."""
    text = octets[:limit].decode("utf-8", "replace")
    return Part(text=text, bytes=len(octets), whole=len(octets) <= limit)
