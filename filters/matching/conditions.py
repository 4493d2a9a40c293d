"""From a syntax tree to a *condition*: a program of `filters.matching.plan`, with two additions.

``(UNKNOWN,)`` stands for what a program cannot say: a position, most functions, arithmetic, other
axes. What stands around it still holds, so a condition with unknowns is implied by the expression
when each of them is taken as true (and as true again under a ``NOT``). ``FIRST`` takes any test.

A node-set is a list of *routes*, one for each way in which its nodes are reached.
"""

from collections.abc import Sequence
from math import isnan
from typing import Any, NamedTuple, TypeAlias

from filters.matching.numbers import read_number
from filters.matching.plan import (
    AND,
    AT_LEAST,
    AT_MOST,
    ATTRIBUTE,
    BELOW,
    BELOW_OR_HERE,
    CONTAINS,
    DIFFERENT,
    EQUAL,
    EXISTS,
    FIRST,
    GREATER,
    HERE,
    ITSELF,
    LESS,
    NOT,
    NUMBER_DIFFERENT,
    NUMBER_EQUAL,
    OR,
    SELF,
    SOME,
    STARTS,
    TEXT,
)
from filters.xpath.functions import FUNCTIONS
from filters.xpath.parser import is_node_set
from filters.xpath.syntax import (
    Call,
    Filtered,
    Literal,
    NameTest,
    Negative,
    Node,
    Number,
    Operation,
    Path,
    Step,
)

Condition: TypeAlias = tuple[Any, ...]

YES: Condition = (AND,)
NO: Condition = (OR,)
UNKNOWN = 5
UNSURE: Condition = (UNKNOWN,)

_DOCUMENT = -1
"""A route's subject beside those of plan.py: the document node."""

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


class _Route(NamedTuple):
    """*deep*: and all nodes below those, of any kind. Unless it is *sure*, the nodes are some of
    those that it reaches, or others that are there only if it reaches one. *own* is a test that
    the predicates of a last step onto text or attributes ask for: comparison and operand."""

    absolute: bool
    steps: tuple[Any, ...] = ()
    subject: int = SELF
    namespace: str | None = None
    local: str | None = None
    deep: bool = False
    sure: bool = True
    own: tuple[int, Any] | None = None


_CONTEXT = _Route(False)
_ROOT = _Route(True, (), _DOCUMENT)
_ROOT_ELEMENT = (HERE, None, None, None)


def both(parts: Sequence[Condition]) -> Condition:
    """All of *parts*."""
    kept: list[Any] = [AND]
    for part in parts:
        if part[0] == AND:
            kept += part[1:]
        elif part == NO:
            return NO
        else:
            kept.append(part)
    return kept[1] if len(kept) == 2 else tuple(kept)


def either(parts: Sequence[Condition]) -> Condition:
    """One of *parts*."""
    kept: list[Any] = [OR]
    for part in parts:
        if part[0] == OR:
            kept += part[1:]
        elif part == YES:
            return YES
        else:
            kept.append(part)
    return kept[1] if len(kept) == 2 else tuple(kept)


def negation(part: Condition) -> Condition:
    code = part[0]
    if code == NOT:
        return part[1]  # type: ignore[no-any-return]
    if code == UNKNOWN:
        return UNSURE
    if len(part) == 1:
        return NO if code == AND else YES
    return (NOT, part)


def truth(node: Node) -> Condition:
    """When ``boolean(node)`` holds, over the context element (XPath 1.0, section 4.3)."""
    kind = type(node)
    if isinstance(node, Operation):
        operator = node.operator
        if operator == "and" or operator == "or":
            parts = [truth(operand) for operand in _operands(node)]
            return both(parts) if operator == "and" else either(parts)
        if operator == "|":
            return either([_some(route) for route in _select(node)])
        if operator in _ARITHMETIC:
            return UNSURE
        return _comparison(operator, node.left, node.right)
    if kind is Path or kind is Filtered:
        return either([_some(route) for route in _select(node)])
    if isinstance(node, Call):
        return _call(node)
    if isinstance(node, Literal):
        return YES if node.value else NO
    number = _number(node)
    if number is None:
        return UNSURE
    return YES if number else NO


