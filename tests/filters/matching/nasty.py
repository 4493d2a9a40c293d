"""A seeded generator of small documents with all that evaluators stumble over."""

import random

_NAMES = ["a", "a", "b", "b", "c", "d", "p:a", "p:b", "q:a"]
_ATTRIBUTES = ["x", "y", "p:x", "q:x", "xml:lang"]
_TEXTS = [
    "",
    "x",
    "y",
    "xy",
    "1",
    "2",
    "7",
    "10",
    " 7 ",
    "\n7\t",
    "-0",
    "0",
    "+1",
    "-1",
    "1.5",
    ".5",
    "5.",
    "00E1",
    "1e5",
    "1e",
    "0.1",
    "9",
    "12345678901234567",
    "0.10000000000000000001",
    "000000000000000001",
    "2020-12-11",
    "-",
    ".",
    "1 2",
    "é",
    "NaN",
    "Infinity",
    "100000",
    " ",
]


def document(chance: random.Random, most: int = 14) -> bytes:
    """One of at most *most* elements."""
    left = [chance.randint(1, most)]
    body = _element(chance, left, 0, ' xmlns:p="urn:p" xmlns:q="urn:q"')
    if chance.random() < 0.1:
        body = f"<!-- before -->{body}<!--x-->"
    return body.encode()


def _element(chance: random.Random, left: list[int], depth: int, declared: str = "") -> str:
    left[0] -= 1
    name = chance.choice(_NAMES)
    attributes = declared
    if chance.random() < 0.08 and ":" not in name:
        attributes += ' xmlns="urn:p"'
    for attribute in _ATTRIBUTES:
        if chance.random() < 0.25:
            attributes += f' {attribute}="{chance.choice(_TEXTS)}"'
    content = ""
    while chance.random() < 0.75:
        kind = chance.random()
        if kind < 0.3:
            content += chance.choice(_TEXTS)
        elif kind < 0.36:
            content += f"<![CDATA[{chance.choice(_TEXTS)}]]>"
        elif kind < 0.42:
            content += f"<!--{chance.choice(['1', 'x', ''])}-->"
        elif kind < 0.45:
            content += "<?pi 7?>"
        elif left[0] > 0 and depth < 6:
            content += _element(chance, left, depth + 1)
    return f"<{name}{attributes}>{content}</{name}>"
