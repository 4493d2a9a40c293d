"""The syntax tree of an XPath 1.0 expression (XPath 1.0, sections 2 and 3).

Abbreviations are spelt out: ``//`` is a step ``descendant-or-self::node()``, ``.`` is
``self::node()``, ``@a`` is ``attribute::a``, ``..`` is ``parent::node()``. Prefixes are resolved.
Numbers keep their text, for libxml2 reads them in a way of its own. Parentheses leave no trace but
in the spans of what holds them.

Each node's *span* says where it stands in the text: its first character, one past its last. Two
nodes are equal when they mean the same, wherever they stand.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar, dataclass_transform

_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _node(cls: type[_Class]) -> type[_Class]:
    """Make *cls* a value that type checkers hold to be frozen.

    To freeze it for real doubles what a tree costs, and a hundred thousand are made at a start.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


Span: TypeAlias = tuple[int, int]


@_node
class Literal:
    value: str
    span: Span = field(default=(0, 0), compare=False)


@_node
class Number:
    text: str
    span: Span = field(default=(0, 0), compare=False)


@_node
class NameTest:
    """``a``, ``p:a``, ``p:*`` or ``*``. No namespace is ``""``, any is None; any name is None."""

    namespace: str | None
    local: str | None


@_node
class KindTest:
    """``node()``, ``text()``, ``comment()`` or ``processing-instruction('target')``."""

    kind: str
    target: str | None = None


@_node
class Step:
    """The step that ``//`` stands for has the span of the slashes."""

    axis: str
    test: "NameTest | KindTest"
    predicates: "tuple[Node, ...]" = ()
    span: Span = field(default=(0, 0), compare=False)
    """The span of the step, with its predicates."""


@_node
class Path:
    """Steps from the document node (*absolute*), from the context node, or from the nodes that
    *start* selects (a filter expression, section 3.3).

    There is at least one step, save in ``/``.
    """

    steps: tuple[Step, ...]
    absolute: bool = False
    start: "Node | None" = None
    span: Span = field(default=(0, 0), compare=False)


@_node
class Filtered:
    """An expression in parentheses, or a call, with predicates (section 3.3)."""

    primary: "Node"
    predicates: "tuple[Node, ...]"
    span: Span = field(default=(0, 0), compare=False)


@_node
class Call:
    function: str
    arguments: "tuple[Node, ...]"
    span: Span = field(default=(0, 0), compare=False)


@_node
class Operation:
    """``or and = != < <= > >= + - * div mod |``."""

    operator: str
    left: "Node"
    right: "Node"
    span: Span = field(default=(0, 0), compare=False)


@_node
class Negative:
    operand: "Node"
    span: Span = field(default=(0, 0), compare=False)


Node: TypeAlias = Literal | Number | Path | Filtered | Call | Operation | Negative

ANY_NODE = KindTest("node")
ANY_NAME = NameTest(None, None)


def walk(node: Node, *, predicates: bool = True) -> Iterator[Node]:
    """*node* and all nodes below it, those in *predicates* too, in no particular order."""
    waiting: list[Node] = [node]
    while waiting:
        node = waiting.pop()
        yield node
        match node:
            case Path(steps=steps, start=start):
                for step in steps if predicates else ():
                    waiting.extend(step.predicates)
                if start is not None:
                    waiting.append(start)
            case Filtered(primary=primary, predicates=own):
                waiting.append(primary)
                waiting.extend(own if predicates else ())
            case Call(arguments=arguments):
                waiting.extend(arguments)
            case Operation(left=left, right=right):
                waiting += (left, right)
            case Negative(operand=operand):
                waiting.append(operand)