def _operands(node: Operation) -> list[Node]:
    """Those of a chain of one operator, however long, without recursion."""
    found: list[Node] = [node.right]
    left = node.left
    while isinstance(left, Operation) and left.operator == node.operator:
        found.append(left.right)
        left = left.left
    found.append(left)
    found.reverse()
    return found


def _call(node: Call) -> Condition:
    name = node.function
    arguments = node.arguments
    if name == "not":
        return negation(truth(arguments[0]))
    if name == "boolean":
        return truth(arguments[0])
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
    """As `truth`; but a number is a position."""
    if isinstance(node, Call):
        return truth(node) if FUNCTIONS[node.function].gives != "number" else UNSURE
    if isinstance(node, Number | Negative):
        return UNSURE
    return truth(node)


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
    """Some of *nodes* passes."""
    test = _test(operator, operand)
    routes = _select(nodes)
    if test is None:
        return both([either([_some(route) for route in routes]), UNSURE])
    if test == NO:
        return NO
    return either([_some(route, *test) for route in routes])


def _test(operator: str, operand: str | float) -> tuple[Any, ...] | None:
    """Comparison and operand; `NO` where nothing passes, None where libxml2 alone knows."""
    if type(operand) is str:
        if operator in _STRINGS:
            return _STRINGS[operator], operand
        number = read_number(operand)
        if number is None:
            return None
        return NO if isnan(number) else (_NUMBERS[operator], number)
    return _NUMBERS[operator], operand


def _number(node: Node) -> float | None:
    """The number that *node* is at sight; None if it is none, or only libxml2 knows."""
    if isinstance(node, Number):
        return read_number(node.text)
    if isinstance(node, Negative):
        number = _number(node.operand)
        return None if number is None else -number
    return None


def _uncomputed(operator: str, left: Node, right: Node) -> Condition:
    """One side, or both, is more than a literal."""
    truths = [_boolean(side) for side in (left, right)]
    for constant, other in (truths, truths[::-1]):
        if constant in (YES, NO) and operator in _STRINGS:
            side = right if constant is truths[0] else left
            held = other if other is not None else truth(side)
            return held if (constant == YES) == (operator == "=") else negation(held)
    if any(side is not None for side in truths):
        return UNSURE
    # There must be a node on either side that gives a node-set.
    needed = [truth(side) for side in (left, right) if is_node_set(side)]
    return both([*needed, UNSURE])


def _boolean(node: Node) -> Condition | None:
    """The condition that *node* is, None where its value is no boolean."""
    if isinstance(node, Operation):
        return None if node.operator == "|" or node.operator in _ARITHMETIC else truth(node)
    if isinstance(node, Call) and FUNCTIONS[node.function].gives == "boolean":
        return truth(node)
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
    """How many there are, where that comes to whether there are any."""
    some = truth(call.arguments[0])
    none_will_do = _holds(operator, 0.0, bound)
    if isnan(bound) or bound < 1:
        any_will_do_as_one = True
    elif operator in _STRINGS:
        any_will_do_as_one = bound != int(bound)
    else:
        any_will_do_as_one = bound == 1 and operator in ("<", ">=")
    if any_will_do_as_one:
        if _holds(operator, 1.0, bound) == none_will_do:
            return YES if none_will_do else NO
        return negation(some) if none_will_do else some
    return UNSURE if none_will_do else both([some, UNSURE])


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
    """``string(...)`` compared with *operand*; that of no node is empty."""
    if (comparison == EQUAL) == (operand == ""):
        opposite = DIFFERENT if comparison == EQUAL else EQUAL
        return negation(_first(arguments, opposite, operand))
    return _first(arguments, comparison, operand)


def _numeric(arguments: tuple[Node, ...], comparison: int, operand: float) -> Condition:
    """``number(...)`` compared with *operand*; that of no node is NaN."""
    if isnan(operand):
        return YES if comparison == NUMBER_DIFFERENT else NO
    if comparison == NUMBER_DIFFERENT:
        return negation(_first(arguments, NUMBER_EQUAL, operand))
    return _first(arguments, comparison, operand)


