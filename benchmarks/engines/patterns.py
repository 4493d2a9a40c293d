"""The messages and patterns that all engines get, each in its own language.

A message has twenty fields: attributes of one element in XML, members of one object in JSON. There
are three shapes of patterns: one field has a value, two have, one has any of three. Values are
drawn so that about ten patterns are true of a message, however many there are.
"""

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

FIELDS = 20
TRUE = 10
MESSAGES = 200

Pattern = Sequence[tuple[int, Sequence[str]]]
"""Of each field that is asked for, its number and the values of which it must have one."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape of patterns: how many fields each asks for, and how many values it takes of each."""

    name: str
    fields: int
    values: int

    def domain(self, count: int) -> int:
        """How many values a field may have, where there are *count* patterns."""
        return max(4, round(self.values * math.pow(count / TRUE, 1 / self.fields)))


SHAPES = {
    shape.name: shape for shape in (Shape("equal", 1, 1), Shape("two", 2, 1), Shape("any", 1, 3))
}


def _xpath(pattern: Pattern) -> str:
    return "/event" + "".join(
        "[" + " or ".join(f'@f{field}="{value}"' for value in values) + "]"
        for field, values in pattern
    )


def _members(pattern: Pattern) -> str:
    return json.dumps({f"f{field}": list(values) for field, values in pattern})


def _expression(pattern: Pattern) -> str:
    return " and ".join(
        f'f{field} = "{values[0]}"' if len(values) == 1 else f"f{field} in {json.dumps(values)}"
        for field, values in pattern
    )


LANGUAGES: dict[str, Callable[[Pattern], str]] = {
    "xpath": _xpath,
    "json": _members,
    "expression": _expression,
}


def write(folder: Path, shape: Shape, count: int) -> None:
    """Write messages (``messages.xml``, ``messages.json``) and *count* patterns, in a file for each
    language (``patterns.xpath`` ...), one a line."""
    chance = random.Random(f"{shape.name} {count}")
    domain = shape.domain(count)

    def value() -> str:
        return f"v{chance.randrange(domain)}"

    messages = [{f"f{field}": value() for field in range(FIELDS)} for _ in range(MESSAGES)]
    patterns = [
        [
            (field, [value() for _ in range(shape.values)])
            for field in chance.sample(range(FIELDS), shape.fields)
        ]
        for _ in range(count)
    ]
    (folder / "messages.json").write_text("".join(f"{json.dumps(one)}\n" for one in messages))
    (folder / "messages.xml").write_text(
        "".join(
            "<event " + " ".join(f'{name}="{text}"' for name, text in one.items()) + "/>\n"
            for one in messages
        )
    )
    for language, written in LANGUAGES.items():
        lines = "".join(f"{written(pattern)}\n" for pattern in patterns)
        (folder / f"patterns.{language}").write_text(lines)
