"""Documents that are kept to be asked many times, as the compiled engine writes them: *tapes*.

To parse a document takes ten times as long as to ask it, and libxml2's tree takes ten times its
room. A tape takes about as much as the document, and is asked at once. It has its names apart, in a
*vocabulary*, which documents of one kind share. Where XPath 1.0 leaves libxml2 a choice, or a tape
has not all that is asked for, the answer is that libxml2 has to decide; where the compiled engine
was not built, it decides everything.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from lxml import etree

from filters.matching.engines.choice import NATIVE, engine
from filters.queries.codes import code_of
from filters.xpath.syntax import Node

if TYPE_CHECKING:
    from filters.matching import _kernel

Tape: TypeAlias = tuple[bytes, bytes]
"""A vocabulary and a tape."""

FALSE, TRUE, DOUBTFUL = 0, 1, 2
"""What an expression is of a tape, in the bytes that `Asking.decide` returns."""


def tape_of(root: etree._Element) -> Tape | None:
    """Return the tape of the document of *root*; None where libxml2 has to be asked: a document
    of more than 64 KB of text, or with a document type, has none."""
    kernel = _kernel_here()
    tape: Tape | None = None if kernel is None else kernel.tape_of(root)
    return tape


def asking(tree: Node) -> "_kernel.Asking | None":
    """Return what asks tapes the expression of *tree*; None where only libxml2 can be asked."""
    kernel = _kernel_here()
    if kernel is None or (code := code_of(tree)) is None:
        return None
    asks: _kernel.Asking = kernel.Asking(code)
    return asks


@lru_cache(maxsize=1)
def _kernel_here() -> Any:
    """The compiled engine; None where it does not run, or is of before there were tapes, as in a
    checkout in which it was not built again."""
    if engine() != NATIVE:
        return None
    from filters.matching import _kernel

    return _kernel if hasattr(_kernel, "Asking") else None