def _first(arguments: tuple[Node, ...], comparison: int, operand: Any) -> Condition:
    """The first node is there and passes."""
    if arguments and not is_node_set(arguments[0]):
        return UNSURE
    routes = _select(arguments[0]) if arguments else [_CONTEXT]
    if len(routes) != 1 or not routes[0].sure or routes[0].own or routes[0].deep:
        return both([either([_some(route, comparison, operand) for route in routes]), UNSURE])
    route = routes[0]
    one = route.subject == _DOCUMENT or (
        not route.steps
        and (route.subject == SELF or (route.subject == ATTRIBUTE and _is_one(route)))
    )
    found = _some(route, comparison, operand)
    return found if one else (FIRST, *found[1:])


def _is_one(route: _Route) -> bool:
    """Whether an element has at most one attribute of that name."""
    return route.local is not None and route.namespace is not None


def _named(call: Call, name: str) -> Condition:
    """The context element, or the root element, has this local name, or is in this namespace."""
    namespace, local = (None, name) if call.function == "local-name" else (name, None)
    routes = _select(call.arguments[0]) if call.arguments else [_CONTEXT]
    if local == "" and routes in ([_CONTEXT], [_Route(True, (_ROOT_ELEMENT,))]):
        return NO
    if routes == [_CONTEXT]:
        return (SOME, False, ((ITSELF, namespace, local, None),), None)
    if routes == [_Route(True, (_ROOT_ELEMENT,))]:
        return (SOME, True, ((HERE, namespace, local, None),), None)
    return UNSURE


# ---- node-sets (sections 2 and 3.3) --------------------------------------------------------------


def _some(route: _Route, comparison: int = EXISTS, operand: Any = None) -> Condition:
    """Some node of *route* passes."""
    absolute, steps, subject, namespace, local, deep, sure, own = route
    if deep:
        # Nodes of all kinds: of these, programs know nothing but that there are some.
        there = _some(route._replace(deep=False))
        return there if comparison == EXISTS and sure else both([there, UNSURE])
    if own is not None:
        found: Condition = (SOME, absolute, steps, (subject, namespace, local, *own))
        return found if comparison == EXISTS and sure else both([found, UNSURE])
    if not sure and comparison != EXISTS:
        return _some(route)
    if subject == _DOCUMENT:
        if comparison == EXISTS:
            return YES if sure else UNSURE
        return (SOME, True, (_ROOT_ELEMENT,), (SELF, None, None, comparison, operand))
    if comparison == EXISTS and subject == SELF:
        found = (SOME, absolute, steps, None) if steps else YES
    else:
        found = (SOME, absolute, steps, (subject, namespace, local, comparison, operand))
    return found if sure else both([found, UNSURE])


def _select(node: Node) -> list[_Route]:
    if isinstance(node, Path):
        if node.start is not None:
            routes = _select(node.start)
        else:
            routes = [_ROOT if node.absolute else _CONTEXT]
        for step in node.steps:
            routes = _advance(routes, step)
        return routes
    if isinstance(node, Filtered):
        routes = _select(node.primary)
        wanted = _predicates(node.predicates)
        return [found for route in routes for found in _filtered(route, wanted)]
    if isinstance(node, Operation):
        return [route for operand in _operands(node) for route in _select(operand)]
    return [_CONTEXT._replace(sure=False)]


def _predicates(predicates: tuple[Node, ...]) -> Condition | None:
    if not predicates:
        return None
    wanted = both([_predicate(predicate) for predicate in predicates])
    return None if wanted == YES else wanted


_AXES = {
    "child": (HERE, BELOW),
    "descendant": (BELOW, BELOW),
    "descendant-or-self": (BELOW_OR_HERE, BELOW_OR_HERE),
    "self": (ITSELF, BELOW_OR_HERE),
}
"""The axis of a program's step from a node, and from it or any below it."""


