"""A plan by way of a shape is the plan."""

import random
import time
from collections.abc import Callable

import pytest

from filters import Expression, FilterError
from filters.matching.planning import templates as module
from filters.matching.planning.planner import plan
from filters.matching.planning.templates import Templates
from filters.workloads import Vocabulary, expressions, family_of, messages
from filters.xpath import parse
from tests.filters.matching.expressions import NAMESPACES, Grammar
from tests.rigs.cases import for_each

TEXTS = ["x", "y", "", "'", "a b", "1", "\ue0000.", "é", "x" * 70]
NUMBERS = ["1", "2", "0", "1.5", ".5", "5.", "710770000", "123456789012345", "1234567890123456"]


def same(shapes: Templates, text: str) -> None:
    """Fail unless *shapes* says of *text* what parser and planner say."""
    expression = Expression(text, namespaces=NAMESPACES)
    try:
        expected = plan(parse(expression))
    except FilterError as error:
        with pytest.raises(FilterError) as caught:
            shapes.plan_of(expression)
        assert (caught.value.reason, caught.value.text) == (error.reason, error.text)
    else:
        found = shapes.plan_of(expression)
        assert found == expected
        assert repr(found) == repr(expected), "1 and 1.0 and True are equal, and not the same"


def literal(chance: random.Random) -> str:
    text = chance.choice(TEXTS)
    return f'"{text}"' if "'" in text else f"'{text}'"


# Text from which expressions of one shape are made: {s} is a string, {n} a number.
PATTERNS = [
    "a = {s}",
    "a={n}",
    "a = {s} or a = {s}",
    "/*[a[@x={s}] and (b={n} or b={n})]",
    "a[b >= {n} and b <= {n}]",
    "a > {s}",
    "contains(a, {s})",
    "string(a) = {s}",
    "count(a) > {n}",
    "count(a) = {n}",
    "a[{n}]",
    "a[{s}]",
    "*[local-name() = {s}]",
    "a[local-name() = {s}] or b = {s}",
    "a1 = {n} and a2 = {s}",
    "a-1 = {n}",
    "a -{n} = 1",
    "a = -{n}",
    "a = - {n}",
    "a = --710770000 or b = {n}",
    "a·{n} = 1",
    "a = {n}{n}",
    "a = {n}.",
    "a = {n} {n}",
    "a = {n} mod{n}",
    "not(. = {s} and not(@x = {s}))",
    "a[. = {s} or . = {s}][@x = {s} or @x = {n}][b]",
    "{s} = {s}",
    "{n} < {n}",
    "a = {s",
    "a = {s}'",
    "id({s}) and a = {s}",
    "a['x' = {s}] = {n}",
    "starts-with(*/@x, {s}) and . != {n}",
]


@for_each("pattern", PATTERNS)
def test_pattern(pattern: str) -> None:
    chance = random.Random(pattern)
    shapes = Templates()
    for _ in range(200):
        text = pattern
        while "{s}" in text:
            text = text.replace("{s}", literal(chance), 1)
        while "{n}" in text:
            text = text.replace("{n}", chance.choice(NUMBERS), 1)
        same(shapes, text)


def test_generated() -> None:
    chance = random.Random("shapes")
    grammar = Grammar(chance, 0.1)
    shapes = Templates()
    texts = [grammar.expression().text for _ in range(1_500)]
    for text in texts * 2:
        same(shapes, text)
    for text in texts:
        same(shapes, text.replace("'x'", "'z'").replace("1", "3"))


def test_a_long_literal_is_refused() -> None:
    shapes = Templates()
    for length in (1, 2, 5_000, 3, 900, 1_100):
        same(shapes, f"a = '{'é' * length}'")


def test_no_character() -> None:
    shapes = Templates()
    for text in ["x", "y", "\x01", "\ud800", "\t", "z", "\ufffe"]:
        same(shapes, f"a = '{text}'")


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TEMPLATES", 10)
    shapes = Templates()
    for number in range(100):
        for value in "xyz":
            same(shapes, f"a{number} = '{value}'")
        assert len(shapes._templates) <= 10
        same(shapes, f"b{number} = 'x'")
        assert len(shapes._once) <= 10


def test_faster() -> None:
    texts = expressions("ev", 300, 1, Vocabulary(messages(family_of("ev"), 100, 1)))
    shapes = Templates()

    def best(call: Callable[[Expression], object]) -> float:
        times = []
        for _ in range(7):
            start = time.process_time()
            for text in texts:
                call(text)
            times.append(time.process_time() - start)
        return min(times)

    assert best(shapes.plan_of) < best(lambda text: plan(parse(text))) / 2
