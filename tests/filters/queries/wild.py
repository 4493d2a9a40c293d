"""A seeded generator of expressions with all functions and axes, for documents of
`tests.filters.matching.nasty`."""

import random

from filters import Expression
from tests.filters.matching.expressions import NAMESPACES, Grammar

_NUMBERS = ["0", "1", "2", "3", "1.5", "0.5", "-1", "2.5", "-0.5", "10"]
_LETTERS = ["'abcé'", "'xy1'", "'é7'", "'1x'", "'xx'", "''"]
_COMPARISONS = ["=", "!=", "<", "<=", ">", ">="]
_AXES = [
    "ancestor",
    "ancestor-or-self",
    "following",
    "following-sibling",
    "parent",
    "preceding",
    "preceding-sibling",
    "self",
]
_TESTS = ["*", "node()", "a", "p:b", "text()", "comment()", "processing-instruction()"]


class Wild(Grammar):
    """Beside what `Grammar` has."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance, chance.choice([0, 0.15, 0.4]))

    def expression(self) -> Expression:
        if self._chance.random() < 0.4:
            return super().expression()
        return Expression(self.anything(3), namespaces=NAMESPACES)

    def anything(self, depth: int) -> str:
        chance = self._chance
        kind = chance.randrange(8) if depth > 0 else 0
        if kind < 4:
            return f"{self.side(depth)} {chance.choice(_COMPARISONS)} {self.side(depth)}"
        if kind == 4:
            name = chance.choice(["contains", "starts-with"])
            return f"{name}({self.string(depth - 1)}, {self.string(depth - 1)})"
        if kind == 5:
            return f"//*[{self.anything(depth - 1)}]"
        if kind == 6:
            return f"({self.path(1)})[{self.numeric(depth - 1)}]"
        predicate = chance.choice([self.numeric(depth - 1), self.condition(1)])
        end = chance.choice(["", "/@x", "/b", " = 1"])
        return f"//*/{chance.choice(_AXES)}::{chance.choice(_TESTS)}[{predicate}]{end}"

    def side(self, depth: int) -> str:
        kind = self._chance.randrange(5)
        if kind == 0:
            return self.string(depth - 1)
        if kind == 1:
            return self.numeric(depth - 1)
        if kind == 2:
            return self.path(1)
        return f"({self.condition(1)})" if kind == 3 else "true()"

    def string(self, depth: int) -> str:
        chance = self._chance
        kind = chance.randrange(14) if depth > 0 else 0
        if kind < 2:
            return self.literal()
        if kind < 5:
            return self.path(0)
        inner = self.string(depth - 1)
        own = chance.choice(["", inner])
        return [
            f"concat({inner}, {self.string(depth - 1)})",
            f"substring({inner}, {self.numeric(depth - 1)})",
            f"substring({inner}, {self.numeric(depth - 1)}, {self.numeric(depth - 1)})",
            f"substring-before({inner}, {self.string(0)})",
            f"substring-after({inner}, {self.string(0)})",
            f"normalize-space({own})",
            f"translate({inner}, {chance.choice(_LETTERS)}, {chance.choice(_LETTERS)})",
            f"{chance.choice(['name', 'local-name', 'namespace-uri'])}({self.maybe_path()})",
            f"string({chance.choice([self.numeric(depth - 1), self.condition(0), ''])})",
        ][kind - 5]

    def maybe_path(self) -> str:
        return self._chance.choice(["", self.path(0)])

    def numeric(self, depth: int) -> str:
        chance = self._chance
        kind = chance.randrange(13) if depth > 0 else 0
        if kind < 3:
            return chance.choice(_NUMBERS)
        return [
            f"count({self.path(0)})",
            f"string-length({chance.choice(['', self.string(depth - 1)])})",
            f"sum({self.path(0)})",
            f"number({chance.choice(['', self.string(depth - 1)])})",
            f"{chance.choice(['floor', 'round', 'ceiling'])}({self.numeric(depth - 1)})",
            f"({self.numeric(depth - 1)} {chance.choice(['+', '-', '*', 'div', 'mod'])} "
            f"{self.numeric(depth - 1)})",
            f"-{self.path(0)}",
            "position()",
            "last()",
            self.number(),
        ][kind - 3]
