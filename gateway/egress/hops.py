"""The hop count that ends loops.

Two gateways that subscribe to each other would hand one message on for ever. Each writes
into a delivery how many gateways it has passed; the eighth goes no further.
"""

from filters.reasons import Reason, Refused

HOPS_HEADER = "Dragoman-Hops"
MAX_HOPS = 8


class LoopRefused(Refused):
    """A message that has passed too many gateways."""

    def __init__(self, value: str) -> None:
        super().__init__(Reason.LOOP, "The message has passed too many gateways.", value=value[:64])


def read_hops(value: str | None) -> int:
    """How many gateways an incoming message has passed; None (no header) is 0.

    Raises:
        LoopRefused: 8 or more, or no number: a loop must not live on by garbling its count.
    """
    if value is None:
        return 0
    if not (value.isascii() and value.isdigit() and len(value) <= 2) or int(value) >= MAX_HOPS:
        raise LoopRefused(value)
    return int(value)


def hops_header(hops: int) -> tuple[str, str]:
    """The header of a delivery whose message came with *hops*."""
    return HOPS_HEADER, str(hops + 1)
