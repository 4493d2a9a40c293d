"""Regular expressions, by RE2: its time is linear in the text, whatever the expression, and its
memory is bounded. The extra ``discovery`` has it.

An expression is tried with each text by itself, unanchored. Calls cost more than texts, so that
many texts are searched at once before: the expression in a mode in which the beginning and the end
of each line are those of a text finds at least where the expression matches.
"""

import re
from collections.abc import Sequence
from typing import Any

from filters.extras import how_to_install
from filters.queries.descriptions import Described
from filters.reasons import FilterError, Reason

try:
    import re2
except ImportError:
    re2 = None

MAX_CHARACTERS = 256
MAX_MEMORY = 2**20
"""Bytes that an expression may take, and half of that again when many texts are searched."""
MAX_SAID = 160

_OF_WHOLE_TEXTS = re.compile(r"\\[AzZQEC]|\(\?[A-Za-z]*-?[A-Za-z]*m")
"""Syntax that may mean something else within a line than within a text."""


def is_installed() -> bool:
    """Return True if there is an engine for regular expressions."""
    return re2 is not None


class RegularQuery:
    """A regular expression.

    Raises:
        FilterError: ``FILTER_INVALID``, ``FILTER_COSTLY``; ``QUERY_DIALECT`` without the engine.
    """

    __slots__ = ("_one", "_several")

    def __init__(self, text: str) -> None:
        if re2 is None:
            raise FilterError(
                Reason.QUERY_DIALECT,
                f"regular expressions need a library: {how_to_install('discovery')}",
            )
        if len(text) > MAX_CHARACTERS:
            raise FilterError(
                Reason.FILTER_COSTLY,
                f"the regular expression has more than {MAX_CHARACTERS} characters",
            )
        if not text:
            raise FilterError(Reason.FILTER_INVALID, "the regular expression is empty")
        try:
            self._one = _compiled(text)
        except (re2.error, UnicodeError) as exc:
            raise _refused(exc) from exc
        self._several: Any = None
        if not _OF_WHOLE_TEXTS.search(text):
            try:
                self._several = _compiled(f"(?m)(?:{text})")
            except re2.error:
                self._several = None

    def holds(self, one: Described) -> bool:
        """Return True if the expression matches one of the texts."""
        search = self._one.search
        return any(search(encoded(text)) is not None for text in one.searched_texts())

    def finds_lines(self) -> bool:
        """Return True if `next_line` can be asked."""
        return self._several is not None

    def next_line(self, lines: bytes, start: int) -> int:
        """Return a place at or behind *start*, the beginning of a line, before which no line of
        *lines* has a match of the expression; -1 if none is left."""
        found = self._several.search(lines, start)
        return -1 if found is None else int(found.start())


def encoded(text: str) -> bytes:
    return text.encode(errors="replace")


def as_lines(texts: Sequence[str]) -> bytes:
    """Return *texts* for `RegularQuery.next_line`, each a line or several, closed."""
    return encoded("\n".join(texts) + "\n")


def _compiled(text: str) -> Any:
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    try:
        return re2.compile(text, options)
    finally:
        re2.purge()  # Its cache would hold what strangers wrote.


def _refused(error: Exception) -> FilterError:
    said = error.args[0] if error.args else ""
    if isinstance(said, bytes):
        said = said.decode(errors="replace")
    shown = "".join(character if character.isprintable() else "?" for character in str(said))
    reason = Reason.FILTER_COSTLY if "too large" in shown else Reason.FILTER_INVALID
    return FilterError(reason, f"the regular expression is refused: {shown[:MAX_SAID]}")
