"""What is evaluated on the spot, and what is not."""

import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

from filters import PAYLOAD, Expression, FilterError
from filters.documents import parse_own
from filters.matching.fallback.compilation import CompiledCache
from filters.matching.fallback.verification import Verification, Verifier
from filters.xpath import compile_xpath, parse
from tests.filters.matching.costly import SHAPES, Costly, document
from tests.filters.matching.hostile import CUT_OFF, HARMLESS
from tests.rigs.corpus import forwarding_filters, messages
from tests.rigs.pace import unit

SMALL = parse_own(document("flat", 20))


def begin(verifier: Verifier, root: etree._Element) -> Verification:
    return verifier.begin(lambda: root)


def test_harmless_expressions_are_evaluated_on_the_spot() -> None:
    verification = begin(Verifier(), SMALL)
    for text in HARMLESS:
        expected = compile_xpath(text, ())(SMALL)
        assert verification.verdict(Expression(text)) is expected, text


def test_hostile_expressions_are_not() -> None:
    verification = begin(Verifier(), parse_own(document("flat", 3_000)))
    for text in CUT_OFF:
        assert verification.verdict(Expression(text)) is None, text


@pytest.fixture
def uncollected() -> Iterator[None]:
    """A collection of what all tests left behind takes longer than what is measured."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("elements", [300, 3_000, 20_000])
def test_nothing_holds_the_caller(elements: int) -> None:
    """Generated expressions, on documents of all shapes."""
    verifier = Verifier(seconds=1e9)
    slowest, decided = 0.0, 0
    for shape in SHAPES:
        root = parse_own(document(shape, elements))
        generator = Costly(elements)
        verification = begin(verifier, root)
        verification.verdict(Expression("true()"))  # Measures the document.
        for _ in range(1_000):
            expression = Expression(generator.expression())
            try:
                parse(expression)
            except FilterError:
                continue
            started = time.process_time()
            verdict = verification.verdict(expression)
            slowest = max(slowest, time.process_time() - started)
            decided += verdict is not None
    assert decided > 300
    assert slowest < 20 * unit()


def test_a_message_has_a_time() -> None:
    verifier = Verifier(seconds=0.001)
    verification = begin(verifier, parse_own(document("flat", 300)))
    verdicts = [verification.verdict(Expression(f"//b[. = 'no{i}']")) for i in range(1_000)]
    assert verdicts[0] is False
    assert verdicts[-1] is None
    assert begin(verifier, SMALL).verdict(Expression("//b[. = '0']")) is False


def test_a_limit_of_its_own() -> None:
    assert begin(Verifier(visits=10), SMALL).verdict(Expression("//b")) is None
    assert begin(Verifier(visits=10**5), SMALL).verdict(Expression("//b")) is True


def test_sizes_alternate() -> None:
    """What is remembered of an expression is never too good or too bad for a document."""
    large = parse_own(document("flat", 3_000))
    verifier = Verifier()
    climbing = Expression("//b[../b[. = 'no']]")
    for _ in range(3):
        assert begin(verifier, SMALL).verdict(climbing) is False
        assert begin(verifier, large).verdict(climbing) is None


def test_compiled_expressions_are_bounded() -> None:
    kept = CompiledCache(10)
    first = kept.get("a", ())
    assert kept.get("a", ()) is first
    assert kept.get("a", (("p", "urn:p"),)) is not first
    for number in range(8):
        kept.get(f"b{number}", ())
        kept.get("a", ())
    assert kept.get("a", ()) is first
    for number in range(10):
        kept.get(f"c{number}", ())
    assert kept.get("a", ()) is not first


def test_the_rest_is_evaluated_elsewhere() -> None:
    verifier = Verifier()
    documents = {PAYLOAD: document("flat", 3_000)}
    hostile = Expression("//*[../*[../*[../*]]]")
    asked = [[Expression("//b"), other] for other in map(Expression, ("//b[@x]", "//c"))]
    asked.append([Expression("//b"), hostile])
    questions = [(expressions, documents) for expressions in asked]
    assert verifier.evaluate(questions) == [True, False, None]


def test_a_share_has_a_part_of_the_time() -> None:
    verifier = Verifier(seconds=1e9, seconds_of_share=0.001)
    verification = begin(verifier, parse_own(document("flat", 300)))

    def verdict(number: int, share: str | None) -> bool | None:
        return verification.verdict(Expression(f"//b[. = 'no{number}']"), share)

    verdicts = [verdict(number, "dear") for number in range(1_000)]
    assert verdicts[0] is False
    assert verdicts[-1] is None
    assert not verification.has_time("dear")
    assert verification.has_time("another")
    assert verdict(-1, "another") is False
    assert [verdict(number, None) for number in range(1_000)] == [False] * 1_000


def test_published_filters_are_verified_on_the_spot(material: Path) -> None:
    verifier = Verifier()
    rows = forwarding_filters(material)
    asked = decided = 0
    for message in messages(material, "winevent", every=200):
        root = parse_own(message)
        for text, namespaces in rows:
            verdict = begin(verifier, root).verdict(Expression(text, namespaces=namespaces))
            asked += 1
            if verdict is not None:
                decided += 1
                assert verdict == compile_xpath(text, namespaces)(root), text
    assert decided >= 0.98 * asked
