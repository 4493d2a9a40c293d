"""The hop count that ends loops, and the origin that keeps them narrow.

Two gateways that subscribe to each other would hand one message on for ever. Each writes
into a delivery how many gateways it has passed; the eighth goes no further. And it writes which
event the message is a copy of (`gateway.egress.returning_events`): of many copies one is taken.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote, unquote

from filters import Reason, Refused

HOPS_HEADER = "Dragoman-Hops"
ORIGIN_HEADER = "Dragoman-Origin"
VIA_HEADER = "Dragoman-Via"
"""The addresses that an event has passed, the first one first, as Grid SOAP Events say them in a
header block."""
_LONGEST_VIA = 2048
"""Characters of these addresses; more are left out, and what comes of them counts as unsaid."""
HOPS_PROPERTY = "dragoman_hops"
"""Property of a notification that came from another gateway: how many it has passed."""
ORIGIN_PROPERTY = "dragoman_origin"
"""Property of such a notification: which event it is a copy of."""
_ORIGIN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_URN = b"urn:dragoman:hops:"
"""The beginning of the id of DIME's first record, where a message goes by SOAP.TCP, which has no
headers: all known readers accept an id, and none of them looks at it."""
MAX_HOPS = 8


class LoopRefused(Refused):
    """A message that has passed too many gateways."""

    def __init__(self, value: str) -> None:
        super().__init__(Reason.LOOP, "The message has passed too many gateways.", value=value[:64])


def read_hops(value: str | None) -> int:
    """The number of gateways that an incoming message has passed; None (no header) is 0.

    Raises:
        LoopRefused: 8 or more, or no number: a loop must not live on by garbling its count.
    """
    if value is None:
        return 0
    if not (value.isascii() and value.isdigit() and len(value) <= 2) or int(value) >= MAX_HOPS:
        raise LoopRefused(value)
    return int(value)


def hops_kept(value: str | None) -> int:
    """The number of gateways that a message from the messaging system has passed. Whoever may write
    there may write anything: too many are `MAX_HOPS`, with which it ends at the next gateway, and a
    text that is no number is 0."""
    if value is None or not (value.isascii() and value.isdigit()):
        return 0
    return MAX_HOPS if len(value) > 2 else min(MAX_HOPS, int(value))


def hops_header(hops: int) -> tuple[str, str]:
    """The header of a delivery whose message came with *hops*."""
    return HOPS_HEADER, str(hops + 1)


@lru_cache(maxsize=1024)
def with_hops(
    headers: tuple[tuple[str, str], ...], hops: int, via: str = ""
) -> tuple[tuple[str, str], ...]:
    """*headers*, `hops_header`, and the addresses that were passed, *via*, made once for all
    deliveries that have the same."""
    if not _is_said(via):
        return (*headers, hops_header(hops))
    return (*headers, hops_header(hops), (VIA_HEADER, via))


def read_via(value: str | None) -> str:
    """The addresses that a message has passed, as its header says them; empty where it says none,
    or more than may be said."""
    return " ".join(value.split()) if value and _is_said(value) else ""


def _is_said(via: str) -> bool:
    return bool(via) and len(via) <= _LONGEST_VIA and via.isascii() and via.isprintable()


def read_origin(value: str | None) -> str:
    """The origin that came with a message; empty where there is none, or none of ours."""
    return value if value and _ORIGIN.fullmatch(value) else ""


def read_origins(value: str | None, count: int) -> tuple[str, ...]:
    """The origins of *count* events that came in one message; empty where it does not say them
    all."""
    origins = tuple(map(read_origin, value.split(", "))) if value else ()
    return origins if len(origins) == count and all(origins) else ()


def join_origins(origins: Sequence[str]) -> str:
    """The origins of the events in one message, as `read_origins` reads them; empty where that is
    longer than consumers are sure to read."""
    joined = ", ".join(origins)
    return joined if len(joined) <= _LONGEST_VIA else ""


def passed_by_all(vias: Sequence[str]) -> str:
    """The addresses that each of several events has passed."""
    first, *others = map(str.split, vias)
    return " ".join([each for each in first if all(each in other for other in others)])


def hops_id(headers: Sequence[tuple[str, str]], origin: str = "") -> bytes:
    """The id of a record that says the hops and addresses in *headers* (`with_hops`) and the
    *origin*; empty where *headers* have none."""
    said = dict(headers)
    hops, via = said.get(HOPS_HEADER), said.get(VIA_HEADER)
    if hops is None:
        return b""
    parts = [hops, origin, quote(via, safe="/:")] if via else [hops, origin] if origin else [hops]
    return _URN + ":".join(parts).encode()


def hops_of_id(id_: bytes) -> tuple[str | None, str | None, str | None]:
    """The texts of hops, origin and addresses (for `read_hops`, `read_origin`, `read_via`) in the
    id of the first record of an incoming message."""
    if not id_.startswith(_URN):
        return None, None, None
    hops, _, rest = id_.removeprefix(_URN).decode("latin-1").partition(":")
    origin, _, via = rest.partition(":")
    return hops, origin or None, unquote(via) or None
