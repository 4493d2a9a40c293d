"""The tokens of an XPath 1.0 expression (section 3.7, "Lexical Structure")."""

import re
from itertools import accumulate
from typing import NamedTuple

from filters.reasons import FilterError, Reason
from filters.topics.ncname import NCNAME
from filters.xpath.limits import DEFAULT_LIMITS, XPathLimits

BLANKS = " \t\r\n"

# Blanks in front belong to a token, so that tokens lie end to end: what is missing is not a token.
# Where blanks are followed by none, there is none in the middle of them either.
_TOKEN = re.compile(
    rf"""(?<![ \t\r\n])[ \t\r\n]*+(?:
      {NCNAME}(?::(?:{NCNAME}|\*))?
    | "[^"]*" | '[^']*'
    | //? | != | <= | >= | [|+\-=<>]
    | [0-9]+(?:\.[0-9]*)? | \.[0-9]+
    | :: | \.\.? | [()\[\]@,*$]
    )""",
    re.VERBOSE,
)
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""


class Tokens(NamedTuple):
    words: list[str]
    """Three empty ones follow the last."""
    ends: list[int]
    """The end of each word in the text; empty words have the end of the last one."""


def tokenize(text: str, limits: XPathLimits = DEFAULT_LIMITS) -> Tokens:
    """Take *text* apart.

    Raises:
        FilterError: ``FILTER_COSTLY`` if it is too long, ``FILTER_INVALID`` if something is not a
            token of XPath 1.0.
    """
    if len(text) > limits.octets or (
        not text.isascii() and len(text.encode(errors="surrogatepass")) > limits.octets
    ):
        raise costly("the expression is too long")
    words = _TOKEN.findall(text)
    ends = list(accumulate(map(len, words)))
    end = ends[-1] if ends else 0
    if end != len(text) and end != len(text.rstrip(BLANKS)):
        rest = _behind_tokens(text)
        raise invalid(f"the expression is not XPath 1.0{place(len(text) - len(rest))}", rest)
    if not text.isprintable() and _NO_CHARACTER.search(text):
        raise invalid("the expression has a character that XML does not allow")
    if not words:
        raise invalid("the expression is empty")
    words = [word.lstrip(BLANKS) for word in words]
    words += ("", "", "")
    ends += (end, end, end)
    return Tokens(words, ends)


def _behind_tokens(text: str) -> str:
    """Return what stands behind the last token before something that is not a token."""
    at = 0
    while found := _TOKEN.match(text, at):
        at = found.end()
    return text[at:].lstrip(BLANKS)


def place(offset: int) -> str:
    """The end of a sentence about what stands behind *offset* characters."""
    return f", at character {offset + 1}"


def invalid(text: str, value: str = "") -> FilterError:
    return FilterError(Reason.FILTER_INVALID, text, value=value)


def costly(text: str) -> FilterError:
    return FilterError(Reason.FILTER_COSTLY, text)
