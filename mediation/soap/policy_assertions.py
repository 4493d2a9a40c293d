"""Policy assertions with which a subscriber says what it wishes: where they stand in Subscribe."""

from collections.abc import Iterable, Iterator

from lxml import etree

from mediation import names

_POLICIES = frozenset(
    f"{{{namespace}}}Policy" for namespace in (names.POLICY_1_5, names.POLICY_2004_09)
)


def assertions_in(parts: Iterable[etree._Element], *tags: str) -> Iterator[etree._Element]:
    """The assertions, by their expanded names, among *parts* of a Subscribe, and within a
    ``wsp:Policy`` of either version among them."""
    for part in parts:
        if part.tag in tags:
            yield part
        elif part.tag in _POLICIES:
            yield from part.iter(*tags)
