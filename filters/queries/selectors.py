"""Message selectors: conditions over typed properties, the subset of SQL-92 that JMS has (JMS 2.0,
section 3.8.1, "Message selector").

    station = 16622 AND unit LIKE 'm/%'
    height BETWEEN 10 AND 20 OR NOT (harbour IN ('Thessaloniki', 'Kavala'))

A selector is parsed here and evaluated here; no database sees it. Logic is three-valued: a property
that is missing is NULL, and a comparison with NULL is unknown. Beyond JMS a name may be delimited
(``"station id"``, as SQL-92 has it), and ``IN`` takes numbers too.

Values are exact: integers are compared with floating-point numbers by what they are, not after a
conversion, and arithmetic on integers neither wraps nor rounds. Values of different kinds are never
equal nor different: such a comparison is false (JMS 2.0, section 3.8.1.2).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, TypeAlias

from filters.queries.selector_evaluation import Condition, compile_condition
from filters.queries.selector_syntax import (
    And,
    Arithmetic,
    Comparison,
    Identifier,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Node,
    Not,
    Or,
    Value,
)
from filters.reasons import FilterError, Reason, quoted

MAX_CHARACTERS = 4096
MAX_TOKENS = 500
MAX_OPERATORS = 100
"""Operators of one selector, of arithmetic and comparison."""
MAX_NESTING = 32
"""Parentheses within parentheses."""
MAX_PATTERN = 256
"""Characters of a pattern of LIKE."""
LARGEST_LONG = 2**63

__all__ = ["Selector", "Value", "parse_selector"]


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """A selector that was parsed: its text, its syntax tree, and the condition that it is."""

    text: str
    tree: Node
    condition: Condition

    def holds(self, properties: Mapping[str, Value]) -> bool | None:
        """Return whether the selector is true of *properties*; None is unknown, which selects as
        little as false does."""
        return self.condition(properties)


def parse_selector(text: str) -> Selector:
    """Parse *text*.

    Raises:
        FilterError: ``FILTER_INVALID`` where it is not a selector, ``FILTER_COSTLY`` over a limit.
    """
    tree = _Parser(text).whole()
    return Selector(text, tree, compile_condition(tree))


class _Token(NamedTuple):
    kind: str
    """``text``, ``name``, ``number``, ``sign``, a keyword itself, or empty at the end."""
    value: Value
    place: int
    """Where it begins, in characters."""


_TOKEN = re.compile(
    r"""[ \t\r\n\f]*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<delimited>"(?:[^"]|"")+")
      | (?P<number>0[xX][0-9A-Fa-f]+[lL]?(?![\w$.])
          | (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[lLfFdD]?(?![\w$.]))
      | (?P<word>[^\W\d]|\$)(?P<rest>[\w$]*)
      | (?P<sign><>|<=|>=|[-=<>+*/(),])
    )""",
    re.VERBOSE,
)
_INTEGER = re.compile(r"(?:0|[1-9][0-9]*)[lL]?\Z")
_KEYWORDS = frozenset(
    ("AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE")
)
_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ORDERINGS = frozenset(("<", "<=", ">", ">="))
_NUMBER, _TEXT, _BOOLEAN = "a number", "a text", "a boolean"
_Kind: TypeAlias = str | None


def _tokens(text: str) -> list[_Token]:
    if len(text) > MAX_CHARACTERS:
        raise _costly(f"the condition has more than {MAX_CHARACTERS} characters")
    found: list[_Token] = []
    at, end = 0, len(text.rstrip(" \t\r\n\f"))
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            _misplaced(text[at:].lstrip()[:1], at)
        at = match.end()
        word = match["word"]
        place = match.start("word" if word else str(match.lastgroup))
        if word:
            word += match["rest"]
            keyword = word.upper()
            kind = keyword if keyword in _KEYWORDS else "name"
            found.append(_Token(kind, word, place))
        elif match["text"]:
            found.append(_Token("text", match["text"][1:-1].replace("''", "'"), place))
        elif match["delimited"]:
            found.append(_Token("name", match["delimited"][1:-1].replace('""', '"'), place))
        elif match["number"]:
            found.append(_Token("number", _number(match["number"], place), place))
        else:
            found.append(_Token("sign", match["sign"], place))
        if len(found) > MAX_TOKENS:
            raise _costly("the condition has too many words")
    if not found:
        raise _invalid("the condition is empty")
    found.append(_Token("", "", end))
    return found


def _number(text: str, place: int) -> int | float:
    value: int | float
    if text[:2].lower() == "0x":
        value = int(text.rstrip("lL")[2:], 16)
    elif _INTEGER.match(text):
        value = int(text.rstrip("lL"))
    elif text[-1] in "lL" or text.isdigit():
        raise _invalid(f"{quoted(text)} is not a number{_at(place)} (no 0 stands before others)")
    else:
        value = float(text.rstrip("fFdD"))
        if value == float("inf"):
            raise _invalid(f"{quoted(text)} is too large a number{_at(place)}")
        return value
    if value > LARGEST_LONG:
        raise _invalid(f"{quoted(text)} is too large an integer{_at(place)}")
    return value


class _Parser:
    """A parser by recursive descent. Its depth is bounded by the parentheses."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._nesting = MAX_NESTING
        self._operators = MAX_OPERATORS

    def whole(self) -> Node:
        node = self._condition(self._or())
        if self._next.kind:
            self._refuse()
        return node

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *kinds: str) -> _Token | None:
        """Take the next token if it is a keyword, or of a kind, among *kinds*."""
        token = self._next
        if token.kind not in kinds:
            return None
        self._at += 1
        return token

    def _take_sign(self, *signs: str) -> str | None:
        token = self._next
        if token.kind != "sign" or token.value not in signs:
            return None
        self._at += 1
        return str(token.value)

    def _or(self) -> Node:
        operands = [self._and()]
        while self._take("OR"):
            operands.append(self._and())
        return operands[0] if len(operands) == 1 else Or(tuple(map(self._condition, operands)))

    def _and(self) -> Node:
        operands = [self._not()]
        while self._take("AND"):
            operands.append(self._not())
        return operands[0] if len(operands) == 1 else And(tuple(map(self._condition, operands)))

    def _not(self) -> Node:
        negations = 0
        while self._take("NOT"):
            negations += 1
        node = self._predicate()
        if negations:
            node = self._condition(node)
        return Not(node) if negations % 2 else node

    def _predicate(self) -> Node:
        left = self._sum()
        operator = self._take_sign(*_COMPARISONS)
        if operator:
            return self._comparison(operator, left, self._sum())
        if self._take("IS"):
            negated = self._take("NOT")
            self._expect("NULL")
            node: Node = IsNull(self._name(left))
            return Not(node) if negated else node
        negated = self._take("NOT")
        if self._take("BETWEEN"):
            low = self._sum()
            self._expect("AND")
            high = self._sum()
            # JMS 2.0, section 3.8.1.1, says what each of the two is equivalent to.
            if negated:
                return Or((self._comparison("<", left, low), self._comparison(">", left, high)))
            return And((self._comparison(">=", left, low), self._comparison("<=", left, high)))
        if self._take("IN"):
            node = In(self._name(left), self._list())
        elif self._take("LIKE"):
            node = self._like(self._name(left))
        elif negated:
            self._refuse()
        else:
            return left
        return Not(node) if negated else node

    def _list(self) -> tuple[Value, ...]:
        values: list[Value] = []
        self._expect_sign("(")
        while True:
            sign = self._take_sign("+", "-")
            token = self._take("number") if sign else self._take("text", "number")
            if token is None:
                self._refuse()
            value = token.value
            values.append(-value if sign == "-" and not isinstance(value, str) else value)
            if not self._take_sign(","):
                break
        self._expect_sign(")")
        return tuple(values)

    def _like(self, name: str) -> Like:
        pattern, escape = self._expect("text"), ""
        if self._take("ESCAPE"):
            token = self._expect("text")
            escape = str(token.value)
            if len(escape) != 1:
                raise _invalid(f"ESCAPE takes one character{_at(token.place)}")
        if len(str(pattern.value)) > MAX_PATTERN:
            raise _costly(f"a pattern of LIKE has more than {MAX_PATTERN} characters")
        try:
            return Like.read(name, str(pattern.value), escape)
        except ValueError:
            raise _invalid(
                f"the pattern of LIKE escapes another character than % and _{_at(pattern.place)}"
            ) from None

    def _comparison(self, operator: str, left: Node, right: Node) -> Node:
        self._count()
        kinds = self._value(left), self._value(right)
        known = [kind for kind in kinds if kind is not None]
        if len(known) == 2 and known[0] != known[1]:
            raise _invalid(f"the condition compares {known[0]} with {known[1]}")
        if operator in _ORDERINGS and known and known[0] != _NUMBER:
            raise _invalid("texts and booleans are compared by = and <> alone")
        if isinstance(left, Literal) and isinstance(right, Identifier):
            return Comparison(_FLIPPED[operator], right, left)
        return Comparison(operator, left, right)

    def _sum(self) -> Node:
        node = self._product()
        while operator := self._take_sign("+", "-"):
            node = self._arithmetic(operator, node, self._product())
        return node

    def _product(self) -> Node:
        node = self._signed()
        while operator := self._take_sign("*", "/"):
            node = self._arithmetic(operator, node, self._signed())
        return node

    def _arithmetic(self, operator: str, left: Node, right: Node) -> Node:
        self._count()
        self._numeric(left)
        self._numeric(right)
        return Arithmetic(operator, left, right)

    def _signed(self) -> Node:
        signs: list[str] = []
        while sign := self._take_sign("+", "-"):
            signs.append(sign)
        node = self._primary()
        if signs:
            self._numeric(node)
        if signs.count("-") % 2 == 0:
            return node
        if isinstance(node, Literal) and not isinstance(node.value, str):
            return Literal(-node.value)
        return Negative(node)

    def _primary(self) -> Node:
        if self._take_sign("("):
            self._nesting -= 1
            if self._nesting < 0:
                raise _costly("the condition is nested too deeply")
            node = self._or()
            self._nesting += 1
            self._expect_sign(")")
            return node
        token = self._take("text", "number", "name", "TRUE", "FALSE")
        if token is None:
            self._refuse()
        match token.kind:
            case "name":
                return Identifier(str(token.value))
            case "TRUE" | "FALSE":
                return Literal(token.kind == "TRUE")
            case _:
                return Literal(token.value)

    def _condition(self, node: Node) -> Node:
        """Return *node*, which stands where a condition must."""
        match node:
            case Arithmetic() | Negative() | Literal(value=str() | float()):
                raise _invalid("the condition has a value where a comparison belongs")
            case Literal(value=value) if not isinstance(value, bool):
                raise _invalid("the condition has a value where a comparison belongs")
        return node

    def _value(self, node: Node) -> _Kind:
        """Return what kind of value *node* is; None where that is not known before."""
        match node:
            case Identifier():
                return None
            case Arithmetic() | Negative():
                return _NUMBER
            case Literal(value=bool()):
                return _BOOLEAN
            case Literal(value=str()):
                return _TEXT
            case Literal():
                return _NUMBER
        raise _invalid("the condition has a comparison where a value belongs")

    def _numeric(self, node: Node) -> None:
        if self._value(node) not in (None, _NUMBER):
            raise _invalid("the condition calculates with a value that is not a number")

    def _name(self, node: Node) -> str:
        if not isinstance(node, Identifier):
            raise _invalid(f"the name of a property belongs before{_at(self._next.place)}")
        return node.name

    def _expect(self, kind: str) -> _Token:
        token = self._take(kind)
        if token is None:
            self._refuse()
        return token

    def _expect_sign(self, sign: str) -> None:
        if not self._take_sign(sign):
            self._refuse()

    def _count(self) -> None:
        self._operators -= 1
        if self._operators < 0:
            raise _costly("the condition has too many operators")

    def _refuse(self) -> NoReturn:
        token = self._next
        if not token.kind:
            raise _invalid("the condition ends too early")
        _misplaced(str(token.value), token.place)


def _misplaced(what: str, place: int) -> NoReturn:
    raise _invalid(f"{quoted(what)} does not belong there{_at(place)}")


def _at(place: int) -> str:
    return f", at character {place + 1}"


def _invalid(text: str) -> FilterError:
    return FilterError(Reason.FILTER_INVALID, text)


def _costly(text: str) -> FilterError:
    return FilterError(Reason.FILTER_COSTLY, text)
