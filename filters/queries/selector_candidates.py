"""The things that a message selector can be true of, by the indexes of their properties.

What is found holds all of which the selector is true, and others too; only the selector decides.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import NamedTuple

from filters.queries.postings import Property
from filters.queries.selector_evaluation import pattern_test
from filters.queries.selector_syntax import (
    And,
    Arithmetic,
    Comparison,
    Identifier,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Node,
    Not,
    Or,
)


class Candidates(NamedTuple):
    """At most *number* things, which *find* finds."""

    number: int
    find: Callable[[], Iterable[int]]


_NOBODY = Candidates(0, tuple)
_ORDERINGS = frozenset(("<", "<=", ">", ">="))


def candidates(node: Node, properties: Mapping[str, Property]) -> Candidates | None:
    """Return what *node* can be true of; None if that is any thing."""
    match node:
        case And(operands):
            return _of_all(operands, properties)
        case Or(operands):
            found = [candidates(operand, properties) for operand in operands]
            some = [one for one in found if one is not None]
            return _union(some) if len(some) == len(found) else None
        case Comparison("=", Identifier(name), Literal(value)):
            if name not in properties:
                return _NOBODY
            numbers = properties[name].having(value)
            return Candidates(len(numbers), lambda: numbers)
        case Comparison(operator, Identifier(name), Literal()) if operator in _ORDERINGS:
            return _in_range(name, *_range(node), properties)
        case In(name, values):
            return _union([_having(name, value, properties) for value in set(values)])
        case Like():
            return _matching(node, properties)
        case Identifier(name):
            return _having(name, True, properties)
        case Literal(value):
            return None if value else _NOBODY
        case Comparison() | Not(Comparison() | In() | Like() | Identifier() | IsNull()):
            # Unknown or false where one of the names is NULL.
            holders = [_holders(name, properties) for name in _names(node)]
            return min(holders, key=lambda one: one.number, default=None)
        case _:
            return None


def _of_all(operands: tuple[Node, ...], properties: Mapping[str, Property]) -> Candidates | None:
    """Return the fewest that one of *operands* leaves; bounds of one property are one range."""
    ranges: dict[str, tuple[float, float]] = {}
    found: list[Candidates | None] = []
    for operand in operands:
        match operand:
            case Comparison(operator, Identifier(name), Literal()) if operator in _ORDERINGS:
                low, high = _range(operand)
                lowest, highest = ranges.get(name, (-inf, inf))
                ranges[name] = max(low, lowest), min(high, highest)
            case _:
                found.append(candidates(operand, properties))
    for name, (low, high) in ranges.items():
        found.append(_in_range(name, low, high, properties))
    some = [one for one in found if one is not None]
    return min(some, key=lambda one: one.number, default=None)


def _range(comparison: Comparison) -> tuple[float, float]:
    """Return the bounds of a comparison of a property with a number, both included."""
    assert isinstance(comparison.right, Literal)
    value = comparison.right.value
    if isinstance(value, str):
        return inf, -inf
    return (-inf, value) if comparison.operator[0] == "<" else (value, inf)


def _in_range(name: str, low: float, high: float, properties: Mapping[str, Property]) -> Candidates:
    if name not in properties:
        return _NOBODY
    numbers = properties[name].between(low, high)
    return Candidates(len(numbers), lambda: [number for _, number in numbers])


def _matching(like: Like, properties: Mapping[str, Property]) -> Candidates:
    if like.name not in properties:
        return _NOBODY
    texts = properties[like.name].texts()
    if texts is None:
        return _holders(like.name, properties)
    matches = pattern_test(like)
    found = [numbers for text, numbers in texts if matches(text)]
    return Candidates(
        sum(map(len, found)), lambda: [number for numbers in found for number in numbers]
    )


def _having(name: str, value: str | float, properties: Mapping[str, Property]) -> Candidates:
    if name not in properties:
        return _NOBODY
    numbers = properties[name].having(value)
    return Candidates(len(numbers), lambda: numbers)


def _holders(name: str, properties: Mapping[str, Property]) -> Candidates:
    if name not in properties:
        return _NOBODY
    numbers = properties[name].holders
    return Candidates(len(numbers), lambda: numbers)


def _union(some: list[Candidates]) -> Candidates:
    number = sum(one.number for one in some)
    return Candidates(number, lambda: {number for one in some for number in one.find()})


def _names(node: Node) -> Iterator[str]:
    """Return the properties in a predicate."""
    match node:
        case Identifier(name) | In(name) | Like(name) | IsNull(name):
            yield name
        case Not(operand) | Negative(operand):
            yield from _names(operand)
        case Comparison(_, left, right) | Arithmetic(_, left, right):
            yield from _names(left)
            yield from _names(right)
