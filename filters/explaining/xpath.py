"""Why an XPath expression is true of a document, or is not, step by step.

Pieces of the expression are evaluated by libxml2 one by one, each only where its cost is bounded
(`filters.matching.fallback.cost`), and all together within a budget; so is the number of lines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from lxml import etree

from filters.explaining.explanation import Explanation, shortened
from filters.explaining.names import Names
from filters.filter import Expression
from filters.matching.fallback.cost import DocumentSize, bound
from filters.xpath.admission import bindings
from filters.xpath.parser import is_node_set, is_number, parse
from filters.xpath.syntax import (
    ANY_NAME,
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

MAX_VISITS = 5_000_000
"""The most visits for the whole expression and all its pieces: tens of milliseconds."""
MAX_LINES = 100
MAX_VALUE = 60
SHOWN_VALUES = 3
SHOWN_NODES = 3
"""Nodes for which a predicate that removed them is explained."""
SEEN_NODES = 200
"""Nodes that are looked at to say what there is instead."""

_SLASHES = Step("descendant-or-self", ANY_NODE)
_HERE = Step("self", ANY_NODE)
_LOGICAL = frozenset({"and", "or"})
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
TOO_EXPENSIVE = "too expensive to explain"
_BY_POSITION = "depends on the position among the nodes"


def explain_xpath(expression: Expression, root: etree._Element) -> Explanation:
    """Explain what *expression* says of the document of *root*, the context node.

    Raises:
        FilterError: As `parse`.
    """
    tree = parse(expression)
    walk = _Walk(expression, root)
    try:
        return walk.truth(tree, root)
    except _TooExpensiveError:
        return Explanation(None, shortened(expression.text), TOO_EXPENSIVE)


class _TooExpensiveError(Exception):
    """The next evaluation costs more than is left."""


class _Walk:
    """The explanation of one expression over one document."""

    def __init__(self, expression: Expression, root: etree._Element) -> None:
        self._text = expression.text
        self._namespaces = expression.namespaces
        self._bindings = bindings(expression.namespaces)
        self._names = Names(expression.namespaces)
        self._size = DocumentSize.of(root)
        self._visits = MAX_VISITS
        self._lines = MAX_LINES

    def truth(self, node: Node, context: etree._Element) -> Explanation:
        """Explain ``boolean(node)`` at *context*.

        Raises:
            _TooExpensiveError: It cannot even be evaluated; what cannot be explained only ends
                the explanation.
        """
        self._lines -= 1
        text = shortened(self._text[slice(*node.span)])
        if _asks_position(node):
            return Explanation(None, text, _BY_POSITION)
        verdict = bool(self._evaluate(Call("boolean", (node,)), context))
        try:
            note, children = self._why(node, context, verdict)
        except _TooExpensiveError:
            note, children = TOO_EXPENSIVE, ()
        return Explanation(verdict, text, note, children)

    def _why(
        self, node: Node, context: etree._Element, verdict: bool
    ) -> tuple[str, tuple[Explanation, ...]]:
        match node:
            case Operation(operator=operator) if operator in _LOGICAL:
                return "", self._each(_operands(node, operator), context)
            case Call(function="boolean" | "not", arguments=arguments):
                return "", self._each(arguments, context)
            case Operation(operator=operator) if operator in _COMPARISONS:
                return self._comparison(node, context, verdict)
            case Path() | Filtered() | Operation(operator="|"):
                return self._nodes(node, context)
            case Call(arguments=arguments) if arguments and not is_number(node):
                found = [each for each in arguments if not isinstance(each, Literal | Number)]
                notes = [self._first(each, context) for each in found[:SHOWN_VALUES]]
                return "; ".join(notes), self._empty(found, context)
            case Literal() | Number():
                return "", ()
            case _:
                return f"the value is {self._value(node, context)}", ()

    # ---- what selects nodes ---------------------------------------------------------------------

    def _nodes(self, node: Node, context: etree._Element) -> tuple[str, tuple[Explanation, ...]]:
        number = self._count(node, context)
        if number:
            return f"{_counted(number)}: {self._values(node, context, number)}", ()
        match node:
            case Operation(operator="|"):
                return "", self._each(_operands(node, "|"), context)
            case Filtered(primary=primary):
                if not self._count(primary, context):
                    return "", self._each((primary,), context)
                return "the predicates leave none of them", ()
            case Path():
                return self._death(node, context)
            case _:
                return "no node", ()

    def _death(self, path: Path, context: etree._Element) -> tuple[str, tuple[Explanation, ...]]:
        """Find the step at which a path that selects nothing loses its last node, and why."""
        if path.start is not None and not self._count(path.start, context):
            return "", self._each((path.start,), context)
        before = 1
        for number, step in enumerate(path.steps):
            tested = self._until(path, number, ())
            left = self._count(tested, context)
            if not left:
                return self._missing(path, number, before, context), ()
            for count, predicate in enumerate(step.predicates, 1):
                tested = self._until(path, number, step.predicates[:count])
                passed = self._count(tested, context)
                if not passed:
                    kept = self._until(path, number, step.predicates[: count - 1])
                    return self._removed(kept, left, step, predicate, context)
                left = passed
            before = left
        return "no node", ()

    def _until(self, path: Path, number: int, predicates: tuple[Node, ...]) -> Path:
        """*path* up to step *number*, of whose predicates only *predicates* are left."""
        last = replace(path.steps[number], predicates=predicates)
        return replace(path, steps=(*path.steps[:number], last))

    def _removed(
        self, kept: Path, left: int, step: Step, predicate: Node, context: etree._Element
    ) -> tuple[str, tuple[Explanation, ...]]:
        """*predicate* removed all *left* nodes that *kept* selects."""
        counted = self._names.counted(step, left)
        condition = shortened(self._text[slice(*predicate.span)], MAX_VALUE)
        if is_number(predicate):
            return f"there {_are(left)} {counted}, and none has the position {condition}", ()
        none = "it does not pass" if left == 1 else "none passes"
        note = f"{counted}, but {none} [{condition}]"
        children = []
        for node in self._some(kept, context, SHOWN_NODES):
            if not isinstance(node, etree._Element):
                return f"{note}: {self._values(kept, context, left)}", ()
            if self._lines > 0:
                children.append(self.truth(predicate, node))
        return note, tuple(children)

    def _missing(self, path: Path, number: int, before: int, context: etree._Element) -> str:
        """Step *number* finds nothing at the *before* nodes in front of it."""
        step = path.steps[number]
        name = self._names.of_test(step)
        if step.axis not in ("child", "attribute", "descendant"):
            return f"no {name} on the axis {step.axis}"
        any_step = replace(step, test=ANY_NAME, predicates=())
        around = replace(path, steps=(*path.steps[:number], any_step))
        present = list(dict.fromkeys(self._names_of(around, context)))
        if number == 0 and path.absolute and step.axis == "child" and present:
            note = f"the root element is {self._names.of(present[0])}, {name} was asked for"
        else:
            note = f"no {name}{self._place(path, number, before, context)}"
            if present:
                note += f"; there {_are(len(present))} {self._names.listed(present)}"
            else:
                note += "; there are no attributes" if step.axis == "attribute" else "; it is empty"
        hint = self._names.hint(step.test, present) if isinstance(step.test, NameTest) else ""
        return f"{note}. {hint}" if hint else note

    def _place(self, path: Path, number: int, before: int, context: etree._Element) -> str:
        """Say where step *number* looked."""
        step = path.steps[number]
        anywhere = step.axis == "descendant"
        while number and path.steps[number - 1] in (_SLASHES, _HERE):
            number -= 1
            anywhere = anywhere or path.steps[number] == _SLASHES
        if not number and path.absolute:
            return " in the document"
        if number:
            count = 1 if anywhere else before
            name = self._names.counted(path.steps[number - 1], count).removeprefix("1 ")
        else:
            name = self._names.of(str(context.tag))
        preposition = "on" if step.axis == "attribute" else "in"
        return f" anywhere in {name}" if anywhere else f" {preposition} {name}"

    # ---- values ---------------------------------------------------------------------------------

    def _comparison(
        self, node: Operation, context: etree._Element, verdict: bool
    ) -> tuple[str, tuple[Explanation, ...]]:
        sides = (node.left, node.right)
        empty = self._empty(sides, context)
        if empty and not verdict:
            return "there is nothing to compare", empty
        constant = next((each for each in sides if isinstance(each, Literal | Number)), None)
        others = [each for each in sides if not isinstance(each, Literal | Number)]
        notes = [self._is(each, context, plain=len(others) == 1) for each in others]
        if not verdict and constant is not None and notes:
            shown = shortened(self._text[slice(*constant.span)], MAX_VALUE)
            notes.append(f"not {shown}" if node.operator == "=" else f"not {node.operator} {shown}")
            if node.left is constant and node.operator not in ("=", "!="):
                notes[-1] = f"{shown} is not {node.operator} that"
        return ", ".join(notes), ()

    def _is(self, node: Node, context: etree._Element, *, plain: bool = False) -> str:
        """Say what the value of *node* is."""
        number = self._count(node, context) if is_node_set(node) else 1
        values = self._values(node, context, number)
        if plain:
            return f"the value{' is' if number == 1 else 's are'} {values}"
        text = shortened(self._text[slice(*node.span)], MAX_VALUE)
        return f"{text} is {values}" if number else f"{text} is nothing"

    def _first(self, node: Node, context: etree._Element) -> str:
        """Say what *node* is where one value is asked for: of a node-set, the value of the first
        node."""
        if not is_node_set(node) or self._count(node, context) <= 1:
            return self._is(node, context)
        text = shortened(self._text[slice(*node.span)], MAX_VALUE)
        number = self._count(node, context)
        return f"{text} is {self._value(Call('string', (node,)), context)}, the first of {number}"

    def _values(self, node: Node, context: etree._Element, number: int) -> str:
        """Return the string-values of the first nodes, or the value that is not a node-set."""
        if not is_node_set(node):
            return self._value(node, context)
        shown = []
        for found in self._some(node, context, SHOWN_VALUES):
            if isinstance(found, etree._Element):
                found = self._evaluate(Call("string", ()), found)
            shown.append(_quoted(str(found)))
        more = f" and {number - len(shown)} more" if number > len(shown) and shown else ""
        return (", ".join(shown) or "the document") + more

    def _value(self, node: Node, context: etree._Element) -> str:
        value = self._evaluate(node, context)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return "not a number" if value != value else f"{value:.15g}"
        return _quoted(str(value))

    # ---- evaluation -----------------------------------------------------------------------------

    def _each(self, nodes: Sequence[Node], context: etree._Element) -> tuple[Explanation, ...]:
        return tuple(self.truth(node, context) for node in nodes if self._lines > 0)

    def _empty(self, nodes: Sequence[Node], context: etree._Element) -> tuple[Explanation, ...]:
        """Explanations of those of *nodes* that are node-sets without nodes."""
        sets = (node for node in nodes if is_node_set(node))
        return self._each([node for node in sets if not self._count(node, context)], context)

    def _count(self, node: Node, context: etree._Element) -> int:
        return int(self._evaluate(Call("count", (node,)), context))

    def _some(self, node: Node, context: etree._Element, most: int) -> list[Any]:
        """The first nodes of a node-set: elements, and texts for what is none."""
        first = Operation("<=", Call("position", ()), Number(str(most)))
        found: list[Any] = self._evaluate(Filtered(node, (first,)), context)
        return [
            node if isinstance(node, str) or isinstance(node.tag, str) else str(node.text or "")
            for node in found
            if not isinstance(node, tuple)  # a namespace
        ]

    def _names_of(self, path: Path, context: etree._Element) -> Iterator[str]:
        """The names (Clark notation) of the elements or attributes that *path* selects."""
        for node in self._some(path, context, SEEN_NODES):
            name = node.tag if isinstance(node, etree._Element) else node.attrname
            if name:
                yield name

    def _evaluate(self, node: Node, context: etree._Element) -> Any:
        self._visits -= bound(node, self._size)
        if self._visits < 0:
            raise _TooExpensiveError
        text = unparse(node, self._namespaces)
        return etree.XPath(text, namespaces=self._bindings, regexp=False)(context)


def _operands(node: Node, operator: str) -> tuple[Node, ...]:
    """Return the operands of a chain of *operator*, of any length."""
    found: list[Node] = []
    while isinstance(node, Operation) and node.operator == operator:
        found.append(node.right)
        node = node.left
    return (node, *reversed(found))


def _asks_position(node: Node) -> bool:
    """Return True if it asks for the position that the predicate around it gives to the context
    node."""
    match node:
        case Call(function="position" | "last"):
            return True
        case Call(arguments=arguments):
            return any(map(_asks_position, arguments))
        case Operation(left=left, right=right):
            return _asks_position(left) or _asks_position(right)
        case Negative(operand=operand):
            return _asks_position(operand)
        case Filtered(primary=primary):
            return _asks_position(primary)
        case Path(start=start) if start is not None:
            return _asks_position(start)
        case _:
            return False


def _counted(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _quoted(value: str) -> str:
    return f"'{shortened(value, MAX_VALUE)}'"
