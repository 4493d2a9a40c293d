"""The evaluation of message selectors: syntax trees as functions of the properties.

A condition is True, False, or None for unknown; a value is None for NULL. What cannot be calculated
(a division by zero, a number that is too large) is NULL.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

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
    Value,
)

Properties: TypeAlias = Mapping[str, Value]
Condition: TypeAlias = Callable[[Properties], bool | None]
_Operand: TypeAlias = Callable[[Properties], Value | None]
_Number: TypeAlias = int | float

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NUMBER, TEXT, BOOLEAN = range(3)


def kind_of(value: Value) -> int:
    """Return the kind of *value*: values of one kind alone can be equal."""
    if isinstance(value, bool):
        return BOOLEAN
    return TEXT if isinstance(value, str) else NUMBER


def compile_condition(node: Node) -> Condition:
    """Compile *node*, which is a condition."""
    match node:
        case And(operands):
            return _and(tuple(map(compile_condition, operands)))
        case Or(operands):
            return _or(tuple(map(compile_condition, operands)))
        case Not(operand):
            return _not(compile_condition(operand))
        case Comparison(comparison, Identifier(name), Literal(value)):
            return _compare_with(comparison, name, value)
        case Comparison(comparison, left, right):
            return _compare(comparison, _compile_value(left), _compile_value(right))
        case IsNull(name):
            return lambda properties: properties.get(name) is None
        case In(name, values):
            return _is_in(name, frozenset((kind_of(value), value) for value in values))
        case Like():
            return _like(node)
        case Identifier(name):
            return lambda properties: _truth(properties.get(name))
        case Literal(value):
            return lambda properties: value is True
    raise TypeError(node)


def pattern_test(like: Like) -> Callable[[str], bool]:
    """Return a function that says whether a text matches *like*, in time that does not grow faster
    than the product of both lengths."""
    first, *others = like.parts
    if not others:
        whole = _part(first)
        return lambda text: whole.fullmatch(text) is not None
    *middle, last = others
    begins, ends, length = _part(first), _part(last), len(last)
    inner = tuple(_part(part) for part in middle if part)

    def matches(text: str) -> bool:
        found = begins.match(text)
        if found is None:
            return False
        # Each part where it first occurs: what is behind it is then the most that there can be.
        for part in inner:
            found = part.search(text, found.end())
            if found is None:
                return False
        start = len(text) - length
        return start >= found.end() and ends.match(text, start) is not None

    return matches


def _part(part: tuple[str | None, ...]) -> "re.Pattern[str]":
    """A pattern without repetition, so that there is nothing to go back to."""
    return re.compile("".join("." if one is None else re.escape(one) for one in part), re.DOTALL)


def _and(operands: tuple[Condition, ...]) -> Condition:
    def condition(properties: Properties) -> bool | None:
        known: bool | None = True
        for operand in operands:
            verdict = operand(properties)
            if verdict is False:
                return False
            if verdict is None:
                known = None
        return known

    return condition


def _or(operands: tuple[Condition, ...]) -> Condition:
    def condition(properties: Properties) -> bool | None:
        known: bool | None = False
        for operand in operands:
            verdict = operand(properties)
            if verdict:
                return True
            if verdict is None:
                known = None
        return known

    return condition


def _not(operand: Condition) -> Condition:
    def condition(properties: Properties) -> bool | None:
        verdict = operand(properties)
        return None if verdict is None else not verdict

    return condition


def _truth(value: Value | None) -> bool | None:
    return None if value is None else value is True


def _compare_with(comparison: str, name: str, value: Value) -> Condition:
    compare, kind = _COMPARE[comparison], kind_of(value)

    def condition(properties: Properties) -> bool | None:
        found = properties.get(name)
        if found is None:
            return None
        return kind_of(found) == kind and compare(found, value)

    return condition


def _compare(comparison: str, left: _Operand, right: _Operand) -> Condition:
    compare = _COMPARE[comparison]
    ordering = comparison not in ("=", "<>")

    def condition(properties: Properties) -> bool | None:
        one, other = left(properties), right(properties)
        if one is None or other is None:
            return None
        kind = kind_of(one)
        if kind != kind_of(other) or (ordering and kind != NUMBER):
            return False
        return compare(one, other)

    return condition


def _is_in(name: str, values: frozenset[tuple[int, Value]]) -> Condition:
    def condition(properties: Properties) -> bool | None:
        found = properties.get(name)
        return None if found is None else (kind_of(found), found) in values

    return condition


def _like(like: Like) -> Condition:
    name, matches = like.name, pattern_test(like)

    def condition(properties: Properties) -> bool | None:
        found = properties.get(name)
        if found is None:
            return None
        return isinstance(found, str) and matches(found)

    return condition


def _compile_value(node: Node) -> _Operand:
    match node:
        case Literal(value):
            return lambda properties: value
        case Identifier(name):
            return lambda properties: properties.get(name)
        case Negative(operand):
            return _calculate(operator.neg, _compile_value(operand))
        case Arithmetic("/", left, right):
            return _calculate(_divide, _compile_value(left), _compile_value(right))
        case Arithmetic(sign, left, right):
            return _calculate(_ARITHMETIC[sign], _compile_value(left), _compile_value(right))
    raise TypeError(node)


_ARITHMETIC: Mapping[str, Callable[..., _Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def _divide(left: _Number, right: _Number) -> _Number:
    """Of integers, the integer towards zero, as SQL and Java have it."""
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return left / right


def _calculate(function: Callable[..., _Number], *operands: _Operand) -> _Operand:
    def value(properties: Properties) -> Value | None:
        numbers = [operand(properties) for operand in operands]
        for number in numbers:
            if number is None or isinstance(number, bool | str):
                return None
        try:
            result = function(*numbers)
        except (ArithmeticError, OverflowError):
            return None
        return result if isinstance(result, int) or math.isfinite(result) else None

    return value
