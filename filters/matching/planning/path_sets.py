"""Node-sets, as the ways in which their nodes are reached."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from filters.matching.planning.conditions import NO, UNSURE, YES, Condition, both
from filters.matching.planning.plan import (
    AND,
    ATTRIBUTE,
    BELOW,
    BELOW_OR_HERE,
    EXISTS,
    HERE,
    ITSELF,
    OR,
    SELF,
    SOME,
    TEXT,
)
from filters.xpath.syntax import Filtered, NameTest, Node, Operation, Path, Step

DOCUMENT = -1
"""A route's subject beside those of plan.py: the document node."""


class Route(NamedTuple):
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


CONTEXT = Route(False)
ROOT = Route(True, (), DOCUMENT)
ROOT_ELEMENT = (HERE, None, None, None)

Holds: TypeAlias = Callable[[Node], Condition]
"""What a predicate asks of an element."""


def some(route: Route, comparison: int = EXISTS, operand: Any = None) -> Condition:
    """Some node of *route* passes."""
    absolute, steps, subject, namespace, local, deep, sure, own = route
    if deep:
        # Nodes of all kinds: of these, programs know nothing but that there are some.
        there = some(route._replace(deep=False))
        return there if comparison == EXISTS and sure else both([there, UNSURE])
    if own is not None:
        found: Condition = (SOME, absolute, steps, (subject, namespace, local, *own))
        return found if comparison == EXISTS and sure else both([found, UNSURE])
    if not sure and comparison != EXISTS:
        return some(route)
    if subject == DOCUMENT:
        if comparison == EXISTS:
            return YES if sure else UNSURE
        return (SOME, True, (ROOT_ELEMENT,), (SELF, None, None, comparison, operand))
    if comparison == EXISTS and subject == SELF:
        found = (SOME, absolute, steps, None) if steps else YES
    else:
        found = (SOME, absolute, steps, (subject, namespace, local, comparison, operand))
    return found if sure else both([found, UNSURE])


def select(node: Node, holds: Holds) -> list[Route]:
    """The routes to the nodes of *node*, a node-set (sections 2 and 3.3)."""
    if isinstance(node, Path):
        if node.start is not None:
            routes = select(node.start, holds)
        else:
            routes = [ROOT if node.absolute else CONTEXT]
        for step in node.steps:
            routes = _advance(routes, step, holds)
        return routes
    if isinstance(node, Filtered):
        routes = select(node.primary, holds)
        wanted = _predicates(node.predicates, holds)
        return [found for route in routes for found in _filtered(route, wanted)]
    if isinstance(node, Operation):
        return [route for operand in operands(node) for route in select(operand, holds)]
    return [CONTEXT._replace(sure=False)]


def _predicates(predicates: tuple[Node, ...], holds: Holds) -> Condition | None:
    if not predicates:
        return None
    wanted = both([holds(predicate) for predicate in predicates])
    return None if wanted == YES else wanted


_AXES = {
    "child": (HERE, BELOW),
    "descendant": (BELOW, BELOW),
    "descendant-or-self": (BELOW_OR_HERE, BELOW_OR_HERE),
    "self": (ITSELF, BELOW_OR_HERE),
}
"""The axis of a program's step from a node, and from it or any below it."""


def _advance(routes: list[Route], step: Step, holds: Holds) -> list[Route]:
    """Where *step* leads from *routes*."""
    axis, test = step.axis, step.test
    wanted = _predicates(step.predicates, holds) if step.predicates else None
    found: list[Route] = []
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


def _to_elements(route: Route, axis: str, test: NameTest, wanted: Condition | None) -> list[Route]:
    subject = route.subject
    if subject in (TEXT, ATTRIBUTE) or wanted == NO:
        return []
    code = _AXES[axis][route.deep]
    if subject == DOCUMENT and code >= BELOW_OR_HERE:
        if code == ITSELF:
            return []
        code = BELOW
    step = (code, test.namespace, test.local, wanted)
    return [Route(route.absolute, (*route.steps, step))]


def _to_leaves(
    route: Route, subject: int, test: NameTest | None, wanted: Condition | None
) -> list[Route]:
    """Onto attributes or text nodes."""
    if route.subject in (TEXT, ATTRIBUTE):
        return []
    steps = route.steps
    if route.deep:
        steps += ((BELOW if route.subject == DOCUMENT else BELOW_OR_HERE, None, None, None),)
    elif route.subject == DOCUMENT:
        return []
    namespace, local = (None, None) if test is None else (test.namespace, test.local)
    return _filtered(Route(route.absolute, steps, subject, namespace, local), wanted)


def _to_texts(route: Route, axis: str, wanted: Condition | None) -> list[Route]:
    if route.subject == TEXT and axis in ("self", "descendant-or-self"):
        return _filtered(route, wanted)
    if axis == "child" or route.deep:
        return _to_leaves(route, TEXT, None, wanted)
    if axis == "self":
        return []
    return _to_leaves(route._replace(deep=True), TEXT, None, wanted)


def _filtered(route: Route, wanted: Condition | None) -> list[Route]:
    """*route* with a predicate, by its subject."""
    if wanted is None:
        return [route]
    if wanted == NO:
        return []
    if route.deep or not route.sure or route.subject == DOCUMENT:
        return [route._replace(sure=False)]
    if route.subject == SELF:
        if not route.steps:
            return [Route(route.absolute, ((ITSELF, None, None, wanted),))]
        *before, (axis, namespace, local, already) = route.steps
        held = wanted if already is None else both([already, wanted])
        return [route._replace(steps=(*before, (axis, namespace, local, held)))]
    if wanted[0] == AND:
        routes = [route]
        for part in wanted[1:]:
            routes = [found for route in routes for found in _filtered(route, part)]
        return routes
    return _filtered_leaf(route, wanted)


def _filtered_leaf(route: Route, wanted: Condition) -> list[Route]:
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


def operands(node: Operation) -> list[Node]:
    """Those of a chain of one operator, however long, without recursion."""
    found: list[Node] = [node.right]
    left = node.left
    while isinstance(left, Operation) and left.operator == node.operator:
        found.append(left.right)
        left = left.left
    found.append(left)
    found.reverse()
    return found
