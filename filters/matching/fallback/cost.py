"""An upper bound of what libxml2 spends on an expression, known before it is evaluated.

Libxml2 cannot be interrupted, so it may only be given expressions that are known to be cheap. The
bound counts *visits*, of about ten nanoseconds each: nodes that a step looks at, pairs of nodes
that are compared when node-sets are merged, pieces of text that are read.

An expression inside a predicate is evaluated once for each of many nodes, so all is counted for a
*batch* of evaluations at once, by two rules:

- Children (attributes) of different nodes are different. A step along these axes costs a batch no
  more than the document has nodes, times how often the same node is a context of the batch.
- That is its *multiplicity*. ``..`` and the siblings multiply it by the fan-out, the descendants by
  the depth, the other axes by all nodes.

So ``/*[a[b[@c='x']]]`` costs a few times the nodes N of the document, ``//*[../*[../*[../*]]]``
N * F**3 for a fan-out F, and ``count(//*/following::*)`` N**3.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from lxml import etree

from filters.xpath.syntax import (
    Call,
    Filtered,
    KindTest,
    Literal,
    Negative,
    Node,
    Number,
    Operation,
    Path,
    Step,
)

PER_EVALUATION = 5
"""Visits that the evaluation of any operand costs, whatever it does."""
PAIRS = 8
"""Pairs of nodes that are compared in the time of a visit."""
CHARACTERS = 8
"""Characters of text that are read in the time of a visit."""
NAMESPACES = 128
"""The most namespaces in scope of one element (`DocumentLimits`)."""
NAMESPACE_VISITS = 512
"""The visits that listing the namespaces in scope of one element costs."""
SMALL, LARGE = 32, 2**15
"""Nodes of a document whose depth and fan-out are worth measuring: of a smaller one they are small,
and on a larger one little is cheap."""

_NODES = etree.XPath("count(//node())")
_ATTRIBUTES = etree.XPath("count(//@*)")
_TEXT = etree.XPath("string-length(/)")
_COMMENTS = etree.XPath("//comment() | //processing-instruction()")
_DEEPER = {depth: etree.XPath("boolean(" + "/*" * (depth + 1) + ")") for depth in (8, 16, 32, 64)}
_WIDER = {
    width: etree.XPath(f"boolean(//node()[{width + 1}]) or boolean(//@*[{width + 1}])")
    for width in (8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
}
_LONGER = {
    length: etree.XPath(f"boolean(//@*[string-length() > {length}])")
    for length in (32, 128, 512, 2048, 8192)
}
_DEEPEST, _LONGEST = 256, 65536
"""The depth and the length of a value that `DocumentLimits` allows."""


@dataclass(frozen=True, slots=True)
class DocumentSize:
    """A document's size, each figure rounded up.

    *nodes* of all kinds, attributes included; *depth* in elements; *fan_out*, the most children or
    attributes of one node; *characters* of its texts, attributes and comments.
    """

    nodes: int
    depth: int
    fan_out: int
    characters: int

    @classmethod
    def of(cls, root: etree._Element) -> Self:
        """Measure the document of *root*. It takes a few walks of libxml2's."""
        attributes = _number(_ATTRIBUTES, root)
        nodes = _number(_NODES, root) + attributes + 1
        depth, fan_out, longest = min(nodes, _DEEPEST), nodes, _LONGEST
        if nodes <= LARGE:
            longest = next((each for each, longer in _LONGER.items() if not longer(root)), longest)
        if SMALL < nodes <= LARGE:
            depth = next((each for each, deeper in _DEEPER.items() if not deeper(root)), depth)
            fan_out = next((each for each, wider in _WIDER.items() if not wider(root)), nodes)
        comments: Any = _COMMENTS(root)
        characters = _number(_TEXT, root) + attributes * longest
        characters += sum(len(comment.text or "") for comment in comments)
        return cls(_rounded(nodes), depth, _rounded(fan_out), _rounded(characters))

    def covers(self, other: "DocumentSize") -> bool:
        """Return True if no figure of *other* is larger."""
        return (
            self.nodes >= other.nodes
            and self.depth >= other.depth
            and self.fan_out >= other.fan_out
            and self.characters >= other.characters
        )

    def union(self, other: "DocumentSize") -> "DocumentSize":
        """Return the smallest size that covers both."""
        return DocumentSize(
            max(self.nodes, other.nodes),
            max(self.depth, other.depth),
            max(self.fan_out, other.fan_out),
            max(self.characters, other.characters),
        )


def bound(expression: Node, size: DocumentSize) -> int:
    """Return the most visits that *expression* costs on any document of *size*, with any one node
    of it as context node."""
    reckoning = _Reckoning(size)
    reckoning.value(expression, _Nodes(1, 1, 1, 1))
    return reckoning.visits


def _number(xpath: etree.XPath, root: etree._Element) -> int:
    number: Any = xpath(root)
    return int(number)


