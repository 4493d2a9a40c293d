"""The limits of one XPath expression."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class XPathLimits:
    """The limits of one expression. *nesting* counts parentheses and brackets together."""

    octets: int = 4096
    operators: int = 100
    """Operators, signs and commas; the slashes are counted as steps."""
    nesting: int = 16
    steps: int = 64
    predicates: int = 32


DEFAULT_LIMITS = XPathLimits()