def _advance(routes: list[_Route], step: Step) -> list[_Route]:
    """Where *step* leads from *routes*."""
    axis, test = step.axis, step.test
    wanted = _predicates(step.predicates) if step.predicates else None
    found: list[_Route] = []
    for route in routes:
        if not route.sure:
            found.append(route)
        elif isinstance(test, NameTest) and axis in _AXES:
            found += _to_elements(route, axis, test, wanted)
        elif axis == "attribute" and isinstance(test, NameTest):
            found += _to_leaves(route, ATTRIBUTE, test, wanted)
        elif not isinstance(test, NameTest) and test.kind == "text" and axis in _AXES:
            found += _to_texts(route, axis, wanted)
        elif not isinstance(test, NameTest) and test.kind == "node" and axis == "self":
            found += _filtered(route, wanted)
        elif (
            not isinstance(test, NameTest)
            and test.kind == "node"
            and axis == "descendant-or-self"
            and wanted is None
        ):
            leaf = route.subject in (TEXT, ATTRIBUTE)
            found.append(route if leaf else route._replace(deep=True))
        else:
            found.append(route._replace(sure=False))
    return found


def _to_elements(
    route: _Route, axis: str, test: NameTest, wanted: Condition | None
) -> list[_Route]:
    subject = route.subject
    if subject in (TEXT, ATTRIBUTE) or wanted == NO:
        return []
    code = _AXES[axis][route.deep]
    if subject == _DOCUMENT and code >= BELOW_OR_HERE:
        if code == ITSELF:
            return []
        code = BELOW
    step = (code, test.namespace, test.local, wanted)
    return [_Route(route.absolute, (*route.steps, step))]


def _to_leaves(
    route: _Route, subject: int, test: NameTest | None, wanted: Condition | None
) -> list[_Route]:
    """Onto attributes or text nodes."""
    if route.subject in (TEXT, ATTRIBUTE):
        return []
    steps = route.steps
    if route.deep:
        steps += ((BELOW if route.subject == _DOCUMENT else BELOW_OR_HERE, None, None, None),)
    elif route.subject == _DOCUMENT:
        return []
    namespace, local = (None, None) if test is None else (test.namespace, test.local)
    return _filtered(_Route(route.absolute, steps, subject, namespace, local), wanted)


def _to_texts(route: _Route, axis: str, wanted: Condition | None) -> list[_Route]:
    if route.subject == TEXT and axis in ("self", "descendant-or-self"):
        return _filtered(route, wanted)
    if axis == "child" or route.deep:
        return _to_leaves(route, TEXT, None, wanted)
    if axis == "self":
        return []
    return _to_leaves(route._replace(deep=True), TEXT, None, wanted)


def _filtered(route: _Route, wanted: Condition | None) -> list[_Route]:
    """*route* with a predicate, by its subject."""
    if wanted is None:
        return [route]
    if wanted == NO:
        return []
    if route.deep or not route.sure or route.subject == _DOCUMENT:
        return [route._replace(sure=False)]
    if route.subject == SELF:
        if not route.steps:
            return [_Route(route.absolute, ((ITSELF, None, None, wanted),))]
        *before, (axis, namespace, local, already) = route.steps
        held = wanted if already is None else both([already, wanted])
        return [route._replace(steps=(*before, (axis, namespace, local, held)))]
    if wanted[0] == AND:
        routes = [route]
        for part in wanted[1:]:
            routes = [found for route in routes for found in _filtered(route, part)]
        return routes
    return _filtered_leaf(route, wanted)


def _filtered_leaf(route: _Route, wanted: Condition) -> list[_Route]:
    """Text or an attribute, of which one test on its string can be said, or its local name."""
    alternatives = wanted[1:] if wanted[0] == OR else (wanted,)
    if route.own is None and all(map(_is_own, alternatives)):
        return [route._replace(own=wanted[3][3:]) for wanted in alternatives]
    if wanted[0] == SOME and route.subject == ATTRIBUTE and not wanted[1] and wanted[3] is None:
        (_, namespace, local, _), *others = wanted[2]
        # Only local-name() asks for a local name in any namespace: ``self::a`` is an element.
        if wanted[2][0][0] == ITSELF and not others and namespace is None and local is not None:
            if route.local in (None, local):
                return [route._replace(local=local)]
            return []
    return [route._replace(sure=False)]


def _is_own(wanted: Condition) -> bool:
    return (
        wanted[0] == SOME
        and not wanted[1]
        and not wanted[2]
        and wanted[3] is not None
        and wanted[3][0] == SELF
    )
