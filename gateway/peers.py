"""Who is on the other side of a request."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """A principal. An anonymous one is its network address; *trusted* peers are bound by the
    limits over all alone."""

    address: str
    trusted: bool

    @property
    def owner(self) -> str:
        return f"anonymous:{self.address}"

    @property
    def source(self) -> str:
        """The scope of the ids of what it publishes."""
        return f"urn:dragoman:publisher:{self.address}"
