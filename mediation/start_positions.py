"""What a subscriber says to get what was published before it subscribed: ``Since`` in the namespace
`mediation.names.DRAGOMAN_POLICY`, with a time or a position of the archive.

It stands where ``Assurance`` may: in ``SubscriptionPolicy`` of WS-Notification, in ``wse:Delivery``
or ``wse:Subscribe``, also within a ``wsp:Policy``.
"""

from collections.abc import Iterable

from lxml import etree

from filters import Reason, quoted
from filters.archive_positions import Position, parse_position
from mediation import names
from mediation.model.errors import MediationError
from mediation.soap.envelopes import text_of, xml_text
from mediation.soap.policy_assertions import assertions_in

SINCE = f"{{{names.DRAGOMAN_POLICY}}}Since"
LONGEST = 4096
"""Characters of a position."""


def read_since(parts: Iterable[etree._Element]) -> Position | None:
    """Read what `SINCE` among *parts* of a Subscribe says; None where there is none.

    Raises:
        MediationError: ``POLICY_UNSUPPORTED``.
    """
    asked = list(map(text_of, assertions_in(parts, SINCE)))
    if not asked:
        return None
    if len(asked) > 1:
        raise MediationError(Reason.POLICY_UNSUPPORTED, "Subscribe says several times Since when.")
    return since_of(asked[0])


def since_of(text: str) -> Position:
    """The position that *text* names.

    Raises:
        MediationError: ``POLICY_UNSUPPORTED``.
    """
    try:
        if len(text) > LONGEST:
            raise ValueError(f"it has more than {LONGEST} characters")
        return parse_position(text)
    except (ValueError, OverflowError):
        raise MediationError(
            Reason.POLICY_UNSUPPORTED,
            f"{quoted(text)} is neither a time with its zone, such as 2026-03-01T12:00:00Z, nor a "
            "position of the archive.",
        ) from None


def write_since(since: str) -> str:
    """Write what asks for messages from *since* on; `read_since` is the inverse."""
    namespace = names.DRAGOMAN_POLICY
    return f'<drg:Since xmlns:drg="{namespace}">{xml_text(since)}</drg:Since>'
