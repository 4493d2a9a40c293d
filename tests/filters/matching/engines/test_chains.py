"""The plan of a chain, read straight from its text, is the planner's."""

import random

import pytest

from filters import Expression, FilterError, Namespaces
from filters.matching.engines.choice import engine_note
from filters.matching.planning.planner import plan
from filters.workloads import Vocabulary, expressions, family_of, messages
from filters.xpath import parse
from tests.filters.matching.expressions import NAMESPACES, Grammar

if note := engine_note():
    pytest.skip(note, allow_module_level=True)

from filters.matching._kernel import plan_of_chain

PIECES = [
    *["/", "//", "a", "b", "p:a", "p:*", "*", "[", "]", "@", "text()", ".", "='x'", '="y"'],
    *["= 'x'", " and ", " ", "and", "or", "text", "a.b", "a-1", "é", "'", '"', "(", ")", "::"],
    *["child::", "1", "..", "|", "q:a", "xml:a", ",", "$a", "not(", "'\x01'", "'\t'", "'\ufffe'"],
    *["'é'", "'\ud800'", "=", "!=", "div"],
]
OPERANDS = ["@a", "@p:a", "b", "text()", ".", "@*", "*", "@b", "p:b"]
VALUES = ["", " ='x'", "='y'", '="z"', "='é'", "= ''"]


def agrees(text: str, namespaces: Namespaces = NAMESPACES) -> bool:
    """Whether *text* is a chain; fail if its plan is another than the planner's."""
    found = plan_of_chain(text.encode(errors="surrogatepass"), namespaces)
    if found is None:
        return False
    expected = plan(parse(Expression(text, namespaces=namespaces)))
    assert found == expected, text
    assert repr(found) == repr(expected), "1 and True are equal, and not the same"
    return True


def chain(chance: random.Random) -> str:
    text = ""
    for _ in range(chance.randrange(1, 5)):
        text += chance.choice(["/", "//", "/ "]) + chance.choice(["a", "p:a", "p:*", "*", "a.b "])
        for _ in range(chance.choice([0, 0, 1, 1, 2, 3])):
            wanted = [
                chance.choice(OPERANDS) + chance.choice(VALUES)
                for _ in range(chance.choice([1, 1, 2, 3]))
            ]
            text += f"[{' and '.join(wanted)}]"
    return text


def test_chains() -> None:
    chance = random.Random("chains")
    assert sum(agrees(chain(chance)) for _ in range(5_000)) > 2_500


def test_any_expression() -> None:
    chance = random.Random("expressions")
    grammar = Grammar(chance, 0.1)
    for _ in range(2_000):
        agrees(grammar.expression().text)


def test_anything() -> None:
    chance = random.Random("pieces")
    found = 0
    for _ in range(30_000):
        found += agrees("/" + "".join(chance.choices(PIECES, k=chance.randrange(1, 9))))
    assert found > 500


@pytest.mark.parametrize("style", ["xm0", "xm1", "xm3"])
def test_workloads_are_chains(style: str) -> None:
    vocabulary = Vocabulary(messages(family_of(style), 50, 1))
    texts = [each.text for each in expressions(style, 1_000, 2, vocabulary)]
    assert sum(agrees(text, vocabulary.namespaces) for text in texts) > 900


def test_limits() -> None:
    """What the parser refuses is no chain."""
    for within, beyond in [
        ("/a" * 64, "/a" * 65),
        ("/a" + "[b]" * 32, "/a" + "[b]" * 33),
        (f"/a[{' and '.join(['b'] * 63)}]", f"/a[{' and '.join(['b'] * 64)}]"),
        (both(50), both(51)),
        (f"/a[b='{'x' * (4_096 - 8)}']", f"/a[b='{'x' * (4_097 - 8)}']"),
        (f"/a[b='{'é' * 2_044}']", f"/a[b='{'é' * 2_045}']"),
    ]:
        assert agrees(within)
        assert not agrees(beyond)
        with pytest.raises(FilterError):
            parse(Expression(beyond))


def both(comparisons: int) -> str:
    wanted = " and ".join(["@b='x'"] * comparisons)
    return f"/a[{wanted}]"


@pytest.mark.parametrize(
    "namespaces", [(), (("p", ""),), (("p", "urn:a"), ("p", "urn:b")), (("xml", "urn:x"),)]
)
def test_prefixes(namespaces: Namespaces) -> None:
    for text in ("/p:a", "/a[@p:b='x']", "/a[p:*]", "/xml:a", "/a[@xml:lang='en']"):
        if agrees(text, namespaces):
            assert namespaces[-1:] == (("p", "urn:b"),)
