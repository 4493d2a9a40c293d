"""Every engine beside libxml2, over real messages, made ones, and nasty ones."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.fuzz import campaign
from filters.filter import Expression
from filters.matching.engines import NATIVE, REFERENCE, engine_note, make_index
from filters.matching.index import Index
from filters.workloads import STYLES, Vocabulary, expressions, family_of, messages
from tests.filters import corpus
from tests.filters.matching.differential import Tally, check
from tests.filters.matching.expressions import Grammar
from tests.filters.matching.nasty import document

ENGINES = [REFERENCE, NATIVE]

Make = Callable[[], Index]


@pytest.fixture(params=ENGINES)
def make(request: pytest.FixtureRequest) -> Make:
    """Makes an index of one engine."""
    name: str = request.param
    if name == NATIVE and (note := engine_note()):
        pytest.skip(note)
    return lambda: make_index(name)


@pytest.mark.parametrize("wild", [0.0, 0.15, 0.4])
def test_nasty(make: Make, wild: float) -> None:
    chance = random.Random(f"nasty {wild}")
    grammar = Grammar(chance, wild)
    tally = Tally()
    for _ in range(10):
        texts = [grammar.expression() for _ in range(150)]
        documents = [document(chance) for _ in range(12)]
        tally += check(make, texts, documents)
    assert tally.true > 1_000
    assert tally.decided > tally.pairs * (0.7 if not wild else 0.4)


def test_nasty_churn(make: Make) -> None:
    chance = random.Random("churn")
    grammar = Grammar(chance, 0.1)
    for _ in range(5):
        texts = [grammar.expression() for _ in range(200)]
        documents = [document(chance) for _ in range(30)]
        check(make, texts, documents, claims=False, churn=chance)


@pytest.mark.parametrize("style", STYLES)
def test_styles(make: Make, style: str) -> None:
    """Over messages that look real."""
    documents = messages(family_of(style), 40, 1)
    texts = expressions(style, 600, 2, Vocabulary(documents))
    chance = random.Random(style)
    tally = check(make, texts, documents[:12])
    tally += check(make, texts, documents, claims=False, churn=chance)
    assert tally.true > 100


@pytest.mark.release
def test_campaign() -> None:
    """About an hour: ten million verdicts, with what comes and goes."""
    engines = [REFERENCE] if engine_note() else ENGINES
    campaign(10_000_000, random.SystemRandom().randrange(2**32), engines)


@pytest.mark.parametrize("style", STYLES)
def test_corpus(make: Make, style: str, shared: Path) -> None:
    """Over real messages, of all families for the style that asks for no certain one."""
    families = ["winevent"] if style == "ev" else sorted(corpus.families(shared))
    for family in families:
        documents = list(corpus.messages(shared, family))
        documents = documents[:: max(1, len(documents) // 12)]
        texts = expressions(style, 150, 3, Vocabulary(documents))
        check(make, texts, documents, claims=False)


def test_real_filters(make: Make, shared: Path) -> None:
    """Windows Event Forwarding subscriptions over Windows events."""
    texts = [
        Expression(text, namespaces=namespaces)
        for text, namespaces in corpus.forwarding_filters(shared)
    ]
    documents = list(corpus.messages(shared, "winevent", every=200))
    tally = check(make, texts, documents)
    assert tally.decided > tally.pairs * 0.95
