"""A syntax tree back into the text of an expression, abbreviated where XPath has a short form."""

from collections.abc import Sequence

from filters.filter import Namespaces
from filters.xpath.parser import PRECEDENCE, XML_NAMESPACE, XML_PREFIX
from filters.xpath.syntax import (
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
)

_UNION = PRECEDENCE["|"]
_SLASHES = Step("descendant-or-self", ANY_NODE)
_SHORT = {Step("self", ANY_NODE): ".", Step("parent", ANY_NODE): ".."}
_SHORT_AXES = {"child": "", "attribute": "@"}


def unparse(node: Node, namespaces: Namespaces = ()) -> str:
    """The text of *node*; `filters.xpath.parse` is the inverse.

    Raises:
        KeyError: *namespaces* has no prefix for a namespace in it.
        ValueError: No literal can hold a text in it: it has both quotes.
    """
    prefixes = {
        uri: prefix
        for prefix, uri in reversed(dict(namespaces).items())
        if prefix not in ("", XML_PREFIX)
    }
    return _Writer(prefixes | {XML_NAMESPACE: XML_PREFIX}).node(node, 0)


class _Writer:
    def __init__(self, prefixes: dict[str, str]) -> None:
        self._prefixes = prefixes

    def node(self, node: Node, lowest: int) -> str:
        """*node* where only operators of precedence *lowest* and above need no parentheses."""
        match node:
            case Literal(value=value):
                return _quoted(value)
            case Number(text=text):
                return text
            case Negative(operand=operand):
                return f"-{self.node(operand, _UNION)}"
            case Operation(operator=operator):
                text = self._operation(node)
                return text if PRECEDENCE[operator] >= lowest else f"({text})"
            case Call(function=function, arguments=arguments):
                return f"{function}({', '.join(self.node(each, 0) for each in arguments)})"
            case Filtered(primary=primary, predicates=predicates):
                return self._primary(primary) + self._predicates(predicates)
            case Path():
                text = self._path(node)
                # `/ * 2` would be a path of one step.
                return f"({text})" if text == "/" and lowest else text

    def _operation(self, node: Operation) -> str:
        # A left-deep chain is as long as the limit on operators; no recursion for that.
        precedence = PRECEDENCE[node.operator]
        behind = []
        left: Node = node
        while isinstance(left, Operation) and PRECEDENCE[left.operator] == precedence:
            behind.append(f" {left.operator} {self.node(left.right, precedence + 1)}")
            left = left.left
        return self.node(left, precedence) + "".join(reversed(behind))

    def _primary(self, node: Node) -> str:
        text = self.node(node, 0)
        return text if isinstance(node, Call) else f"({text})"

    def _path(self, path: Path) -> str:
        text = "/" if path.absolute else ""
        if path.start is not None:
            filtered = isinstance(path.start, Filtered)
            text = self.node(path.start, 0) if filtered else self._primary(path.start)
            text += "/"
        # Each step writes the slash behind it, save the last; `//` is a step within two.
        last = len(path.steps) - 1
        for number, step in enumerate(path.steps):
            if step == _SLASHES and text[-1:] == "/" and text[-2:] != "//" and number < last:
                text += "/"
            else:
                text += self._step(step) + ("/" if number < last else "")
        return text

    def _step(self, step: Step) -> str:
        short = _SHORT.get(step)
        if short is not None:
            return short
        axis = _SHORT_AXES.get(step.axis)
        text = f"{step.axis}::" if axis is None else axis
        return text + self._test(step.test) + self._predicates(step.predicates)

    def _test(self, test: NameTest | KindTest) -> str:
        if isinstance(test, KindTest):
            return f"{test.kind}({'' if test.target is None else _quoted(test.target)})"
        local = "*" if test.local is None else test.local
        return f"{self._prefixes[test.namespace]}:{local}" if test.namespace else local

    def _predicates(self, predicates: Sequence[Node]) -> str:
        return "".join(f"[{self.node(each, 0)}]" for each in predicates)


def _quoted(value: str) -> str:
    if "'" not in value:
        return f"'{value}'"
    if '"' not in value:
        return f'"{value}"'
    raise ValueError("no literal holds both quotes")
