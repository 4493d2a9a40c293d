"""XPath 1.0 expressions into syntax trees (XPath 1.0, sections 2 and 3).

What is taken is XPath 1.0's core within limits, no variables, and no more: what libxml2 finds only
while it evaluates (``count(1)``, ``'a'/b``, ``last()`` where there is no context size) is refused
here. So libxml2 compiles every expression that has a tree, and evaluates it over any document
without an error.

Recursion is bounded by the nesting of brackets and the levels of precedence, not by the length.
"""

from filters.filter import Expression, Namespaces
from filters.reasons import FilterError, Reason, quoted
from filters.xpath.functions import FUNCTIONS, NODE_SET, NUMBER
from filters.xpath.limits import DEFAULT_LIMITS, XPathLimits
from filters.xpath.syntax import (
    ANY_NAME,
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
    Span,
    Step,
)
from filters.xpath.tokens import costly, invalid, place, tokenize

XML_PREFIX = "xml"
"""The one prefix that is in scope everywhere (Namespaces in XML 1.0, section 3)."""
XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"

NODE_TYPES = frozenset({"comment", "text", "processing-instruction", "node"})
AXES = frozenset(
    {
        "ancestor",
        "ancestor-or-self",
        "attribute",
        "child",
        "descendant",
        "descendant-or-self",
        "following",
        "following-sibling",
        "namespace",
        "parent",
        "preceding",
        "preceding-sibling",
        "self",
    }
)

_UNION = 7
PRECEDENCE = {
    "or": 1,
    "and": 2,
    "=": 3,
    "!=": 3,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "div": 6,
    "mod": 6,
    "|": _UNION,
}
"""The precedence of operators: a higher number binds more tightly; a sign binds more tightly than
all but ``|``. All are left-associative (section 3.5)."""

_ARITHMETIC = frozenset({"+", "-", "*", "div", "mod"})

_MARKS = frozenset("\"'0123456789/|!<>=+-.:()[]@,*$")
"""The first characters of tokens that are not names."""
_STEP_MARKS = frozenset((".", "..", "@", "*"))
"""The tokens of these with which a step can begin."""
_DIGITS = frozenset("0123456789")
_CONTEXT_FUNCTIONS = frozenset({"last", "position"})


class UndeclaredPrefix(FilterError):
    """An expression has a prefix without a namespace; its value is the prefix."""


def parse(expression: Expression, limits: XPathLimits = DEFAULT_LIMITS) -> Node:
    """The syntax tree of *expression*; its dialect and its view are not looked at.

    Raises:
        FilterError: ``FILTER_COSTLY`` over a limit, else ``FILTER_INVALID``. Its value is the
            name at fault, or the text from the fault on.
        UndeclaredPrefix: One of these.
    """
    return parse_text(expression.text, expression.namespaces, limits)


def parse_text(text: str, namespaces: Namespaces, limits: XPathLimits = DEFAULT_LIMITS) -> Node:
    """Parse *text*, as `parse`."""
    return _Parser(text, namespaces, limits).whole()


def is_node_set(node: Node) -> bool:
    """Return True if the value of *node* is a node-set."""
    kind = type(node)
    if kind is Path or kind is Filtered:
        return True
    if isinstance(node, Operation):
        return node.operator == "|"
    return isinstance(node, Call) and FUNCTIONS[node.function].gives == NODE_SET


def is_number(node: Node) -> bool:
    """Return True if the value of *node* is a number; as a predicate that is a position (section
    2.4)."""
    match node:
        case Number() | Negative():
            return True
        case Call(function=function):
            return FUNCTIONS[function].gives == NUMBER
        case Operation(operator=operator):
            return operator in _ARITHMETIC
        case _:
            return False


