"""A seeded generator of expressions: those that plans are exact about, and wild ones.

They speak of the names and values of `tests.filters.matching.nasty`.
"""

import random

from filters import Expression, Namespaces

NAMESPACES: Namespaces = (("p", "urn:p"), ("q", "urn:q"))

_NAMES = ["a", "a", "b", "b", "c", "d", "p:a", "p:b", "q:a", "*", "*", "p:*"]
_ATTRIBUTES = ["x", "x", "y", "p:x", "*", "p:*"]
_STRINGS = ["", "x", "y", "xy", "1", "2", "7", " 7 ", "10", "-0", "00E1", "1e5", "+1", "é"]
_NUMBERS = ["0", "1", "2", "7", "10", "1.5", ".5", "-1", "-0", "5.", "100000", "0.1", "9", "3"]
_ODD_NUMBERS = ["12345678901234567", "0.12345678901234567", "000000000000000001", "- -1", "--2"]
_COMPARISONS = ["=", "=", "=", "!=", "<", "<=", ">", ">="]
_FORWARD = ["child", "descendant", "descendant-or-self", "self"]
_OTHER = [
    "parent",
    "ancestor",
    "ancestor-or-self",
    "following",
    "following-sibling",
    "preceding",
    "preceding-sibling",
    "namespace",
]
_NODE_TESTS = ["node()", "text()", "comment()", "processing-instruction()"]


