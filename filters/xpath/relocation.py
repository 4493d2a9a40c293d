"""An expression over a document, rewritten into one over the subtree at some place in it.

A filter over a SOAP envelope mostly asks for what lies in its body. Where that is all it asks for,
it can be evaluated over the payload, which every message has already as a document of its own.

    the document          the new document
    s:Envelope            (none)
      s:Body              the document node
        x:Foo             x:Foo, its root element

The element at the end of the place has one child, the root of the new document. So to whatever
steps down from it, the new document's node is the same as that element; the payload is the same to
whatever stays inside. All else (headers, ancestors, ``//`` from the top) is not rewritten.
"""

from dataclasses import replace
from typing import NamedTuple

from filters.events import PAYLOAD
from filters.filter import Expression
from filters.reasons import FilterError
from filters.xpath.parser import is_node_set, is_number, parse
from filters.xpath.syntax import (
    ANY_NODE,
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
from filters.xpath.unparse import unparse

_HERE = Step("self", ANY_NODE)
_SLASHES = Step("descendant-or-self", ANY_NODE)

_LEVELS = {
    "self": 0,
    "child": 1,
    "attribute": 1,
    "descendant": 1,
    "descendant-or-self": 0,
    "following-sibling": 0,
    "preceding-sibling": 0,
    "parent": -1,
}
"""The least number of levels that the nodes of an axis are further down; other axes may lead
outside. The root element has no siblings in either document."""

_OUTSIDE = frozenset({"id", "lang"})
"""Functions that look at the whole document, or at ancestors."""
_LOGICAL = frozenset({"and", "or"})


def relocate(expression: Expression, path: tuple[str, ...]) -> Expression | None:
    """Rewrite *expression* into one over the payload, where that is exact.

    Both have the root element of their document as the context node.

    Args:
        path: The names (Clark notation) of the elements from the root element to the one whose
            only child node is the payload. Each is the only one of its name where it stands.

    Returns:
        An expression with the same verdict for every such document, over ``PAYLOAD``; None where
        there may be none, and where there is none worth having (it never looks into the payload).

    Raises:
        FilterError: As `parse`.
    """
    tree = parse(expression)
    names = tuple(map(_name, path))
    try:
        moved = _Relocation(names).boolean(tree, _Outside(0))
        text = unparse(moved, expression.namespaces)
        relocated = replace(expression, text=text, view=PAYLOAD)
        parse(relocated)  # The longer way to write something may be over a limit.
    except (_InexactError, FilterError):
        return None
    return relocated


class _Outside(NamedTuple):
    """The context node is the element of this number of the path; -1 is the document node."""

    level: int


class _Inside(NamedTuple):
    """The context nodes lie in the payload, at least this many levels below its root element."""

    depth: int


_Context = _Outside | _Inside


class _InexactError(Exception):
    """No exact rewriting is known."""


class _Relocation:
    def __init__(self, path: tuple[NameTest, ...]) -> None:
        self._path = path
        self._last = len(path) - 1

    def boolean(self, node: Node, context: _Context) -> Node:
        """*node* where only its truth is asked for, so that conditions outside can be too."""
        if isinstance(node, Operation) and node.operator in _LOGICAL:
            left, right = self.boolean(node.left, context), self.boolean(node.right, context)
            return Operation(node.operator, left, right)
        if isinstance(node, Call) and node.function in ("boolean", "not"):
            return Call(node.function, (self.boolean(node.arguments[0], context),))
        if isinstance(node, Path) and node.start is None:
            conditions, path, _ = self._walk(node, context)
            return _all(conditions if path is None else [*conditions, path])
        return self._value(node, context)

    def _value(self, node: Node, context: _Context) -> Node:
        match node:
            case Literal() | Number():
                return node
            case Negative(operand=operand):
                return Negative(self._value(operand, context))
            case Call():
                return self._call(node, context)
            case Operation(operator=operator) if operator in _LOGICAL:
                return self.boolean(node, context)
            case Operation(operator=operator, left=left, right=right) if operator != "|":
                return Operation(operator, self._value(left, context), self._value(right, context))
            case _:
                return self._node_set(node, context)[0]

    def _call(self, call: Call, context: _Context) -> Node:
        if call.function in _OUTSIDE:
            raise _InexactError
        if call.function in ("boolean", "not"):
            return self.boolean(call, context)
        # With fewer arguments than it can take, it asks for the context node.
        of_context = not call.arguments and call.function not in ("true", "false")
        if of_context and isinstance(context, _Outside):
            raise _InexactError
        return Call(call.function, tuple(self._value(each, context) for each in call.arguments))

    def _node_set(self, node: Node, context: _Context) -> tuple[Node, int]:
        """A node-set, and how deep in the payload its nodes lie at least."""
        match node:
            case Operation(left=left, right=right) if is_node_set(node):
                (left, above), (right, below) = (
                    self._node_set(left, context),
                    self._node_set(right, context),
                )
                return Operation("|", left, right), min(above, below)
            case Filtered(primary=primary, predicates=predicates):
                primary, depth = self._node_set(primary, context)
                return Filtered(primary, self._predicates(predicates, depth)), depth
            case Path(start=None):
                conditions, path, depth = self._walk(node, context)
                if conditions or path is None:
                    raise _InexactError
                return path, depth
            case Path(start=start, steps=steps) if start is not None:
                start, depth = self._node_set(start, context)
                moved, depth = self._steps(steps, depth)
                return Path(moved, False, start), depth
            case _:
                raise _InexactError

    def _walk(self, path: Path, context: _Context) -> tuple[list[Node], Path | None, int]:
        """Split a path into what its steps outside ask for, the rest inside, and the depth.

        The rest is None if the path ends outside.
        """
        if path.absolute:
            context = _Outside(-1)
        elif isinstance(context, _Inside):
            steps, depth = self._steps(path.steps, context.depth)
            return [], Path(steps), depth
        level = context.level
        conditions: list[Node] = []
        for number, step in enumerate(path.steps):
            if step == _HERE:
                continue
            if level == self._last:
                return conditions, *self._enter(path.steps[number:])
            level += 1
            self._descend(step, level)
            conditions.extend(self._conditions(step.predicates, _Outside(level)))
        return conditions, None, 0

    def _descend(self, step: Step, level: int) -> None:
        """Check that *step* leads to the element of the path on *level*, and to no other."""
        name = self._path[level]
        test = step.test
        if step.axis != "child" or not isinstance(test, NameTest):
            raise _InexactError
        # A document has one root element, which has several elements.
        any_name = level == 0 and test in (NameTest(None, None), NameTest(name.namespace, None))
        if test != name and not any_name:
            raise _InexactError

    def _conditions(self, predicates: tuple[Node, ...], context: _Outside) -> list[Node]:
        """The predicates on an element outside: it is one, so they are plain conditions."""
        if any(map(is_number, predicates)):
            raise _InexactError
        return [self.boolean(each, context) for each in predicates]

    def _enter(self, steps: tuple[Step, ...]) -> tuple[Path, int]:
        """The steps from the element around the payload, as ones from the new document's node."""
        slashes = steps[0] == _SLASHES
        first = steps[1] if slashes and len(steps) > 1 else steps[0]
        if first.axis not in ("child", "descendant"):
            raise _InexactError
        predicates = self._predicates(first.predicates, 0)
        entry = replace(first, predicates=predicates)
        rest, depth = self._steps(steps[2 if slashes else 1 :], 0)
        return Path(((_SLASHES, entry) if slashes else (entry,)) + rest, True), depth

    def _steps(self, steps: tuple[Step, ...], depth: int) -> tuple[tuple[Step, ...], int]:
        """Steps inside the payload, and how deep they end at least."""
        moved = []
        for step in steps:
            levels = _LEVELS.get(step.axis)
            if levels is None or depth + levels < 0:
                raise _InexactError
            depth += levels
            moved.append(replace(step, predicates=self._predicates(step.predicates, depth)))
        return tuple(moved), depth

    def _predicates(self, predicates: tuple[Node, ...], depth: int) -> tuple[Node, ...]:
        # A number there is a position, and must stay a number.
        return tuple(
            self._value(each, _Inside(depth))
            if is_number(each)
            else self.boolean(each, _Inside(depth))
            for each in predicates
        )


def _name(clark: str) -> NameTest:
    namespace, _, local = clark.rpartition("}")
    return NameTest(namespace[1:], local)


def _all(conditions: list[Node]) -> Node:
    if not conditions:
        # Such an expression is true of every envelope, or of none.
        raise _InexactError
    node, *others = conditions
    for other in others:
        node = Operation("and", node, other)
    return node
