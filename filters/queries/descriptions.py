"""Descriptions of things, by which others find them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from filters.queries.selector_syntax import Value


@dataclass(frozen=True, slots=True)
class Described:
    """The description of one thing. Neither it nor its properties are changed later.

    Args:
        created: Aware.
        expires: Aware; None is never.
        documents: XML in UTF-8 that `filters.parse_document` has passed, or that is our own.
        document_text: The text in *documents*, as `filters.queries.document_text` makes it, where
            it is to be searched.
        synopsis_path: The mark of messages about it, where that is a path.
    """

    created: datetime
    expires: datetime | None = None
    creator: str = ""
    paths: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    properties: Mapping[str, Value] = field(default_factory=dict)
    documents: tuple[bytes, ...] = ()
    document_text: str = ""
    synopsis_path: str | None = None

    def described_texts(self) -> Iterator[str]:
        """Return the texts in which words are looked for: paths, texts, keywords, texts of
        properties, and the text of documents."""
        yield from self.paths
        yield from self.texts
        yield from self.keywords
        for value in self.properties.values():
            if isinstance(value, str):
                yield value
        if self.document_text:
            yield self.document_text

    def searched_texts(self) -> Iterator[str]:
        """Return the texts that a regular expression is tried with: those of words, and the path
        of the synopsis."""
        yield from self.described_texts()
        if self.synopsis_path is not None:
            yield self.synopsis_path

    def weight(self) -> int:
        """Return about how many bytes it takes in memory."""
        texts = sum(map(len, self.searched_texts())) + sum(map(len, self.properties))
        return 1024 + 3 * texts + sum(map(len, self.documents)) + 512 * len(self.properties)


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions beside a query, all of which must hold; None asks for nothing.

    A thing that never expires meets *expires_after*, *valid_until* and *validity_at_least*,
    whatever they ask, and neither of the other two.
    """

    created_after: datetime | None = None
    created_before: datetime | None = None
    expires_after: datetime | None = None
    expires_before: datetime | None = None
    validity_at_least: timedelta | None = None
    """Of the whole lifetime, from its creation to its expiry."""
    validity_at_most: timedelta | None = None
    valid_until: datetime | None = None
    """It must not expire before."""
    creator: str | None = None

    def among(self, things: Iterable[Described]) -> list[bool]:
        """Return whether all hold, of each of *things*."""
        after = self.expires_after
        if after is not None and self == Conditions(expires_after=after):
            # Nearly always nothing else is asked: what is over is not looked for.
            return [(ends := one.expires) is None or ends > after for one in things]
        return [self.hold(one) for one in things]

    def hold(self, one: Described) -> bool:
        """Return True if all hold of *one*."""
        created, expires = one.created, one.expires
        if self.creator is not None and one.creator != self.creator:
            return False
        if self.created_after is not None and not created > self.created_after:
            return False
        if self.created_before is not None and not created < self.created_before:
            return False
        if expires is None:
            return self.expires_before is None and self.validity_at_most is None
        return (
            (self.expires_after is None or expires > self.expires_after)
            and (self.expires_before is None or expires < self.expires_before)
            and (self.valid_until is None or expires >= self.valid_until)
            and (self.validity_at_least is None or expires - created >= self.validity_at_least)
            and (self.validity_at_most is None or expires - created <= self.validity_at_most)
        )


ANYTHING = Conditions()
