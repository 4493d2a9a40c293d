"""Every engine beside libxml2, over real messages, made ones, and nasty ones."""

import random
from functools import partial
from pathlib import Path

import pytest

from benchmarks.fuzz import campaign
from filters import Expression
from filters.matching.engines.choice import NATIVE, REFERENCE, engine_note, make_index
from filters.workloads import STYLES, Vocabulary, expressions, family_of, messages
from tests.filters.matching.differential import Tally, check
from tests.filters.matching.expressions import NAMESPACES, Grammar
from tests.filters.matching.nasty import document
from tests.rigs import corpus
from tests.rigs.examples import examples

ENGINES = [REFERENCE, NATIVE]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of each. What plans claim is held against them along with the reference."""
    name: str = request.param
    if name == NATIVE and (note := engine_note()):
        pytest.skip(note)
    return name


# Each has gone wrong once, here or in an engine that is no more; the generators rarely make them.
CASES = [
    ("a/text()", "<r><a><![CDATA[]]></a></r>"),
    ("a/text()", "<r><a><![CDATA[]]><b/></a></r>"),
    ("a/text() = ''", "<r><a/></r>"),
    ("a/text() = ''", "<r><a><![CDATA[]]></a></r>"),
    ("a/text() = 'xy'", "<r><a>x<!-- -->y</a></r>"),
    ("a/text() = 'xy'", "<r><a>x<![CDATA[y]]></a></r>"),
    ("a = 'xy'", "<r><a>x<!-- --><b>y</b><?p z?></a></r>"),
    ("a[@x = '1'][. != 'q'] and b = 'xy'", "<r><a x='1'>p<!-- -->qr</a><b>x<!-- -->y</b></r>"),
    ("a >= 1 and a < 9", "<r><a>0</a><a>9</a></r>"),
    ("a >= 9 and a < 1", "<r><a>0</a><a>9</a></r>"),
    ("a/@x >= 1 and a/@x < 9", "<r><a x='0'/><a x='9'/></r>"),
    ("a >= 1 and a < 9", "<r><a>1e0</a></r>"),
    ("not(a < 5)", "<r><a>x</a></r>"),
    ("a != 5", "<r><a>x</a></r>"),
    ("a = 0", "<r><a>-0</a></r>"),
    ("a = 0", "<r><a>00E1</a></r>"),
    ("@x != 'a'", "<r/>"),
    ("not(@x = 'a')", "<r/>"),
    ("a[b = 1][c = 2]", "<r><a><b>1</b></a><a><c>2</c></a></r>"),
    ("a[not(b)]", "<r><a><b/></a><a/></r>"),
    ("a[not(b)]", "<r/>"),
    ("not(/*[not(b)][last() = 2])", "<r/>"),
    ("not(/*[not(b)])", "<r/>"),
    ("contains(a, 'x')", "<r><a/><a>x</a></r>"),
    ("contains(@*, 'x')", "<r a='y' b='x'/>"),
    ("string(a) = ''", "<r/>"),
    ("count(a) < 1", "<r><a/></r>"),
    ("//@*", "<r xmlns:p='urn:p'/>"),
    ("@p:x = 'a'", "<r xmlns:q='urn:p' q:x='a'/>"),
    ("@x = 'a'", "<r xmlns:q='urn:p' q:x='a'/>"),
    ("//a//a//a", "<a><a/><a><b><a/></b></a></a>"),
    ("/a[. = 'x']", "<!--x--><a>x</a><!--x-->"),
    ("/ = 'x'", "<!--y--><a>x</a><!--z-->"),
    ("*[local-name() = 'a']/@*[local-name() = 'x'] = '1'", "<r xmlns:q='urn:q'><q:a q:x='1'/></r>"),
]


@pytest.mark.parametrize(("text", "octets"), CASES)
def test_case(engine: str, text: str, octets: str) -> None:
    expression = Expression(text, namespaces=NAMESPACES)
    check(partial(make_index, engine), [expression], [octets.encode()] * 2)


@pytest.mark.parametrize("wild", [0.0, pytest.param(0.15, marks=pytest.mark.nightly), 0.4])
def test_nasty(engine: str, wild: float) -> None:
    chance = random.Random(f"nasty {wild}")
    grammar = Grammar(chance, wild)
    tally = Tally()
    rounds = examples(day=5, night=10)
    for _ in range(rounds):
        texts = [grammar.expression() for _ in range(150)]
        documents = [document(chance) for _ in range(12)]
        tally += check(partial(make_index, engine), texts, documents, claims=engine == REFERENCE)
    assert tally.true > 100 * rounds
    assert tally.decided > tally.pairs * (0.7 if not wild else 0.4)


def test_nasty_churn(engine: str) -> None:
    chance = random.Random("churn")
    grammar = Grammar(chance, 0.1)
    for _ in range(5):
        texts = [grammar.expression() for _ in range(200)]
        documents = [document(chance) for _ in range(30)]
        check(partial(make_index, engine), texts, documents, claims=False, churn=chance)


@pytest.mark.parametrize("style", STYLES)
def test_styles(engine: str, style: str) -> None:
    """Over messages that look real."""
    documents = messages(family_of(style), 40, 1)
    texts = expressions(style, 600, 2, Vocabulary(documents))
    chance = random.Random(style)
    claims = engine == REFERENCE
    tally = check(partial(make_index, engine), texts, documents[:12], claims=claims)
    tally += check(partial(make_index, engine), texts, documents, claims=False, churn=chance)
    assert tally.true > 100


@pytest.mark.release
def test_campaign() -> None:
    """About an hour: ten million verdicts, with what comes and goes."""
    engines = [REFERENCE] if engine_note() else ENGINES
    campaign(10_000_000, random.SystemRandom().randrange(2**32), engines)


@pytest.mark.hypothesis  # At night with more of them.
@pytest.mark.parametrize("style", STYLES)
def test_corpus(engine: str, style: str, material: Path) -> None:
    """Over real messages, of all families for the style that asks for no certain one."""
    families = ["winevent"] if style == "ev" else sorted(corpus.families(material))
    for family in families:
        documents = list(corpus.messages(material, family))
        documents = documents[:: max(1, len(documents) // examples(day=6, night=24))]
        texts = expressions(style, examples(day=75, night=300), 3, Vocabulary(documents))
        check(partial(make_index, engine), texts, documents, claims=False)


def test_real_filters(engine: str, material: Path) -> None:
    """Windows Event Forwarding subscriptions over Windows events."""
    texts = [
        Expression(text, namespaces=namespaces)
        for text, namespaces in corpus.forwarding_filters(material)
    ]
    documents = list(corpus.messages(material, "winevent", every=200))
    tally = check(partial(make_index, engine), texts, documents, claims=engine == REFERENCE)
    assert tally.decided > tally.pairs * 0.95
