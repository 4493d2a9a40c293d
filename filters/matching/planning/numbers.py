"""Reads the number that a text is, as libxml2's ``number()`` does.

XPath 1.0, section 4.4, takes blanks, an optional minus, digits with at most one point, blanks; all
else is NaN. Libxml2 (``xmlXPathStringEvalNumber``) takes an exponent too (``1e5``, and ``1e`` as
1), and past 15 digits it rounds more than once. Both occur in real messages, so such texts are
*doubtful*: only libxml2 knows their number.
"""

import re
from math import nan

MAX_DIGITS = 15
"""The most digits, leading and trailing zeros included, for which every intermediate sum is
exact."""

_NUMBER = re.compile(
    r"[ \t\r\n]*+(-?)(?:([0-9]++)\.?([0-9]*+)|\.([0-9]++))(?:([eE])|[ \t\r\n]*+\Z)"
)


def read_number(text: str) -> float | None:
    """Return the number that *text* is for libxml2: NaN if it is none, None if it is doubtful.

    In order: skip blanks (space, tab, CR, LF), take ``-``, digits, and a point with digits; there
    must be a digit before or behind the point, else NaN. If ``e`` or ``E`` follows, doubtful,
    whatever comes then. If anything but blanks follows, NaN. Over `MAX_DIGITS` digits, doubtful.
    Else the value is ``whole + fraction / 10**digits_of_the_fraction``, each operation one rounding
    of IEEE 754 doubles, negated at the end.
    """
    found = _NUMBER.match(text)
    if found is None:
        return nan
    minus, whole, fraction, bare, exponent = found.groups("")
    fraction = fraction or bare
    if exponent or len(whole) + len(fraction) > MAX_DIGITS:
        return None
    value = float(whole or "0")
    if fraction:
        value += float(fraction) / 10.0 ** len(fraction)
    return -value if minus else value
