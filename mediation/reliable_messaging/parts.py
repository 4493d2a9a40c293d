"""What header blocks and bodies of WS-ReliableMessaging have in common: identifiers, numbers."""

import re

from lxml import etree

from filters import Reason
from mediation.model.errors import MediationError
from mediation.reliable_messaging.values import MAX_IDENTIFIER
from mediation.reliable_messaging.versions import Rm
from mediation.soap.envelopes import text_of

_UNSIGNED_LONG = re.compile(r"\+?0*+(\d{1,20}|(?<=0))", re.ASCII)
_TOO_LARGE = 2**64


def child_of(rm: Rm, element: etree._Element, name: str) -> etree._Element | None:
    """The child with this local name; None where there is none.

    Raises:
        MediationError: ``MESSAGE_INVALID``: there are two.
    """
    found = element.findall(f"{{{rm.namespace}}}{name}")
    if len(found) > 1:
        raise MediationError(Reason.MESSAGE_INVALID, f"There are two {name} where one may be.")
    return found[0] if found else None


def identifier_in(rm: Rm, element: etree._Element) -> str:
    """The identifier of a sequence among the children of *element*.

    Raises:
        MediationError: ``MESSAGE_INVALID``: there is none, or two, or it is too long.
    """
    child = child_of(rm, element, "Identifier")
    text = "" if child is None else text_of(child)
    if not text:
        raise MediationError(Reason.MESSAGE_INVALID, "wsrm:Identifier is missing.")
    if len(text.encode()) > MAX_IDENTIFIER:
        raise MediationError(
            Reason.MESSAGE_INVALID,
            f"A wsrm:Identifier is longer than {MAX_IDENTIFIER} octets.",
            value=text[:100],
        )
    return text


def number_of(text: str, name: str) -> int:
    """Read an xs:unsignedLong, with blanks around it.

    Raises:
        MediationError: ``MESSAGE_INVALID``: it is none; *name* says of what.
    """
    found = _UNSIGNED_LONG.fullmatch(text.strip())
    number = _TOO_LARGE if found is None else int(found[1] or "0")
    if number >= _TOO_LARGE:
        raise MediationError(
            Reason.MESSAGE_INVALID, f"{name} is not an xs:unsignedLong.", value=text[:100]
        )
    return number
