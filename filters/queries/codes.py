"""An XPath expression as the code that is asked of tapes (`filters.queries.tapes`).

A code is a plain tuple, (operation, value, operands, steps), and a step is (axis, test, name,
predicates); operands and predicates are codes. The numbers are those of ``kernel/tapes/code.hpp``.
"""

from enum import IntEnum, auto
from typing import Any, TypeAlias

from filters.matching.planning.numbers import read_number
from filters.xpath.parser import is_number
from filters.xpath.syntax import (
    ANY_NAME,
    ANY_NODE,
    Call,
    Filtered,
    KindTest,
    Literal,
    NameTest,
    Negative,
    Node,
    Number,
    Operation,
    Path,
    Step,
    walk,
)

Code: TypeAlias = tuple[int, Any, "tuple[Code, ...]", tuple[Any, ...]]


class _Code(IntEnum):
    LITERAL = 0
    NUMBER = auto()
    PATH = auto()
    FILTERED = auto()
    UNION = auto()
    OPERATOR = auto()
    """The first of `_OPERATORS`."""


_OPERATORS = ("or", "and", "=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "div", "mod")
_NEGATIVE = _Code.OPERATOR + len(_OPERATORS)
_CALLS = (
    "last", "position", "count", "local-name", "namespace-uri", "name", "string", "concat",
    "starts-with", "contains", "substring-before", "substring-after", "substring",
    "string-length", "normalize-space", "translate", "boolean", "not", "true", "false", "number",
    "sum", "floor", "ceiling", "round",
)  # fmt: skip
"""All functions but those that look for more than a tape has: ``id``, ``lang``."""
_AXES = (
    "self", "child", "descendant", "descendant-or-self", "parent", "ancestor", "ancestor-or-self",
    "following-sibling", "preceding-sibling", "following", "preceding", "attribute",
)  # fmt: skip
"""All axes but the one of namespaces."""
_KINDS = ("node", "text", "comment", "processing-instruction")
_ANY_NAME, _THE_NAME, _KIND = 0, 1, 2

_SLASHES = Step("descendant-or-self", ANY_NODE)
_PLACES = frozenset({"position", "last"})


def code_of(tree: Node) -> Code | None:
    """Return the code of the expression of *tree*; None if no code can say it."""
    try:
        return _code(tree)
    except _CannotSayError:
        return None


class _CannotSayError(Exception):
    """There is no code for it."""


def _code(node: Node) -> Code:
    match node:
        case Literal(value=text):
            return (_Code.LITERAL, text, (), ())
        case Number(text=text):
            number = read_number(text)
            if number is None:
                raise _CannotSayError
            return (_Code.NUMBER, number, (), ())
        case Negative(operand=operand):
            return (_NEGATIVE, None, (_code(operand),), ())
        case Operation(operator="|", left=left, right=right):
            return (_Code.UNION, None, (_code(left), _code(right)), ())
        case Operation(operator=operator, left=left, right=right):
            number = _Code.OPERATOR + _OPERATORS.index(operator)
            return (number, None, (_code(left), _code(right)), ())
        case Call(function=function, arguments=arguments):
            first = _NEGATIVE + 1
            return (first + _place(_CALLS, function), None, tuple(map(_code, arguments)), ())
        case Filtered(primary=primary, predicates=predicates):
            return (_Code.FILTERED, None, (_code(primary), *map(_code, predicates)), ())
        case Path(steps=steps, absolute=absolute, start=start):
            begin = () if start is None else (_code(start),)
            return (_Code.PATH, absolute, begin, tuple(map(_step, _shortened(steps))))


def _shortened(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return *steps* with one in place of each pair that ``//a`` stands for, where that is the
    same: not if a predicate asks for places among children."""
    found: list[Step] = []
    for step in steps:
        if (
            found
            and found[-1] == _SLASHES
            and step.axis == "child"
            and not any(map(_asks_for_place, step.predicates))
        ):
            found[-1] = Step("descendant", step.test, step.predicates)
        else:
            found.append(step)
    return tuple(found)


def _asks_for_place(predicate: Node) -> bool:
    return is_number(predicate) or any(
        isinstance(each, Call) and each.function in _PLACES
        for each in walk(predicate, predicates=False)
    )


def _step(step: Step) -> tuple[Any, ...]:
    axis = _place(_AXES, step.axis)
    predicates = tuple(map(_code, step.predicates))
    match step.test:
        case KindTest(kind=kind, target=None):
            return (axis, _KIND + _place(_KINDS, kind), None, predicates)
        case NameTest(namespace=namespace, local=local) if step.test != ANY_NAME:
            return (axis, _THE_NAME, (namespace, local), predicates)
        case NameTest():
            return (axis, _ANY_NAME, None, predicates)
    raise _CannotSayError


def _place(among: tuple[str, ...], one: str) -> int:
    if one not in among:
        raise _CannotSayError
    return among.index(one)
