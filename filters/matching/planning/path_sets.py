"""Path sets: node-sets, described by the paths that reach their nodes."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from filters.matching.planning.condition_algebra import NO, UNSURE, YES, Condition, both
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
"""The subject of a path set that is the document node; the others are in plan.py."""


class PathSet(NamedTuple):
    """The nodes at the end of *steps*. *deep*: and all nodes below those, of any kind. Unless it is
    *sure*, the nodes are some of those that it reaches, or others that are there only if it reaches
    one. *own* is a test that the predicates of a last step onto text or attributes ask for:
    comparison and operand."""

    absolute: bool
    steps: tuple[Any, ...] = ()
    subject: int = SELF
    namespace: str | None = None
    local: str | None = None
    deep: bool = False
    sure: bool = True
    own: tuple[int, Any] | None = None


CONTEXT = PathSet(False)
ROOT = PathSet(True, (), DOCUMENT)
ROOT_ELEMENT = (HERE, None, None, None)

Holds: TypeAlias = Callable[[Node], Condition]
"""Lowers a predicate to a condition on an element."""


def some_node_passes(path_set: PathSet, comparison: int = EXISTS, operand: Any = None) -> Condition:
    """Return the condition that some node of *path_set* passes."""
    absolute, steps, subject, namespace, local, deep, sure, own = path_set
    if deep:
        # Nodes of all kinds: of these, programs know nothing but that there are some.
        there = some_node_passes(path_set._replace(deep=False))
        return there if comparison == EXISTS and sure else both([there, UNSURE])
    if own is not None:
        found: Condition = (SOME, absolute, steps, (subject, namespace, local, *own))
        return found if comparison == EXISTS and sure else both([found, UNSURE])
    if not sure and comparison != EXISTS:
        return some_node_passes(path_set)
    if subject == DOCUMENT:
        if comparison == EXISTS:
            return YES if sure else UNSURE
        return (SOME, True, (ROOT_ELEMENT,), (SELF, None, None, comparison, operand))
    if comparison == EXISTS and subject == SELF:
        found = (SOME, absolute, steps, None) if steps else YES
    else:
        found = (SOME, absolute, steps, (subject, namespace, local, comparison, operand))
    return found if sure else both([found, UNSURE])


def lower_node_set(node: Node, holds: Holds) -> list[PathSet]:
    """The path_sets to the nodes of *node*, a node-set (sections 2 and 3.3)."""
    if isinstance(node, Path):
        if node.start is not None:
            path_sets = lower_node_set(node.start, holds)
        else:
            path_sets = [ROOT if node.absolute else CONTEXT]
        for step in node.steps:
            path_sets = _advance(path_sets, step, holds)
        return path_sets
    if isinstance(node, Filtered):
        path_sets = lower_node_set(node.primary, holds)
        wanted = _predicates(node.predicates, holds)
        return [found for path_set in path_sets for found in _filtered(path_set, wanted)]
    if isinstance(node, Operation):
        return [
            path_set for operand in operands(node) for path_set in lower_node_set(operand, holds)
        ]
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
"""The axes of a program's step: from a node, and from it or any below it."""


def _advance(path_sets: list[PathSet], step: Step, holds: Holds) -> list[PathSet]:
    """Follow *step* from *path_sets*."""
    axis, test = step.axis, step.test
    wanted = _predicates(step.predicates, holds) if step.predicates else None
    found: list[PathSet] = []
    for path_set in path_sets:
        if not path_set.sure:
            found.append(path_set)
        elif isinstance(test, NameTest) and axis in _AXES:
            found += _to_elements(path_set, axis, test, wanted)
        elif axis == "attribute" and isinstance(test, NameTest):
            found += _to_leaves(path_set, ATTRIBUTE, test, wanted)
        elif not isinstance(test, NameTest) and test.kind == "text" and axis in _AXES:
            found += _to_texts(path_set, axis, wanted)
        elif not isinstance(test, NameTest) and test.kind == "node" and axis == "self":
            found += _filtered(path_set, wanted)
        elif (
            not isinstance(test, NameTest)
            and test.kind == "node"
            and axis == "descendant-or-self"
            and wanted is None
        ):
            leaf = path_set.subject in (TEXT, ATTRIBUTE)
            found.append(path_set if leaf else path_set._replace(deep=True))
        else:
            found.append(path_set._replace(sure=False))
    return found


