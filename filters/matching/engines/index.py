"""The interface of an engine: the content expressions over one view, by number."""

from array import array
from typing import NamedTuple, Protocol

from lxml import etree

from filters.filter import Expression


class Found(NamedTuple):
    """The result of one message for the expressions of an index; all that are not here are
    false."""

    true: "list[int] | array[int]"
    """Numbers; packed by the compiled engine, because there may be thousands."""
    doubtful: list[int]
    """Libxml2 has to decide these (`filters.matching.fallback.verification`)."""


class Index(Protocol):
    """Content expressions by number. One that is added again gets the number it has.

    Not for several threads at a time. Its memory of messages is bounded.
    """

    def add(self, expression: Expression) -> int:
        """Count one more user of *expression*, and return its number.

        Only ``text`` and ``namespaces`` matter; a number that was let go of is used again.

        Raises:
            FilterError: ``FILTER_INVALID``, ``FILTER_COSTLY``; nothing has changed then.
        """

    def remove(self, number: int) -> None:
        """Count one user less; the last one takes the expression out.

        Raises:
            KeyError: No expression has *number*.
        """

    def find(self, root: etree._Element) -> Found:
        """Find the expressions that are true of the document of *root*, its root element; each
        number at most once."""

    def find_in(self, octets: bytes, *, checked: bool) -> Found | None:
        """As `find`, of the document that *octets* are, if the engine parses it itself.

        Args:
            checked: `parse_document` has passed it; else what that might refuse is left to it.

        Returns:
            None where the document is to be parsed for `find`: because this engine does not parse,
            or because it is, or may be, one that is refused.
        """

    def expression(self, number: int) -> Expression:
        """Return the expression of *number*, equal to the one that was added but for its view.

        Raises:
            KeyError: No expression has *number*.
        """

    def __len__(self) -> int:
        """Return the number of distinct expressions."""
