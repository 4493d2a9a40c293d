"""Durations and numbers in elements of WS-Management, and elements that are given back."""

import copy
import re

from lxml import etree

from filters import Reason
from mediation.model.errors import MediationError
from mediation.model.expiry import parse_duration
from mediation.soap.envelopes import elements, local_name, namespace_of, octets_of, text_of

LONGEST = 366 * 86400.0
"""Seconds as which a longer duration is read, and one in months."""
MOST_GIVEN_BACK = 16384
"""Octets of an element that is given back: a bookmark of Windows has a hundred for each channel."""
_NUMBER = re.compile(r"\+?\d{1,20}", re.ASCII)
_GREATEST = 2**31 - 1


def read_seconds(element: etree._Element) -> float:
    """Read an xsd:duration as seconds.

    Raises:
        MediationError: ``MESSAGE_INVALID``: it is not a duration.
    """
    text = text_of(element)
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise MediationError(
            Reason.MESSAGE_INVALID, f"{local_name(element)} is not a duration.", value=text[:100]
        ) from error
    return LONGEST if duration.months else min(LONGEST, duration.seconds.total_seconds())


def read_number(element: etree._Element) -> int:
    """Read a positive number.

    Raises:
        MediationError: ``MESSAGE_INVALID``: it is not a positive number.
    """
    return parse_number(text_of(element), local_name(element))


def parse_number(text: str, name: str) -> int:
    """Read the positive number *text* of what is called *name*.

    Raises:
        MediationError: ``MESSAGE_INVALID``: it is not a positive number.
    """
    if not _NUMBER.fullmatch(text.strip()) or not int(text):
        raise MediationError(
            Reason.MESSAGE_INVALID, f"{name} is not a positive number.", value=text[:100]
        )
    return min(int(text), _GREATEST)


def to_give_back(element: etree._Element) -> bytes | None:
    """Read an element that means something to its sender alone, a bookmark or a context, so that
    it can be given back; None where it is too large."""
    kept = etree.Element(element.tag, nsmap={element.prefix or "given": namespace_of(element)})
    kept.text = element.text
    kept.extend(copy.deepcopy(child) for child in elements(element))
    octets = octets_of(kept)
    return octets if len(octets) <= MOST_GIVEN_BACK else None
