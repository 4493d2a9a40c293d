"""What the compiled engine parses itself, beside what lxml parses: the same is read, and found."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from lxml import etree

from filters import Expression, FilterError, parse_document
from filters.documents import parse_own
from filters.matching.engines.index import Found, Index
from filters.workloads import Vocabulary, expressions
from tests.filters.matching.mutations import mutated

GENERAL = (
    *("//*", "//@*", "//text()", "//comment()", "//*[@*]", "//*[. = '']", "//*[.='1']", "//n"),
    *("//*[@a='1']", "//*[@a='2']", "//*[@xml:lang]", "/*/*/*/*/*", "//*[contains(., 'x<y&z')]"),
    *("//n[contains(., 'x')]", "//*[@a='<']", "//*[starts-with(., ' ')]", "//*[. > 5]"),
)
PREFIXED = ("//p:*", "//p:n", "//*[@p:a]", "//*[@p:a='1']")


@dataclass(frozen=True)
class Parsings:
    """*documents* that were compared, of which *read* by the engine itself; what it leaves to lxml
    is lxml's alone, with nothing to compare."""

    documents: int = 0
    read: int = 0

    def __add__(self, other: "Parsings") -> "Parsings":
        return Parsings(self.documents + other.documents, self.read + other.read)


class ParsingsDiffer(AssertionError):
    """The engine read what is refused, or found something else in it."""


def filled(index: Index, documents: Sequence[bytes]) -> Index:
    """*index* with expressions about *documents* and about what mutations bring."""
    for style in ("xm0", "xm1", "xm3"):
        for expression in expressions(style, 700, 1, Vocabulary(documents)):
            index.add(expression)
    for text in GENERAL:
        index.add(Expression(text))
    for text in PREFIXED:
        index.add(Expression(text, namespaces=(("p", "urn:p"),)))
    return index


def compare(index: Index, octets: bytes, modes: Sequence[bool] = (True, False)) -> Parsings:
    """Compare what *index* says of *octets* with what it says of lxml's tree: as of a document that
    was *checked* before, or with the limits checked on the way, as *modes* say.

    Raises:
        ParsingsDiffer: It differs.
    """
    found = {checked: index.find_in(octets, checked=checked) for checked in modes}
    wanted = None
    for checked, one in found.items():
        if one is None:
            continue
        root = _parsed(octets, checked=checked)
        if root is None:
            raise ParsingsDiffer(f"checked={checked}: refused, but for the engine: {octets!r}")
        if wanted is None:  # Both parse the same octets into the same tree.
            wanted = _sets(index.find(root))
        if _sets(one) != wanted:
            raise ParsingsDiffer(f"checked={checked}: not what is found in lxml's tree: {octets!r}")
    return Parsings(1, any(one is not None for one in found.values()))


def _parsed(octets: bytes, *, checked: bool) -> etree._Element | None:
    try:
        return parse_own(octets) if checked else parse_document(octets)
    except (FilterError, etree.XMLSyntaxError, ValueError):
        return None


def _sets(found: Found) -> tuple[set[int], set[int]]:
    return set(found.true), set(found.doubtful)


def compare_mutations(index: Index, documents: Sequence[bytes], seed: str) -> Parsings:
    """Compare a mutation of each of *documents*, in one mode; the same *seed*, the same mutations."""
    chance = random.Random(seed)
    seen = Parsings()
    for octets in documents:
        seen += compare(index, mutated(chance, octets), (chance.random() < 0.5,))
    return seen