def _rounded(number: int) -> int:
    """Round *number* up to three binary digits: sizes are remembered, and should be few."""
    shift = max(0, number.bit_length() - 3)
    return -(-number >> shift) << shift


class _Nodes(NamedTuple):
    """The node-sets of a batch: the contexts of the next step, or a value."""

    runs: int
    """Evaluations in the batch: each has a node-set of its own."""
    total: int
    """Nodes in all of them together."""
    multiplicity: int
    """The most of them that the same node is in."""
    each: int
    """Nodes in one of them, at most."""
    level: bool = True
    """True if none of the nodes in the batch lies below another."""
    ordered: bool = True
    """True if each is found in document order, so that sorting it is one pass."""
    leaves: bool = False
    """True if the nodes are attributes, texts and the like."""
    apart: bool = True
    """True if none of the nodes of one node-set lies below another of it."""


class _Value(NamedTuple):
    nodes: _Nodes | None = None
    """The node-sets; None if the value is of another type."""
    text: int = 0
    """Characters of the strings of the batch, all together."""
    longest: int = 0
    """Characters of one of them, at most."""


_ATOMIC = _Value(text=0, longest=24)
"""A number or a boolean."""


class _Reckoning:
    """Adds visits up."""

    def __init__(self, size: DocumentSize) -> None:
        self.visits = 0
        self._nodes = size.nodes
        self._depth = size.depth
        self._fan_out = size.fan_out
        self._characters = size.characters

    def value(self, node: Node, at: _Nodes) -> _Value:
        """Add what *node* costs, evaluated once for each node of *at*."""
        self.visits += PER_EVALUATION * at.runs
        match node:
            case Literal(value):
                return _Value(text=at.runs * len(value), longest=4 * len(value))
            case Number():
                return _ATOMIC
            case Negative(operand):
                self._string(self.value(operand, at))
                return _ATOMIC
            case Path():
                return _Value(self._path(node, at))
            case Filtered(primary, predicates):
                return _Value(self._filtered(self.value(primary, at), predicates, at))
            case Operation("|", left, right):
                return _Value(self._union(self.value(left, at), self.value(right, at), at))
            case Operation("or" | "and", left, right):
                self.value(left, at)
                self.value(right, at)
                return _ATOMIC
            case Operation(_, left, right):
                self._compare(self.value(left, at), self.value(right, at))
                return _ATOMIC
            case Call():
                return self._call(node, at)

    # Paths.

    def _path(self, path: Path, at: _Nodes) -> _Nodes:
        if path.start is not None:
            found = self.value(path.start, at).nodes or at
            self._sort(found)
        elif path.absolute:
            found = _Nodes(at.runs, at.runs, at.runs, 1)
        else:
            found = at
        for step in path.steps:
            found = self._step(step, found)
        return found

    def _step(self, step: Step, at: _Nodes) -> _Nodes:
        """Add what one step from each node of *at* costs. Candidates of different contexts are
        merged into one node-set, each compared with all that are in it already, after the
        predicates have judged them apart; children and attributes are known to be different, and
        only appended."""
        runs, total, multiplicity, each, level, ordered, _, apart = at
        everything = self._nodes
        leaves = isinstance(step.test, KindTest) and step.test.kind != "node"
        merged = each > 1
        self.visits += PER_EVALUATION * total
        match step.axis:
            case "self":
                candidates, often, width = total, multiplicity, each
            case "child" | "attribute":
                candidates = min(total * self._fan_out, multiplicity * everything)
                often, width, merged = multiplicity, each * self._fan_out, False
                leaves = leaves or step.axis == "attribute"
                ordered = ordered and apart
            case "namespace":
                self.visits += total * NAMESPACE_VISITS
                candidates, often, width = total * NAMESPACES, multiplicity, each * NAMESPACES
                leaves = True
            case "parent":
                candidates, often, width = total, multiplicity * self._fan_out, each
                ordered = False
            case "descendant" | "descendant-or-self":
                nested = 1 if level else self._depth
                candidates = min(total * everything, multiplicity * everything * nested)
                often, width = multiplicity * self._depth, everything
                level = apart = False
            case "following-sibling" | "preceding-sibling":
                candidates = min(total * self._fan_out, multiplicity * self._fan_out * everything)
                often, width = multiplicity * self._fan_out, each * self._fan_out
                ordered = each == 1
            case "ancestor" | "ancestor-or-self":
                candidates = total * self._depth
                often, width = multiplicity * everything, each * self._depth
                level = ordered = apart = False
            case _:  # following, preceding
                candidates = total * everything
                often, width = multiplicity * everything, everything
                level = ordered = apart = False
                self.visits += candidates
        self.visits += candidates
        often = min(often, candidates)
        for predicate in step.predicates:
            self.value(predicate, _Nodes(candidates, candidates, often, 1, level))
        width = min(width, everything * (NAMESPACES if step.axis == "namespace" else 1))
        if merged:
            self.visits += candidates * width // PAIRS
        return _Nodes(
            runs, min(candidates, runs * width), min(often, runs), width, level, ordered, leaves,
            apart,
        )  # fmt: skip

    def _filtered(self, value: _Value, predicates: tuple[Node, ...], at: _Nodes) -> _Nodes:
        found = value.nodes or at
        self._sort(found)
        for predicate in predicates:
            contexts = _Nodes(found.total, found.total, found.multiplicity, 1, found.level)
            self.value(predicate, contexts)
        return found

    def _union(self, left: _Value, right: _Value, at: _Nodes) -> _Nodes:
        one, other = left.nodes or at, right.nodes or at
        self.visits += (one.total * min(other.each, self._nodes) + other.total) // PAIRS
        return _Nodes(
            at.runs,
            one.total + other.total,
            min(at.runs, one.multiplicity + other.multiplicity),
            one.each + other.each,
            level=False,
            ordered=False,
            leaves=one.leaves and other.leaves,
            apart=False,
        )

    def _sort(self, nodes: _Nodes) -> None:
        """Document order is found by walking to a common ancestor and along its children."""
        if nodes.each < 2:
            return
        if nodes.ordered:
            self.visits += (nodes.total * self._depth + nodes.multiplicity * self._nodes) // PAIRS
        else:
            compared = nodes.total * nodes.each.bit_length()
            self.visits += compared * (self._depth + self._fan_out) // PAIRS

    # Values.

    def _texts(self, nodes: _Nodes) -> int:
        """Add what reading the string-values of all *nodes* costs; their characters."""
        if nodes.leaves:
            walked, characters = nodes.total, nodes.multiplicity * self._characters
        else:
            nested = 1 if nodes.level else self._depth
            walked = min(nodes.total, nodes.multiplicity * nested) * self._nodes
            characters = min(nodes.total, nodes.multiplicity * nested) * self._characters
        self.visits += walked + characters // CHARACTERS
        return characters

    def _string(self, value: _Value) -> _Value:
        """Add what ``string()`` costs: that of a node-set is that of its first node."""
        if value.nodes is None:
            return value
        self._sort(value.nodes)
        characters = self._texts(value.nodes._replace(total=value.nodes.runs))
        return _Value(text=characters, longest=self._characters)

    def _compare(self, left: _Value, right: _Value) -> None:
        """A comparison with a node-set is one with each of its nodes (XPath 1.0, section 3.4)."""
        if left.nodes is None or right.nodes is None:
            for value in (left, right):
                self.visits += value.text // CHARACTERS
                if value.nodes is not None:
                    self.visits += 2 * value.nodes.total
                    self._texts(value.nodes)
            return
        one, other = left.nodes, right.nodes
        pairs = min(one.total * other.each, other.total * one.each)
        characters = min(self._texts(one) * other.each, self._texts(other) * one.each)
        self.visits += (pairs + characters // CHARACTERS) // 2

    def _call(self, call: Call, at: _Nodes) -> _Value:
        arguments = [self.value(argument, at) for argument in call.arguments]
        name = call.function
        if name in ("true", "false", "position", "last"):
            return _ATOMIC
        if name == "id":
            return _Value(self._identified(arguments[0], at))
        if name == "lang":
            self.visits += at.runs * self._depth * 4
            return _ATOMIC
        if name == "sum":
            for argument in arguments:
                if argument.nodes is not None:
                    self._texts(argument.nodes)
            return _ATOMIC
        if name in ("count", "boolean", "not", "name", "local-name", "namespace-uri"):
            for argument in arguments:
                if argument.nodes is not None and name != "count":
                    self._sort(argument.nodes)
            longest = 2048 if name == "namespace-uri" else 1024
            return _Value(text=at.runs * longest // CHARACTERS, longest=longest)
        strings = [self._string(argument) for argument in arguments]
        if not arguments:  # string(), number(), string-length(), normalize-space()
            strings = [self._string(_Value(at._replace(each=1)))]
        return self._strings(name, strings)

    def _strings(self, name: str, strings: list[_Value]) -> _Value:
        """The functions of section 4.2 on their arguments."""
        text, longest = strings[0].text, strings[0].longest
        if name in ("contains", "starts-with", "substring-before", "substring-after"):
            # If the first characters agree, the others are compared.
            self.visits += text * (8 + strings[1].longest) // 64
        elif name == "translate":
            self.visits += text * (2 + strings[1].longest + strings[2].longest) // 4
        elif name == "concat":
            text = sum(value.text for value in strings)
            longest = sum(value.longest for value in strings)
        self.visits += text // 2
        return _Value(text=text, longest=longest)

    def _identified(self, value: _Value, at: _Nodes) -> _Nodes:
        """``id()`` looks each of the words up, and adds what it finds to a node-set."""
        characters = value.text if value.nodes is None else self._texts(value.nodes)
        each = min(self._nodes, characters // 2 + 1)
        self.visits += characters * (1 + each // PAIRS)
        return _Nodes(
            at.runs, at.runs * each, at.runs, each, level=False, ordered=False, apart=False
        )
