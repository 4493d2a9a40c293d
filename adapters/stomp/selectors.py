"""Message selectors of JMS, which ActiveMQ evaluates.

Strangers write them, and the broker evaluates them for every message. So only the syntax of JMS is
let through: no XPATH or XQUERY, which parse the body, no functions (REGEX, SPLIT), and no comments,
which could hide them.
"""

import re

from filters import FilterError, Reason

MAX_OCTETS = 2048
MAX_DEPTH = 32

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^'\x00-\x1f]|'')*')
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[lLfFdD]?)
      | (?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<open>\()
      | (?P<close>\))
      | (?P<sign><>|<=|>=|-(?!-)|/(?!\*)|[=<>+*,])
    )""",
    re.VERBOSE | re.ASCII,
)
_WORDS = frozenset({"AND", "BETWEEN", "ESCAPE", "IN", "IS", "LIKE", "NOT", "NULL", "OR"})
"""Words after which a string or a parenthesis may stand; neither may stand after the name of a
property."""


def check_selector(text: str) -> str:
    """Return *text* without white space around it, if it may go to the broker.

    All properties of a message are texts; over STOMP ActiveMQ compares one with a number by its
    value.

    Raises:
        FilterError: ``FILTER_INVALID``, ``FILTER_COSTLY``. What it lets through the broker may
            still refuse.
    """
    text = text.strip()
    if len(text.encode(errors="replace")) > MAX_OCTETS:
        raise FilterError(Reason.FILTER_COSTLY, f"the selector exceeds {MAX_OCTETS} octets")
    place = depth = 0
    follows_name = False
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            raise _invalid(text)
        kind = token.lastgroup
        if follows_name and kind in ("text", "open"):
            raise _invalid(text)
        depth += (kind == "open") - (kind == "close")
        if depth > MAX_DEPTH:
            raise FilterError(Reason.FILTER_COSTLY, "the selector is nested too deeply")
        follows_name = kind == "word" and token["word"].upper() not in _WORDS
        place = token.end()
    if not text or depth:
        raise _invalid(text)
    return text


def _invalid(text: str) -> FilterError:
    return FilterError(
        Reason.FILTER_INVALID, "the filter is not a JMS message selector", value=text
    )
