"""The syntax tree of an XPath 1.0 expression (XPath 1.0, sections 2 and 3).

Abbreviations are spelt out: ``//`` is a step ``descendant-or-self::node()``, ``.`` is
``self::node()``, ``@a`` is ``attribute::a``, ``..`` is ``parent::node()``. Prefixes are resolved.
Numbers keep their text, for libxml2 reads them in a way of its own.
"""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Literal:
    value: str


@dataclass(frozen=True, slots=True)
class Number:
    text: str


@dataclass(frozen=True, slots=True)
class NameTest:
    """``a``, ``p:a``, ``p:*`` or ``*``. No namespace is ``""``, any is None; any name is None."""

    namespace: str | None
    local: str | None


@dataclass(frozen=True, slots=True)
class KindTest:
    """``node()``, ``text()``, ``comment()`` or ``processing-instruction('target')``."""

    kind: str
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    axis: str
    test: "NameTest | KindTest"
    predicates: "tuple[Node, ...]" = ()
    span: tuple[int, int] = (0, 0)
    """Where it stands in the text, its predicates included: first character, one past the last."""


@dataclass(frozen=True, slots=True)
class Path:
    """Steps from the document node (*absolute*), from the context node, or from the nodes that
    *start* selects (a filter expression, section 3.3)."""

    steps: tuple[Step, ...]
    absolute: bool = False
    start: "Node | None" = None
    span: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Filtered:
    """An expression in parentheses, or a call, with predicates (section 3.3)."""

    primary: "Node"
    predicates: "tuple[Node, ...]"
    span: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: "tuple[Node, ...]"
    span: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Operation:
    """``or and = != < <= > >= + - * div mod |``."""

    operator: str
    left: "Node"
    right: "Node"
    span: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Negative:
    operand: "Node"
    span: tuple[int, int] = (0, 0)


Node: TypeAlias = Literal | Number | Path | Filtered | Call | Operation | Negative
