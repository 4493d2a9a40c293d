"""Lowers a syntax tree to a condition on the context element."""

from math import isnan
from typing import Any

from filters.matching.planning.condition_algebra import (
    NO,
    UNSURE,
    YES,
    Condition,
    both,
    either,
    negation,
)
from filters.matching.planning.numbers import read_number
from filters.matching.planning.path_sets import (
    CONTEXT,
    DOCUMENT,
    ROOT_ELEMENT,
    PathSet,
    lower_node_set,
    operands,
    some_node_passes,
)
from filters.matching.planning.plan import (
    AT_LEAST,
    AT_MOST,
    ATTRIBUTE,
    CONTAINS,
    DIFFERENT,
    EQUAL,
    FIRST,
    GREATER,
    HERE,
    ITSELF,
    LESS,
    NUMBER_DIFFERENT,
    NUMBER_EQUAL,
    SELF,
    SOME,
    STARTS,
)
from filters.xpath.functions import FUNCTIONS
from filters.xpath.parser import is_node_set
from filters.xpath.syntax import Call, Filtered, Literal, Negative, Node, Number, Operation, Path

_STRINGS = {"=": EQUAL, "!=": DIFFERENT}
_NUMBERS = {
    "=": NUMBER_EQUAL,
    "!=": NUMBER_DIFFERENT,
    "<": LESS,
    "<=": AT_MOST,
    ">": GREATER,
    ">=": AT_LEAST,
}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC = frozenset(["+", "-", "*", "div", "mod"])


def lower_boolean(node: Node) -> Condition:
    """Lower ``boolean(node)`` to a condition on the context element (XPath 1.0, section 4.3)."""
    kind = type(node)
    if isinstance(node, Operation):
        operator = node.operator
        if operator == "and" or operator == "or":
            parts = [lower_boolean(operand) for operand in operands(node)]
            return both(parts) if operator == "and" else either(parts)
        if operator == "|":
            return either([some_node_passes(each) for each in lower_node_set(node, _predicate)])
        if operator in _ARITHMETIC:
            return UNSURE
        return _comparison(operator, node.left, node.right)
    if kind is Path or kind is Filtered:
        return either([some_node_passes(each) for each in lower_node_set(node, _predicate)])
    if isinstance(node, Call):
        return _call(node)
    if isinstance(node, Literal):
        return YES if node.value else NO
    number = _number(node)
    if number is None:
        return UNSURE
    return YES if number else NO


def _call(node: Call) -> Condition:
    name = node.function
    arguments = node.arguments
    if name == "not":
        return negation(lower_boolean(arguments[0]))
    if name == "boolean":
        return lower_boolean(arguments[0])
    if name == "true":
        return YES
    if name == "false":
        return NO
    if name == "contains" or name == "starts-with":
        return _substring(CONTAINS if name == "contains" else STARTS, *arguments)
    if name == "string":
        return _string(arguments, DIFFERENT, "")
    if name == "count":
        return _count(node, ">", 0.0)
    return UNSURE


def _predicate(node: Node) -> Condition:
    """Lower a predicate, as `lower_boolean`; but a number is a position, so libxml2 decides."""
    if isinstance(node, Call):
        return lower_boolean(node) if FUNCTIONS[node.function].gives != "number" else UNSURE
    if isinstance(node, Number | Negative):
        return UNSURE
    return lower_boolean(node)


# ---- comparisons (section 3.4) -------------------------------------------------------------------


def _comparison(operator: str, left: Node, right: Node) -> Condition:
    if isinstance(left, Literal | Number | Negative):
        left, right, operator = right, left, _MIRRORED[operator]
    if isinstance(right, Literal):
        if isinstance(left, Path | Filtered) or is_node_set(left):
            return _compared(left, operator, right.value)
        operand: str | float | None = right.value
    else:
        operand = _number(right)
    if operand is None:
        return _uncomputed(operator, left, right)
    if is_node_set(left):
        return _compared(left, operator, operand)
    if isinstance(left, Literal | Number | Negative):
        return _constants(left, operator, operand)
    if isinstance(left, Call):
        return _compared_call(left, operator, operand)
    return UNSURE