class Grammar:
    """*wild*: how often (0 to 1) something is taken that plans can say nothing exact about."""

    def __init__(self, chance: random.Random, wild: float = 0.0) -> None:
        self._chance = chance
        self._wild = wild

    def expression(self) -> Expression:
        return Expression(self.condition(3), namespaces=NAMESPACES)

    def condition(self, depth: int) -> str:
        chance = self._chance
        kind = chance.random()
        if depth <= 0 or kind < 0.30:
            return self.path(depth)
        if kind < 0.55:
            return self.comparison(depth)
        if kind < 0.63:
            return f"{self.condition(depth - 1)} and {self.condition(depth - 1)}"
        if kind < 0.71:
            return f"({self.condition(depth - 1)} or {self.condition(depth - 1)})"
        if kind < 0.79:
            return f"not({self.condition(depth - 1)})"
        if kind < 0.81:
            return f"boolean({self.condition(depth - 1)})"
        if kind < 0.83:
            return f"{self.path(depth)} | {self.path(depth)}"
        if kind < 0.89:
            return self.function(depth)
        if kind < 0.93:
            return self.bounds(depth)
        if kind < 0.95:
            return self.count(depth)
        if kind < 0.97:
            return self.named()
        if kind < 0.98:
            return chance.choice(["true()", "false()", "'x'", "''"])
        return self.odd(depth)

    def path(self, depth: int) -> str:
        chance = self._chance
        start = chance.choice(["", "", "", "/", "//", "/*/", "./", ".//", "*/"])
        if chance.random() < 0.1:
            return chance.choice(
                [".", "@x", "@p:x", "text()", "@*", "/", "//.", "self::a", ".//.", "//@x"]
            )
        steps = [self.step(depth) for _ in range(chance.choice([1, 1, 2, 2, 3]))]
        end = chance.random()
        if end < 0.18:
            steps.append("@" + chance.choice(_ATTRIBUTES) + self.leaf())
        elif end < 0.26:
            steps.append("text()" + self.leaf())
        elif end < 0.28:
            steps.append(".")
        if self._is_wild():
            wild = chance.choice(
                ["..", "node()", "comment()", "text()/..", "@x/..", "namespace::*"]
            )
            steps.insert(chance.randrange(len(steps) + 1), wild)
        path = steps[0]
        for step in steps[1:]:
            path += chance.choice(["/", "/", "/", "//"]) + step
        if self._is_wild():
            return f"({start}{path})[{self.position()}]"
        if chance.random() < 0.03:
            return f"({start}{path} | {self.step(0)})/{self.step(depth - 1)}"
        return start + path

    def step(self, depth: int) -> str:
        chance = self._chance
        step = chance.choice(_NAMES)
        if chance.random() < 0.1:
            step = f"{chance.choice(_FORWARD)}::{step}"
        elif self._is_wild():
            test = chance.choice([step, *_NODE_TESTS])
            step = f"{chance.choice(_FORWARD + _OTHER + ['attribute'])}::{test}"
        while depth > 0 and chance.random() < 0.3:
            depth -= 1
            wild = self._is_wild()
            step += f"[{self.position() if wild else self.condition(depth)}]"
        return step

    def leaf(self) -> str:
        """Perhaps a predicate on text or an attribute."""
        chance = self._chance
        if chance.random() > 0.12:
            return ""
        return chance.choice(
            [
                f"[.={self.literal()}]",
                f"[.={self.literal()} or .={self.literal()}]",
                f"[contains(., {self.literal()})]",
                "[local-name()='x']",
                "[namespace-uri()='urn:p']",
                "[self::x]",
                f"[.!={self.literal()}][.!={self.literal()}]",
                f"[not(.={self.literal()})]",
            ]
        )

    def comparison(self, depth: int) -> str:
        chance = self._chance
        left = self.path(depth - 1) if chance.random() < 0.8 else "."
        right = self.literal() if chance.random() < 0.5 else self.number()
        if self._is_wild():
            right = chance.choice(
                [self.path(0), "1 + 1", "string(@x)", "count(*)", "true()", "false()", "-a"]
            )
        sides = [left, right]
        if chance.random() < 0.15:
            sides.reverse()
        return f"{sides[0]} {chance.choice(_COMPARISONS)} {sides[1]}"

    def bounds(self, depth: int) -> str:
        chance = self._chance
        path = self.path(0)
        low, high = chance.choice([">", ">="]), chance.choice(["<", "<="])
        bounds = [f"{path} {low} {self.number()}", f"{path} {high} {self.number()}"]
        chance.shuffle(bounds)
        return " and ".join(bounds)

    def function(self, depth: int) -> str:
        chance = self._chance
        subject = chance.choice([".", "@x", "a", "b", "*/@x", "@*", "text()", self.path(depth - 1)])
        name = chance.choice(["contains", "starts-with", "contains", "string", "number"])
        if name == "string":
            return f"string({subject}) {chance.choice(_COMPARISONS)} {self.literal()}"
        if name == "number":
            return f"number({subject}) {chance.choice(_COMPARISONS)} {self.number()}"
        return f"{name}({subject}, {self.literal()})"

    def count(self, depth: int) -> str:
        chance = self._chance
        number = chance.choice(["0", "0", "1", "1", "2", "0.5", "-1", "'x'"])
        sides = [f"count({self.path(depth - 1)})", number]
        if chance.random() < 0.2:
            sides.reverse()
        return f"{sides[0]} {chance.choice(_COMPARISONS)} {sides[1]}"

    def named(self) -> str:
        chance = self._chance
        if chance.random() < 0.7:
            function, value = "local-name", chance.choice(["a", "b", "x", ""])
        else:
            function, value = "namespace-uri", chance.choice(["urn:p", "urn:q", ""])
        argument = chance.choice(["", "", ".", "/*", "*"])
        return f"{function}({argument}) {chance.choice(['=', '!='])} '{value}'"

    def odd(self, depth: int) -> str:
        chance = self._chance
        if not self._is_wild():
            return chance.choice(["1 = 1", "'a' != 'a'", "'2' > 1", "'x' < 1", "0", "5"])
        return chance.choice(
            [
                f"string-length({self.path(0)}) > 1",
                f"normalize-space({self.path(0)}) = {self.literal()}",
                f"sum({self.path(0)}) > 1",
                f"{self.path(0)} + 1 = 2",
                f"-{self.path(0)}",
                f"id({self.literal()})/a",
                "lang('en')",
                f"name({self.path(0)}) = 'p:a'",
                f"substring({self.path(0)}, 1, 1) = 'x'",
                f"({self.condition(0)}) = true()",
                f"({self.condition(depth - 1)}) != false()",
                f"{self.path(0)} = concat('x', 'y')",
                f"contains({self.path(0)}, {self.path(0)})",
                f"{self.path(0)} < {chance.choice(_ODD_NUMBERS)}",
            ]
        )

    def position(self) -> str:
        chance = self._chance
        return chance.choice(
            [
                "1",
                "2",
                "last()",
                "position() = 2",
                "position() < 2 and @x",
                "last() > 1",
                "count(*)",
                "-1",
                "last() = 1 or a",
                "not(position() = 1)",
            ]
        )

    def literal(self) -> str:
        return f"'{self._chance.choice(_STRINGS)}'"

    def number(self) -> str:
        return self._chance.choice(_NUMBERS)

    def _is_wild(self) -> bool:
        return self._chance.random() < self._wild
