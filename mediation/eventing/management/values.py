"""Durations and numbers in elements of WS-Management."""

import re

from lxml import etree

from filters import Reason
from mediation.model.errors import MediationError
from mediation.model.expiry import parse_duration
from mediation.soap.envelopes import local_name, text_of

LONGEST = 366 * 86400.0
"""Seconds as which a longer duration is read, and one in months."""
_NUMBER = re.compile(r"\+?\d{1,20}", re.ASCII)
_GREATEST = 2**31 - 1


def read_seconds(element: etree._Element) -> float:
    """Read an xsd:duration as seconds.

    Raises:
        MediationError: ``MESSAGE_INVALID``: it is none.
    """
    text = text_of(element)
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise MediationError(
            Reason.MESSAGE_INVALID, f"{local_name(element)} is no duration.", value=text[:100]
        ) from error
    return LONGEST if duration.months else min(LONGEST, duration.seconds.total_seconds())


def read_number(element: etree._Element) -> int:
    """Read a positive number.

    Raises:
        MediationError: ``MESSAGE_INVALID``: it is none.
    """
    return parse_number(text_of(element), local_name(element))


def parse_number(text: str, name: str) -> int:
    """Read the positive number *text* of what is called *name*.

    Raises:
        MediationError: ``MESSAGE_INVALID``: it is none.
    """
    if not _NUMBER.fullmatch(text.strip()) or not int(text):
        raise MediationError(
            Reason.MESSAGE_INVALID, f"{name} is no positive number.", value=text[:100]
        )
    return min(int(text), _GREATEST)