def _compared(nodes: Node, operator: str, operand: str | float) -> Condition:
    """Lower a comparison of a node-set with a constant: some of *nodes* passes."""
    test = _test(operator, operand)
    path_sets = lower_node_set(nodes, _predicate)
    if test is None:
        return both([either([some_node_passes(each) for each in path_sets]), UNSURE])
    if test == NO:
        return NO
    return either([some_node_passes(each, *test) for each in path_sets])


def _test(operator: str, operand: str | float) -> tuple[Any, ...] | None:
    """Return comparison and operand; `NO` if nothing passes, None if only libxml2 knows."""
    if type(operand) is str:
        if operator in _STRINGS:
            return _STRINGS[operator], operand
        number = read_number(operand)
        if number is None:
            return None
        return NO if isnan(number) else (_NUMBERS[operator], number)
    return _NUMBERS[operator], operand


def _number(node: Node) -> float | None:
    """The number that *node* is at sight; None if it is not a number, or only libxml2 knows."""
    if isinstance(node, Number):
        return read_number(node.text)
    if isinstance(node, Negative):
        number = _number(node.operand)
        return None if number is None else -number
    return None


def _uncomputed(operator: str, left: Node, right: Node) -> Condition:
    """Lower a comparison without a constant side."""
    lowered = [_boolean(side) for side in (left, right)]
    for constant, other in (lowered, lowered[::-1]):
        if constant in (YES, NO) and operator in _STRINGS:
            side = right if constant is lowered[0] else left
            held = other if other is not None else lower_boolean(side)
            return held if (constant == YES) == (operator == "=") else negation(held)
    if any(side is not None for side in lowered):
        return UNSURE
    # A comparison of node-sets is only true if there is a node on each of these sides.
    needed = [lower_boolean(side) for side in (left, right) if is_node_set(side)]
    return both([*needed, UNSURE])


def _boolean(node: Node) -> Condition | None:
    """Lower *node* if its value is a boolean; else return None."""
    if isinstance(node, Operation):
        return None if node.operator == "|" or node.operator in _ARITHMETIC else lower_boolean(node)
    if isinstance(node, Call) and FUNCTIONS[node.function].gives == "boolean":
        return lower_boolean(node)
    return None


def _constants(left: Node, operator: str, right: str | float) -> Condition:
    value = left.value if isinstance(left, Literal) else _number(left)
    if type(value) is str and type(right) is str and operator in _STRINGS:
        return YES if (value == right) == (operator == "=") else NO
    numbers = [read_number(side) if type(side) is str else side for side in (value, right)]
    if numbers[0] is None or numbers[1] is None:
        return UNSURE
    return YES if _holds(operator, float(numbers[0]), float(numbers[1])) else NO


def _holds(operator: str, left: float, right: float) -> bool:
    if operator == "=":
        return left == right
    if operator == "!=":
        return left != right
    if operator == "<":
        return left < right
    if operator == "<=":
        return left <= right
    return left > right if operator == ">" else left >= right


def _compared_call(call: Call, operator: str, operand: str | float) -> Condition:
    name = call.function
    if name == "count":
        number = read_number(operand) if type(operand) is str else operand
        return UNSURE if number is None else _count(call, operator, float(number))
    if name == "string" and type(operand) is str and operator in _STRINGS:
        return _string(call.arguments, _STRINGS[operator], operand)
    if name in ("string", "number"):
        number = read_number(operand) if type(operand) is str else float(operand)
        if number is None:
            return UNSURE
        return _numeric(call.arguments, _NUMBERS[operator], number)
    if name in ("local-name", "namespace-uri") and type(operand) is str and operator in _STRINGS:
        named = _named(call, operand)
        return named if operator == "=" else negation(named)
    return UNSURE