def _to_elements(
    path_set: PathSet, axis: str, test: NameTest, wanted: Condition | None
) -> list[PathSet]:
    subject = path_set.subject
    if subject in (TEXT, ATTRIBUTE) or wanted == NO:
        return []
    code = _AXES[axis][path_set.deep]
    if subject == DOCUMENT and code >= BELOW_OR_HERE:
        if code == ITSELF:
            return []
        code = BELOW
    step = (code, test.namespace, test.local, wanted)
    return [PathSet(path_set.absolute, (*path_set.steps, step))]


def _to_leaves(
    path_set: PathSet, subject: int, test: NameTest | None, wanted: Condition | None
) -> list[PathSet]:
    """Follow a step onto attributes or text nodes."""
    if path_set.subject in (TEXT, ATTRIBUTE):
        return []
    steps = path_set.steps
    if path_set.deep:
        steps += ((BELOW if path_set.subject == DOCUMENT else BELOW_OR_HERE, None, None, None),)
    elif path_set.subject == DOCUMENT:
        return []
    namespace, local = (None, None) if test is None else (test.namespace, test.local)
    return _filtered(PathSet(path_set.absolute, steps, subject, namespace, local), wanted)


def _to_texts(path_set: PathSet, axis: str, wanted: Condition | None) -> list[PathSet]:
    if path_set.subject == TEXT and axis in ("self", "descendant-or-self"):
        return _filtered(path_set, wanted)
    if axis == "child" or path_set.deep:
        return _to_leaves(path_set, TEXT, None, wanted)
    if axis == "self":
        return []
    return _to_leaves(path_set._replace(deep=True), TEXT, None, wanted)


def _filtered(path_set: PathSet, wanted: Condition | None) -> list[PathSet]:
    """Add a predicate to *path_set*, by its subject."""
    if wanted is None:
        return [path_set]
    if wanted == NO:
        return []
    if path_set.deep or not path_set.sure or path_set.subject == DOCUMENT:
        return [path_set._replace(sure=False)]
    if path_set.subject == SELF:
        if not path_set.steps:
            return [PathSet(path_set.absolute, ((ITSELF, None, None, wanted),))]
        *before, (axis, namespace, local, already) = path_set.steps
        held = wanted if already is None else both([already, wanted])
        return [path_set._replace(steps=(*before, (axis, namespace, local, held)))]
    if wanted[0] == AND:
        path_sets = [path_set]
        for part in wanted[1:]:
            path_sets = [found for path_set in path_sets for found in _filtered(path_set, part)]
        return path_sets
    return _filtered_leaf(path_set, wanted)


def _filtered_leaf(path_set: PathSet, wanted: Condition) -> list[PathSet]:
    """Add a predicate to text or an attribute: one test on its string, or its local name."""
    alternatives = wanted[1:] if wanted[0] == OR else (wanted,)
    if path_set.own is None and all(map(_is_own, alternatives)):
        return [path_set._replace(own=wanted[3][3:]) for wanted in alternatives]
    if wanted[0] == SOME and path_set.subject == ATTRIBUTE and not wanted[1] and wanted[3] is None:
        (_, namespace, local, _), *others = wanted[2]
        # Only local-name() asks for a local name in any namespace: ``self::a`` is an element.
        if wanted[2][0][0] == ITSELF and not others and namespace is None and local is not None:
            if path_set.local in (None, local):
                return [path_set._replace(local=local)]
            return []
    return [path_set._replace(sure=False)]


def _is_own(wanted: Condition) -> bool:
    return (
        wanted[0] == SOME
        and not wanted[1]
        and not wanted[2]
        and wanted[3] is not None
        and wanted[3][0] == SELF
    )


def operands(node: Operation) -> list[Node]:
    """Return the operands of a chain of one operator, however long, without recursion."""
    found: list[Node] = [node.right]
    left = node.left
    while isinstance(left, Operation) and left.operator == node.operator:
        found.append(left.right)
        left = left.left
    found.append(left)
    found.reverse()
    return found
