"""Queries of words: all must occur, without regard to case.

A word is a run of letters, digits and underscores, in a query as in a text; ``harbour wind`` asks
for both, in any order and in any of the texts. What stands in double quotes must occur in one text
as it stands there: ``"Weather/Europe"``.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from filters.queries.descriptions import Described
from filters.reasons import FilterError, Reason

MAX_CHARACTERS = 1024
MAX_WORDS = 32

_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r'"([^"]*)"')


@dataclass(frozen=True, slots=True)
class WordQuery:
    """Words, and phrases: texts that must occur as they are, between the edges of words."""

    words: frozenset[str]
    phrases: tuple[str, ...]

    def holds(self, one: Described) -> bool:
        """Return True if all words and phrases occur in *one*."""
        texts = [fold(text) for text in one.described_texts()]
        found = {word for text in texts for word in _WORD.findall(text)}
        return self.words <= found and self._has_phrases(texts)

    def has_phrases(self, one: Described) -> bool:
        """Return True if all phrases occur in *one*, which has all words."""
        if not self.phrases:
            return True
        return self._has_phrases([fold(text) for text in one.described_texts()])

    def _has_phrases(self, texts: list[str]) -> bool:
        return all(any(_occurs(phrase, text) for text in texts) for phrase in self.phrases)


def parse_words(text: str) -> WordQuery:
    """Parse *text*.

    Raises:
        FilterError: ``FILTER_INVALID``: it has no word, or a quote that is not closed;
            ``FILTER_COSTLY``.
    """
    if len(text) > MAX_CHARACTERS:
        raise FilterError(Reason.FILTER_COSTLY, f"there are more than {MAX_CHARACTERS} characters")
    if text.count('"') % 2:
        raise FilterError(Reason.FILTER_INVALID, "a quote is not closed")
    words = frozenset(words_in([text]))
    if not words:
        raise FilterError(Reason.FILTER_INVALID, "the query has no word: write letters or digits")
    if len(words) > MAX_WORDS:
        raise FilterError(Reason.FILTER_COSTLY, f"there are more than {MAX_WORDS} words")
    phrases = (fold(phrase).strip() for phrase in _QUOTED.findall(text))
    return WordQuery(words, tuple({phrase: None for phrase in phrases if phrase}))


def words_in(texts: Iterable[str]) -> set[str]:
    """Return the words in *texts*, as they are compared."""
    return {word for text in texts for word in _WORD.findall(fold(text))}


def fold(text: str) -> str:
    """Return *text* without its differences of case, and of characters that look alike."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _occurs(phrase: str, text: str) -> bool:
    at = text.find(phrase)
    while at >= 0:
        end = at + len(phrase)
        if not _inside_word(text, at) and not _inside_word(text, end):
            return True
        at = text.find(phrase, at + 1)
    return False


def _inside_word(text: str, at: int) -> bool:
    """Return True if the place *at* has a part of one word on either side."""
    return 0 < at < len(text) and _WORD.fullmatch(text, at - 1, at + 1) is not None
