"""Values of an element, and tests on them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from lxml import etree

from filters.matching.planning.numbers import read_number
from filters.matching.planning.plan import (
    AT_LEAST,
    AT_MOST,
    ATTRIBUTE,
    CONTAINS,
    DIFFERENT,
    EQUAL,
    EXISTS,
    GREATER,
    LESS,
    NUMBER_DIFFERENT,
    NUMBER_EQUAL,
    SELF,
    STARTS,
    TEXT,
    Test,
)

_string = etree.XPath("string()", smart_strings=False)


class Key(NamedTuple):
    """A subject of tests; *name* is an attribute's in Clark notation, if it is known."""

    subject: int
    namespace: str | None = None
    local: str | None = None
    name: str = ""

    @property
    def is_single(self) -> bool:
        """True if an element has at most one such value."""
        return self.subject == SELF or bool(self.name)


SELF_KEY = Key(SELF)
TEXT_KEY = Key(TEXT)

Check: TypeAlias = tuple[Key, int, Any]
"""Subject, comparison, operand."""
Checks: TypeAlias = tuple[Check, ...]


def checks_of(tests: Iterable[Test]) -> Checks:
    return tuple((_key(test), test[3], test[4]) for test in tests)


def string_of(element: etree._Element) -> str:
    """Return the string-value."""
    if len(element):
        return str(_string(element))
    return element.text or ""


def texts_of(element: etree._Element) -> Sequence[str]:
    """Return the text nodes, of which the parser leaves no two side by side. One may be empty,
    where there was ``<![CDATA[]]>``."""
    text = element.text
    if not len(element):
        return () if text is None else (text,)
    texts = (text, *(child.tail for child in element))
    return [text for text in texts if text is not None]


class Values:
    """The values of one element, each found once."""

    __slots__ = ("_element", "_string", "_texts")

    def __init__(self, element: etree._Element) -> None:
        self._element = element
        self._string: str | None = None
        self._texts: Sequence[str] | None = None

    def one(self, key: Key) -> str | None:
        """Return the value of a single-valued subject; None if there is none."""
        if key.name:
            return self._element.get(key.name)
        if self._string is None:
            self._string = string_of(self._element)
        return self._string

    def all(self, key: Key) -> Sequence[str]:
        element = self._element
        if key.subject == TEXT:
            if self._texts is None:
                self._texts = texts_of(element)
            return self._texts
        if key.is_single:
            value = self.one(key)
            return () if value is None else (value,)
        found = []
        for name, content in element.items():
            namespace, brace, local = str(name)[1:].rpartition("}")
            if (namespace if brace else "") != key.namespace and key.namespace is not None:
                continue
            if key.local is None or (local if brace else name) == key.local:
                found.append(str(content))
        return found


def passes(check: Check, values: Values) -> bool | None:
    """Return True if some value passes *check*; None if only libxml2 knows."""
    key, comparison, operand = check
    verdict: bool | None = False
    for value in values.all(key):
        one = _compare(comparison, value, operand)
        if one:
            return True
        if one is None:
            verdict = None
    return verdict


def _compare(comparison: int, value: str, operand: Any) -> bool | None:
    if comparison == EXISTS:
        return True
    if comparison == EQUAL:
        return bool(value == operand)
    if comparison == DIFFERENT:
        return bool(value != operand)
    if comparison == CONTAINS:
        return operand in value
    if comparison == STARTS:
        return value.startswith(operand)
    number = read_number(value)
    if number is None:
        return None
    if comparison == NUMBER_EQUAL:
        return bool(number == operand)
    if comparison == NUMBER_DIFFERENT:
        return bool(number != operand)
    if comparison == LESS:
        return bool(number < operand)
    if comparison == AT_MOST:
        return bool(number <= operand)
    if comparison == GREATER:
        return bool(number > operand)
    if comparison == AT_LEAST:
        return bool(number >= operand)
    low, with_low, high, with_high = operand
    if number < low or (number == low and not with_low):
        return False
    return bool(number < high or (number == high and with_high))


def _key(test: Test) -> Key:
    subject, namespace, local = test[:3]
    if subject != ATTRIBUTE:
        return SELF_KEY if subject == SELF else TEXT_KEY
    if namespace is None or local is None:
        return Key(subject, namespace, local)
    return Key(subject, namespace, local, f"{{{namespace}}}{local}" if namespace else local)
