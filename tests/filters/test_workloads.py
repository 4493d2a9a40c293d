"""Workloads: reproducible, varied, and about the messages that they are for."""

from pathlib import Path

import pytest

from filters.documents import parse_document
from filters.workloads import FAMILIES, STYLES, Vocabulary, expressions, family_of, messages
from filters.xpath import compile_xpath
from tests.rigs.corpus import messages as corpus

REAL = {"xm0": "xmark", "xm1": "xmark", "xm3": "xmark", "ev": "winevent"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_gives_the_same_messages(family: str) -> None:
    made = messages(family, 200, 1)
    assert made == messages(family, 200, 1)
    assert made != messages(family, 200, 2)
    assert len(set(made)) == 200
    assert 300 < sum(map(len, made)) / 200 < 3000
    for octets in made:
        parse_document(octets)


@pytest.mark.parametrize("style", STYLES)
def test_a_seed_gives_the_same_filters(style: str) -> None:
    vocabulary = Vocabulary(messages(family_of(style), 300, 1))
    made = expressions(style, 1000, 1, vocabulary)
    again = Vocabulary(messages(family_of(style), 300, 1))
    assert made == expressions(style, 1000, 1, again)
    assert made != expressions(style, 1000, 2, vocabulary)
    assert 0.05 < len(set(made)) / 1000 < 0.95


@pytest.mark.parametrize("style", STYLES)
def test_filters_are_valid_and_some_match(style: str) -> None:
    octets = messages(family_of(style), 200, 1)
    _some_match(style, octets)


@pytest.mark.parametrize("style", STYLES)
def test_filters_over_real_messages(style: str, material: Path) -> None:
    _some_match(style, list(corpus(material, REAL[style], every=60)))


def _some_match(style: str, octets: list[bytes]) -> None:
    """Neither none nor all of them match: a workload that decides nothing measures nothing."""
    wanted = expressions(style, 300, 1, Vocabulary(octets))
    compiled = [compile_xpath(one.text, one.namespaces) for one in wanted]
    roots = [parse_document(one) for one in octets[:60]]
    matched = sum(bool(xpath(root)) for root in roots for xpath in compiled)
    assert 0 < matched < 0.6 * len(roots) * len(compiled)


@pytest.mark.parametrize("style", ["xm1", "xm3"])
def test_values_come_from_the_corpus(style: str) -> None:
    vocabulary = Vocabulary([b"<n:a xmlns:n='urn:n' n:k=\"it's\"><b>7</b></n:a>"])
    texts = {one.text for one in expressions(style, 200, 1, vocabulary)}
    assert any("""[@n1:k="it's"]""" in text for text in texts)
    assert any("[b='7']" in text for text in texts)
    assert vocabulary.namespaces == (("n1", "urn:n"),)


def test_what_there_is_nothing_for() -> None:
    auctions = Vocabulary(messages("auctions", 5, 1))
    with pytest.raises(ValueError, match="Windows events"):
        expressions("ev", 1, 1, auctions)
    with pytest.raises(ValueError, match="'xm2' is not a style"):
        expressions("xm2", 1, 1, auctions)
    with pytest.raises(ValueError, match="'storms' is not a family"):
        messages("storms", 1, 1)
    with pytest.raises(ValueError, match="at least one"):
        Vocabulary([])
