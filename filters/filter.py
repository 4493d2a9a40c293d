"""A filter as a subscriber wrote it: any number of expressions, all of which must hold."""

from dataclasses import dataclass

from filters.dialects import XPATH_1_0
from filters.events import PAYLOAD, View

Namespaces = tuple[tuple[str, str], ...]
"""Prefixes in scope where an expression was written, sorted: ((prefix, URI), ...). The default
namespace has the prefix ``""``; XPath and topic expressions ignore it."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition: its text and all that its meaning depends on.

    *view* is the document that a content expression is evaluated over.
    """

    text: str
    dialect: str = XPATH_1_0
    namespaces: Namespaces = ()
    view: View = PAYLOAD


@dataclass(frozen=True, slots=True)
class Filter:
    """Topic expressions, content expressions, and others (over the action or the properties).

    All must hold; a filter without any matches everything.
    """

    topics: tuple[Expression, ...] = ()
    contents: tuple[Expression, ...] = ()
    others: tuple[Expression, ...] = ()

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return self.topics + self.contents + self.others


EVERYTHING = Filter()