def _count(call: Call, operator: str, bound: float) -> Condition:
    """Lower a comparison of ``count()``, if it comes to whether there are any."""
    exists = lower_boolean(call.arguments[0])
    none_will_do = _holds(operator, 0.0, bound)
    if isnan(bound) or bound < 1:
        alike = True
    elif operator in _STRINGS:
        alike = bound != int(bound)
    else:
        alike = bound == 1 and operator in ("<", ">=")
    if not alike:
        # Counts over 0 differ.
        return UNSURE if none_will_do else both([exists, UNSURE])
    if _holds(operator, 1.0, bound) == none_will_do:
        return YES if none_will_do else NO
    return negation(exists) if none_will_do else exists


# ---- functions of the first node (section 4.2) ---------------------------------------------------


def _substring(comparison: int, whole: Node, part: Node) -> Condition:
    if not isinstance(part, Literal):
        return UNSURE
    if not part.value:
        return YES
    if isinstance(whole, Literal):
        if comparison == CONTAINS:
            return YES if part.value in whole.value else NO
        return YES if whole.value.startswith(part.value) else NO
    if isinstance(whole, Call) and whole.function == "string":
        return _first(whole.arguments, comparison, part.value)
    return _first((whole,), comparison, part.value)


def _string(arguments: tuple[Node, ...], comparison: int, operand: str) -> Condition:
    """Lower ``string(...)`` compared with *operand*; the string of no node is empty."""
    if (comparison == EQUAL) == (operand == ""):
        opposite = DIFFERENT if comparison == EQUAL else EQUAL
        return negation(_first(arguments, opposite, operand))
    return _first(arguments, comparison, operand)


def _numeric(arguments: tuple[Node, ...], comparison: int, operand: float) -> Condition:
    """Lower ``number(...)`` compared with *operand*; the number of no node is NaN."""
    if isnan(operand):
        return YES if comparison == NUMBER_DIFFERENT else NO
    if comparison == NUMBER_DIFFERENT:
        return negation(_first(arguments, NUMBER_EQUAL, operand))
    return _first(arguments, comparison, operand)


def _first(arguments: tuple[Node, ...], comparison: int, operand: Any) -> Condition:
    """Lower a test on the first node: it is there and passes."""
    if arguments and not is_node_set(arguments[0]):
        return UNSURE
    path_sets = lower_node_set(arguments[0], _predicate) if arguments else [CONTEXT]
    if len(path_sets) != 1 or not path_sets[0].sure or path_sets[0].own or path_sets[0].deep:
        return both(
            [
                either([some_node_passes(each, comparison, operand) for each in path_sets]),
                UNSURE,
            ]
        )
    path_set = path_sets[0]
    one = path_set.subject == DOCUMENT or (
        not path_set.steps
        and (path_set.subject == SELF or (path_set.subject == ATTRIBUTE and is_one(path_set)))
    )
    found = some_node_passes(path_set, comparison, operand)
    return found if one else (FIRST, *found[1:])


def is_one(path_set: PathSet) -> bool:
    """Return True if an element has at most one attribute of that name."""
    return path_set.local is not None and path_set.namespace is not None


def _named(call: Call, name: str) -> Condition:
    """Lower a test on the name: the context element, or the root element, has this local name, or
    is in this namespace."""
    namespace, local = (None, name) if call.function == "local-name" else (name, None)
    path_sets = lower_node_set(call.arguments[0], _predicate) if call.arguments else [CONTEXT]
    if local == "" and path_sets in ([CONTEXT], [PathSet(True, (ROOT_ELEMENT,))]):
        return NO
    if path_sets == [CONTEXT]:
        return (SOME, False, ((ITSELF, namespace, local, None),), None)
    if path_sets == [PathSet(True, (ROOT_ELEMENT,))]:
        return (SOME, True, ((HERE, namespace, local, None),), None)
    return UNSURE
