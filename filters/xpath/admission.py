"""XPath 1.0 content filters: what of them we take, and their compilation by libxml2.

An expression is read twice. Our own scanner, one pass without recursion, knows enough of the
grammar to count what costs (reliability, section 3), and to refuse what is not XPath 1.0's core
(Q04). What it lets through, libxml2 compiles, and its answers are the verdict.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lxml import etree

from filters.filter import Namespaces
from filters.ncname import NCNAME
from filters.reasons import FilterError, Reason

XML_PREFIX = "xml"
"""The one prefix that is in scope everywhere (Namespaces in XML 1.0, section 3)."""


@dataclass(frozen=True, slots=True)
class XPathLimits:
    """What one expression may have. *nesting* counts parentheses and brackets together."""

    octets: int = 4096
    operators: int = 100
    """Operators and commas; the slashes are counted as steps."""
    nesting: int = 16
    steps: int = 64
    predicates: int = 32


_FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "last": (0, 0),
    "position": (0, 0),
    "count": (1, 1),
    "id": (1, 1),
    "local-name": (0, 1),
    "namespace-uri": (0, 1),
    "name": (0, 1),
    "string": (0, 1),
    "concat": (2, None),
    "starts-with": (2, 2),
    "contains": (2, 2),
    "substring-before": (2, 2),
    "substring-after": (2, 2),
    "substring": (2, 3),
    "string-length": (0, 1),
    "normalize-space": (0, 1),
    "translate": (3, 3),
    "boolean": (1, 1),
    "not": (1, 1),
    "true": (0, 0),
    "false": (0, 0),
    "lang": (1, 1),
    "number": (0, 1),
    "sum": (1, 1),
    "floor": (1, 1),
    "ceiling": (1, 1),
    "round": (1, 1),
}
"""The core library (XPath 1.0, section 4) with the fewest and the most arguments."""

_NODE_TYPES = frozenset({"comment", "text", "processing-instruction", "node"})
_AXES = frozenset(
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
_OPERATOR_NAMES = frozenset({"and", "or", "mod", "div"})

_TOKEN = re.compile(
    rf"""[ \t\r\n]*(?:
      (?P<literal>"[^"]*"|'[^']*')
    | (?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)
    | (?P<slash>//?)
    | (?P<operator>!=|<=|>=|[|+\-=<>])
    | (?P<mark>::|\.\.|[()\[\].@,*$])
    | (?P<name>{NCNAME}(?::(?:{NCNAME}|\*))?)
    )""",
    re.VERBOSE,
)
_BLANKS = " \t\r\n"

_FOLLOWING = re.compile(r"[ \t\r\n]*(\(|::)?")

# A token's kind and its text. The kinds are "literal", "number", "slash", "operator", "axis",
# "function", "type", "test" (a name test, or `*`), "." (also for `..`), and the other marks.
_Token = tuple[str, str]

# A path begins where one of these ended; and a `*` or a name behind these, or inside a path, is
# a name test, but behind anything else an operator (XPath 1.0, section 3.7, "Lexical Structure").
_BEFORE_PATH = frozenset({"", "(", "[", ",", "operator"})
_BEFORE_OPERAND = _BEFORE_PATH | {"@", "axis", "slash"}

_COUNTED_AS = {"operator": "operator", ",": "operator", "[": "["} | dict.fromkeys(
    ("test", "type", "."), "step"
)


def check(text: str, namespaces: Namespaces, limits: XPathLimits = XPathLimits()) -> None:
    """Refuse *text* unless it is an expression of XPath 1.0 within *limits*.

    What is left to libxml2 is the order of the tokens.

    Raises:
        FilterError: ``FILTER_COSTLY`` over a limit, else ``FILTER_INVALID``.
    """
    if len(text) > limits.octets or len(text.encode(errors="surrogatepass")) > limits.octets:
        raise _costly("the expression is too long")
    prefixes = dict(namespaces)
    counted = {"operator": 0, "step": 0, "[": 0}
    ceilings = {"operator": limits.operators, "step": limits.steps, "[": limits.predicates}
    brackets = _Brackets(limits.nesting)
    empty = True
    for kind, word in _tokens(text):
        empty = False
        counted_as = _COUNTED_AS.get(kind)
        if counted_as is not None:
            counted[counted_as] += 1
            if counted[counted_as] > ceilings[counted_as]:
                raise _costly("the expression has too many operators, steps or predicates")
        brackets.take(kind, word)
        if kind == "test":
            _check_prefix(word, prefixes)
    if empty:
        raise _invalid("the expression is empty")
    brackets.end()


def compile_xpath(
    text: str, namespaces: Namespaces, limits: XPathLimits = XPathLimits()
) -> etree.XPath:
    """Compile *text* into an expression with a boolean value, after `check`.

    Raises:
        FilterError: As `check`; ``FILTER_INVALID`` for what libxml2 refuses.
    """
    check(text, namespaces, limits)
    # Safe to wrap: every bracket closes inside the text, no comma stands outside a call, and
    # XPath 1.0 has no comments. So libxml2 converts, by the rules of boolean().
    wrapped = f"boolean({text})"
    try:
        compiled = etree.XPath(
            wrapped, namespaces=_bindings(namespaces), regexp=False, smart_strings=False
        )
        # libxml2 sees only when it evaluates that `count(1)` has no node-set.
        compiled(etree.Element("a"))
    except (etree.XPathError, ValueError) as exc:
        raise _invalid("the expression is not XPath 1.0") from exc
    return compiled


def names_payload_root(text: str) -> bool:
    """Whether *text* is meant for the payload as a document of its own.

    True when some absolute path in it begins with the name of an element that is not
    ``Envelope`` (``/c/b/a``, ``/o:Reading``): over an envelope that never matches. Of a text
    that is no expression, False; compiling it says what is wrong.
    """
    try:
        tokens = [("", ""), *_tokens(text), ("", ""), ("", "")]
    except FilterError:
        return False
    for index, (kind, word) in enumerate(tokens):
        if kind == "slash" and word == "/" and tokens[index - 1][0] in _BEFORE_PATH:
            spelt_out = tokens[index + 1] == ("axis", "child")
            first, name = tokens[index + 2 if spelt_out else index + 1]
            if first == "test" and name.rpartition(":")[2] not in ("*", "Envelope"):
                return True
    return False


def _tokens(text: str) -> Iterator[_Token]:
    """The tokens of *text*, names told apart by what stands before and behind them.

    Raises:
        FilterError: Something is no token of XPath 1.0, or no function or axis of it.
    """
    position, end = 0, len(text.rstrip(_BLANKS))
    previous = ""
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None or found.lastgroup is None:
            raise _invalid("the expression is not XPath 1.0")
        position = found.end()
        kind = found.lastgroup
        word = found[kind]
        operand = previous in _BEFORE_OPERAND
        if kind == "name":
            follower = _FOLLOWING.match(text, position) if operand else None
            kind = _kind_of_name(word, follower[1] if follower else None, operand)
            if kind == "axis" and follower:
                position = follower.end()
        elif kind == "mark":
            kind = _kind_of_mark(word, operand)
        previous = kind
        yield kind, word


def _kind_of_name(name: str, follower: str | None, operand: bool) -> str:
    if not operand:
        if name not in _OPERATOR_NAMES:
            raise _invalid("the expression has a name where an operator belongs")
        return "operator"
    if follower == "::":
        if name not in _AXES:
            raise _invalid("the expression has an axis that is none of XPath 1.0")
        return "axis"
    if follower == "(":
        if name in _NODE_TYPES:
            return "type"
        if name not in _FUNCTIONS:
            raise _invalid("the expression has a function outside the XPath 1.0 core library")
        return "function"
    return "test"


def _kind_of_mark(mark: str, operand: bool) -> str:
    if mark == "$":
        raise _invalid("the expression has a variable, and none are bound")
    if mark == "::":
        raise _invalid("the expression has an axis without a name")
    if mark == "*":
        return "test" if operand else "operator"
    return "." if mark == ".." else mark


class _Brackets:
    """What is open at one place of an expression: parentheses, calls, predicates."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: list[_Bracket] = []
        self._called = ""

    def take(self, kind: str, word: str) -> None:
        """Follow one token."""
        if kind in (")", "]"):
            self._close(kind)
            return
        if self._open:
            self._open[-1].filled = True
        if kind in ("(", "["):
            if len(self._open) == self._limit:
                raise _costly("the expression is nested too deeply")
            self._open.append(_Bracket(")" if kind == "(" else "]", self._called))
        elif kind == ",":
            if not self._open or not self._open[-1].function:
                raise _invalid("the expression has a comma outside a function call")
            self._open[-1].commas += 1
        self._called = word if kind == "function" else ""

    def end(self) -> None:
        if self._open:
            raise _invalid("the expression has a bracket that is not closed")

    def _close(self, kind: str) -> None:
        if not self._open or self._open[-1].closing != kind:
            raise _invalid("the expression has a bracket that was not opened")
        bracket = self._open.pop()
        if bracket.function:
            fewest, most = _FUNCTIONS[bracket.function]
            arguments = bracket.commas + 1 if bracket.filled else 0
            if arguments < fewest or (most is not None and arguments > most):
                raise _invalid("the expression has a function with the wrong arguments")


@dataclass(slots=True)
class _Bracket:
    closing: str
    function: str
    """The function whose arguments it encloses, else empty."""
    commas: int = 0
    filled: bool = False


def _check_prefix(test: str, prefixes: Mapping[str, str]) -> None:
    prefix, colon, _ = test.partition(":")
    if colon and prefix != XML_PREFIX and not prefixes.get(prefix):
        raise _invalid("the expression has an undeclared prefix")


def _bindings(namespaces: Namespaces) -> dict[str, str]:
    """The prefixes as lxml takes them; XPath 1.0 has no default namespace."""
    return {prefix: uri for prefix, uri in namespaces if uri and prefix not in ("", XML_PREFIX)}


def _invalid(text: str) -> FilterError:
    return FilterError(Reason.FILTER_INVALID, text)


def _costly(text: str) -> FilterError:
    return FilterError(Reason.FILTER_COSTLY, text)
