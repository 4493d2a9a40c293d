"""Documents of all shapes and sizes, and expressions over them that may cost anything."""

import random

SHAPES = ("flat", "table", "deep", "mixed", "attributes", "text")


def document(shape: str, elements: int, seed: int = 1) -> bytes:
    """One of about so many *elements*."""
    chance = random.Random(seed)
    return f"<a>{''.join(_content(shape, elements, chance))}</a>".encode()


def _content(shape: str, elements: int, chance: random.Random) -> list[str]:
    if shape == "flat":
        values = ("foo", "bar", "", "17")
        return [f'<b x="{i % 7}">{chance.choice(values)}{i % 50}</b>' for i in range(elements)]
    if shape == "table":
        rows = int(elements**0.5)
        row = "".join(f'<c d="{column}">{column}</c>' for column in range(rows))
        return [f'<b c="1">{row}</b>'] * rows
    if shape == "deep":
        depth = 100
        return [f"{'<b>' * depth}x{'</b>' * depth}"] * (elements // depth)
    if shape == "attributes":
        attributes = " ".join(f'x{i}="{i}"' for i in range(20))
        return [f"<b {attributes}/>"] * elements
    if shape == "text":
        return [f"<b>{'a' * 200}</b>"] * elements
    parts: list[str] = []
    _mixed(parts, elements, 1, chance)
    return parts


def _mixed(parts: list[str], elements: int, depth: int, chance: random.Random) -> int:
    """Elements of random depth and width; how many are left."""
    while elements > 0 and (depth == 1 or chance.random() < 0.6):
        name = chance.choice("abcde")
        parts.append(f'<{name} {chance.choice("xyz")}="{chance.choice("123")}">')
        parts.append(chance.choice(("", "1", "foo", "some text", "<!-- foo -->")))
        elements -= 1
        if depth < 14:
            elements = _mixed(parts, elements, depth + 1, chance)
        parts.append(f"</{name}>")
    return elements


_AXES = (
    "child", "child", "child", "attribute", "descendant", "descendant-or-self", "self", "parent",
    "ancestor", "ancestor-or-self", "following-sibling", "preceding-sibling", "following",
    "preceding", "namespace",
)  # fmt: skip
_TESTS = ("*", "*", "a", "b", "b", "c", "d", "x", "node()", "node()", "text()", "comment()")
_LITERALS = ("'foo'", "'1'", "''", "'x'", f"'{'a' * 100}b'")
_COMPARISONS = ("=", "=", "!=", "<", ">=")


class Costly:
    """A seeded generator of expressions."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def expression(self, depth: int = 3) -> str:
        chance = self._chance
        kind = chance.random()
        if depth <= 0 or kind < 0.35:
            return self.path(depth)
        if kind < 0.55:
            return f"{self.string(depth)} {chance.choice(_COMPARISONS)} {self.string(depth)}"
        if kind < 0.65:
            return f"({self.path(depth)})[{self.expression(depth - 1)}]"
        if kind < 0.72:
            return f"{self.path(depth)} | {self.path(depth)}"
        if kind < 0.82:
            operator = chance.choice(("and", "or"))
            return f"({self.expression(depth - 1)} {operator} {self.expression(depth - 1)})"
        if kind < 0.92:
            return f"{chance.choice(('not', 'boolean'))}({self.expression(depth - 1)})"
        return (
            f"{chance.choice(('contains', 'starts-with'))}({self.string(depth)}, {self.string(0)})"
        )

    def string(self, depth: int) -> str:
        chance = self._chance
        kind = chance.random()
        if depth <= 0 or kind < 0.3:
            return chance.choice(_LITERALS)
        if kind < 0.6:
            return self.path(depth)
        if kind < 0.75:
            return f"{chance.choice(('count', 'sum', 'id'))}({self.path(depth)})"
        if kind < 0.85:
            name = chance.choice(("normalize-space", "string-length", "name", "string", "number"))
            return f"{name}({self.path(depth)})"
        if kind < 0.92:
            return f"translate({self.string(depth - 1)}, 'abcfo1', 'xyz')"
        return f"concat({self.string(depth - 1)}, {self.string(depth - 1)})"

    def path(self, depth: int) -> str:
        chance = self._chance
        start = chance.choice(("/", "//", "//", "", ""))
        joints = chance.choices(("/", "/", "//"), k=chance.randint(0, 3))
        return start + self.step(depth) + "".join(joint + self.step(depth) for joint in joints)

    def step(self, depth: int) -> str:
        chance = self._chance
        step = f"{chance.choice(_AXES)}::{chance.choice(_TESTS)}"
        if chance.random() < 0.4:
            step = chance.choice(("*", "b", "c", "..", "@*", "@x"))
            if step == "..":
                return step
        if depth > 0 and chance.random() < 0.4:
            condition = self.expression(depth - 1) if chance.random() < 0.8 else "last()"
            return f"{step}[{condition}]"
        return step