class _Parser:
    """The parser of one text; the next word is ``at``."""

    __slots__ = (
        "_at",
        "_ends",
        "_in_predicates",
        "_nesting",
        "_operators",
        "_prefixes",
        "_steps",
        "_text",
        "_words",
    )

    def __init__(self, text: str, namespaces: Namespaces, limits: XPathLimits) -> None:
        self._text = text
        self._words, self._ends = tokenize(text, limits)
        if self._words.count("[") > limits.predicates:
            raise _too_many()
        self._prefixes = dict(namespaces)
        self._prefixes[XML_PREFIX] = XML_NAMESPACE
        self._at = 0
        self._in_predicates = 0
        # The rest of each text.
        self._nesting = limits.nesting
        self._operators = limits.operators
        self._steps = limits.steps

    def whole(self) -> Node:
        node = self._expression(1)
        if self._words[self._at]:
            raise self._misplaced()
        return node

    def _expression(self, lowest: int) -> Node:
        """Operands, and between them operators of precedence *lowest* and above (section 3.5)."""
        words = self._words
        first = self._at
        node = self._negative() if words[first] == "-" and lowest <= _UNION else self._operand()
        while True:
            operator = words[self._at]
            precedence = PRECEDENCE.get(operator, 0)
            if precedence < lowest:
                return node
            self._count_operators(1)
            self._at += 1
            right = self._expression(precedence + 1)
            if precedence == _UNION and not (is_node_set(node) and is_node_set(right)):
                raise invalid("the expression has a union (|) with a side that is not a node-set")
            node = Operation(operator, node, right, self._span(first))

    def _negative(self) -> Node:
        first = self._at
        while self._words[self._at] == "-":
            self._at += 1
        signs = range(first, self._at)
        self._count_operators(len(signs))
        node = self._expression(_UNION)
        for sign in reversed(signs):
            node = Negative(node, self._span(sign))
        return node

    def _operand(self) -> Node:
        """A path, or a filter expression and perhaps steps behind it (sections 2 and 3.3)."""
        at = self._at
        word = self._words[at]
        mark = word[:1]
        node: Node
        if mark == "/":
            return self._absolute(word)
        if mark == "'" or mark == '"':
            self._at = at + 1
            node = Literal(word[1:-1], self._span(at))
        elif mark == "(":
            self._at = at + 1
            node = self._enclosed(")")
        elif mark in _DIGITS or (mark == "." and word[1:2] in _DIGITS):
            self._at = at + 1
            node = Number(word, self._span(at))
        elif self._words[at + 1] == "(" and word not in NODE_TYPES and mark not in _MARKS:
            node = self._call(word)
        else:
            return Path(self._relative([]), False, None, self._span(at))
        word = self._words[self._at]
        if word == "[" or word == "/" or word == "//":
            return self._filtered(node, at)
        return node

    def _absolute(self, slashes: str) -> Path:
        at = self._at
        self._at = at + 1
        steps: list[Step] = []
        if slashes == "//":
            steps.append(Step("descendant-or-self", ANY_NODE, (), self._span(at)))
        else:
            # `/` alone, unless a step can begin here (section 2, [2]; a `*` or a name is one).
            word = self._words[at + 1]
            if not word or (word[0] in _MARKS and word not in _STEP_MARKS):
                return Path((), True, None, self._span(at))
        return Path(self._relative(steps), True, None, self._span(at))

    def _filtered(self, node: Node, first: int) -> Node:
        """Read what stands behind a primary expression: predicates, then steps."""
        if not is_node_set(node):
            raise invalid(
                "the expression has a predicate or a step behind something that is not a node-set"
            )
        predicates = self._predicates()
        if predicates:
            node = Filtered(node, predicates, self._span(first))
        slashes = self._words[self._at]
        if slashes != "/" and slashes != "//":
            return node
        steps: list[Step] = []
        self._at += 1
        if slashes == "//":
            steps.append(Step("descendant-or-self", ANY_NODE, (), self._span(self._at - 1)))
        return Path(self._relative(steps), False, node, self._span(first))

    def _relative(self, steps: list[Step]) -> tuple[Step, ...]:
        """Add the steps from here on to *steps*."""
        while True:
            steps.append(self._step())
            slashes = self._words[self._at]
            if slashes == "/":
                self._at += 1
            elif slashes == "//":
                self._at += 1
                span = self._span(self._at - 1)
                steps.append(Step("descendant-or-self", ANY_NODE, (), span))
            else:
                return tuple(steps)

    def _step(self) -> Step:
        words = self._words
        first = self._at
        word = words[first]
        self._steps -= 1
        if self._steps < 0:
            raise _too_many()
        axis = "child"
        if word == "@":
            axis = "attribute"
            self._at = first + 1
        elif words[first + 1] == "::":
            if word not in AXES:
                raise self._names("an axis that XPath 1.0 does not have", word, self._at)
            axis = word
            self._at = first + 2
        elif word == "." or word == "..":
            self._at = first + 1
            return Step("self" if word == "." else "parent", ANY_NODE, (), self._span(first))
        test = self._node_test()
        predicates = self._predicates() if words[self._at] == "[" else ()
        return Step(axis, test, predicates, self._span(first))

    def _node_test(self) -> NameTest | KindTest:
        at = self._at
        word = self._words[at]
        self._at = at + 1
        if word == "*":
            return ANY_NAME
        if not word or word[0] in _MARKS:
            self._at = at
            raise self._misplaced()
        if self._words[at + 1] == "(" and word in NODE_TYPES:
            return self._kind_test(word)
        prefix, colon, local = word.partition(":")
        if not colon:
            return NameTest("", word)
        namespace = self._prefixes.get(prefix)
        if not namespace:
            text = f"the prefix {quoted(prefix)} of the expression is not declared{self._place(at)}"
            raise UndeclaredPrefix(Reason.FILTER_INVALID, text, value=prefix)
        return NameTest(namespace, None if local == "*" else local)

    def _kind_test(self, kind: str) -> KindTest:
        """Read a kind test, from the parenthesis behind *kind*."""
        self._at += 1
        target = None
        word = self._words[self._at]
        if kind == "processing-instruction" and word[:1] in ("'", '"'):
            target = word[1:-1]
            self._at += 1
        self._expect(")")
        return KindTest(kind, target)

    def _predicates(self) -> tuple[Node, ...]:
        found: list[Node] = []
        self._in_predicates += 1
        while self._words[self._at] == "[":
            self._at += 1
            found.append(self._enclosed("]"))
        self._in_predicates -= 1
        return tuple(found)

    def _call(self, name: str) -> Call:
        function = FUNCTIONS.get(name)
        if function is None:
            what = "a function outside the XPath 1.0 core library"
            raise self._names(what, name, self._at)
        if name in _CONTEXT_FUNCTIONS and not self._in_predicates:
            raise self._names("a position outside a predicate", name, self._at)
        first = self._at
        self._at = first + 2
        arguments: list[Node] = []
        if self._words[self._at] == ")":
            self._at += 1
        else:
            closing = ","
            while closing == ",":
                arguments.append(self._enclosed(",", ")"))
                closing = self._words[self._at - 1]
            self._count_operators(len(arguments) - 1)
        most = len(arguments) if function.most is None else function.most
        if not function.fewest <= len(arguments) <= most:
            raise self._names("a function with the wrong arguments", name, first)
        if function.takes and not all(map(is_node_set, arguments)):
            raise self._names("a function that needs a node-set as its argument", name, first)
        return Call(name, tuple(arguments), self._span(first))

    def _enclosed(self, *closing: str) -> Node:
        """An expression and the bracket behind it, one of *closing*."""
        self._nesting -= 1
        if self._nesting < 0:
            raise costly("the expression is nested too deeply")
        node = self._expression(1)
        self._nesting += 1
        self._expect(*closing)
        return node

    def _expect(self, *words: str) -> None:
        if self._words[self._at] not in words:
            raise self._misplaced()
        self._at += 1

    def _count_operators(self, number: int) -> None:
        self._operators -= number
        if self._operators < 0:
            raise _too_many()

    def _span(self, first: int) -> Span:
        """Return the span from word *first* to the last one read."""
        ends = self._ends
        return ends[first] - len(self._words[first]), ends[self._at - 1]

    def _misplaced(self) -> FilterError:
        word = self._words[self._at]
        if not word:
            return invalid(f"the expression ends too early{self._place(self._at)}")
        if word == "$":
            where = self._place(self._at)
            return invalid(f"the expression has a variable, and none are bound{where}")
        if word[0] not in _MARKS:
            return self._names("a name where an operator belongs", word, self._at)
        start = self._ends[self._at] - len(word)
        return invalid(f"the expression is not XPath 1.0{place(start)}", self._text[start:])

    def _names(self, what: str, name: str, at: int) -> FilterError:
        """An error about *name*, which is word *at*."""
        text = f"the expression has {what}: {quoted(name)}{self._place(at)}"
        return invalid(text, name)

    def _place(self, at: int) -> str:
        """Return where word *at* begins."""
        return place(self._ends[at] - len(self._words[at]))


def _too_many() -> FilterError:
    return costly("the expression has too many operators, steps or predicates")
