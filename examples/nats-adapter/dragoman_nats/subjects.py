"""Interests as the subjects of a stream."""

from collections.abc import Collection, Iterable
from itertools import takewhile

from adapters import Interest
from adapters.broker.destinations import (
    ANY,
    ONE,
    Destination,
    Destinations,
    Wildcards,
    Words,
    covers,
    overlap,
)
from filters import parse_expression

MAX_SUBJECTS = 100
"""The most subjects of a stream; with more patterns, it takes everything below the root."""

_WILDCARDS = Wildcards(">", inside=False)

Patterns = frozenset[Words]


def patterns_of(interest: Interest, destinations: Destinations) -> Patterns:
    """Patterns that together match all that *interest* covers, and perhaps more.

    Raises:
        FilterError: It is not a topic expression of a known dialect.
    """
    expression = interest.expression
    pattern = None if expression is None else parse_expression(expression)
    return _words(destinations.patterns(pattern, _WILDCARDS))


def subjects_of(wanted: Collection[Patterns], destinations: Destinations) -> list[str]:
    """The subjects of a stream that takes all that is *wanted*; sorted, and at least one."""
    patterns = frozenset(words for patterns in wanted for words in patterns)
    if len(patterns) > MAX_SUBJECTS or any(words[0] in (ONE, ANY) for words in patterns):
        patterns = _words(destinations.patterns(None, _WILDCARDS))
    # A stream has a subject; the root alone is no topic's.
    return merged(patterns) or [destinations.root]


def merged(patterns: Iterable[Words]) -> list[str]:
    """Subjects of which no two overlap, as a stream demands, and that match at least what
    *patterns* match; sorted."""
    found: set[Words] = set()
    for words in sorted(patterns):
        while other := next((each for each in found if overlap(each, words)), None):
            found.remove(other)
            words = _both(words, other)
        found.add(words)
    subjects = set()
    for words in found:
        if words[-1] == ANY:  # `>` is at least one word.
            subjects.add(".".join(words[:-1]))
            words = (*words[:-1], ">")
        subjects.add(".".join(words))
    return sorted(subjects)


def _both(one: Words, other: Words) -> Words:
    """Join two patterns: the wider one, else everything that begins as both do."""
    for wide, narrow in ((one, other), (other, one)):
        if covers(wide, narrow):
            return wide
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return (*(word for word, _ in same), ANY)


def _words(patterns: Iterable[Destination]) -> frozenset[Words]:
    return frozenset(tuple(there.name.replace(">", ANY).split(".")) for there in patterns)
