"""The header block of our own that says when the life of an event is over: SOAP and the
specifications of events have none.

    <drg:Expires xmlns:drg="urn:dragoman:policy:1">2026-03-01T12:00:00Z</drg:Expires>

Brokers that do not know it pass it on, as any header block of the application's.
"""

from datetime import UTC, datetime

from filters import Reason
from filters.documents import parse_own
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.expiry import parse_date_time
from mediation.soap.envelopes import text_of

EXPIRES = f"{{{names.DRAGOMAN_POLICY}}}Expires"
_NAMESPACE = names.DRAGOMAN_POLICY.encode()


def take_expiry(blocks: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], datetime | None]:
    """Read when the life of an event is over, of whose header blocks these are; None: never.
    Returns the other blocks, and that.

    Raises:
        MediationError: ``MESSAGE_INVALID``: it is not an xsd:dateTime.
    """
    for block in blocks:
        if _NAMESPACE not in block:
            continue
        element = parse_own(block)
        if element.tag != EXPIRES:
            continue
        try:
            expires = parse_date_time(text_of(element))
        except ValueError:
            raise MediationError(
                Reason.MESSAGE_INVALID, "The header block Expires is not an xsd:dateTime."
            ) from None
        return tuple(one for one in blocks if one is not block), expires
    return blocks, None


def expiry_block(expires: datetime) -> bytes:
    """Write the block that says when an event *expires*; `take_expiry` is the inverse."""
    time = expires.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return f'<drg:Expires xmlns:drg="{names.DRAGOMAN_POLICY}">{time}</drg:Expires>'.encode()
