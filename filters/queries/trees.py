"""XPath queries: one expression, and many documents.

To parse a document takes longer than to evaluate an expression, so documents should be told apart
without. A document has a *signature*: bits for the names of its elements and attributes, and for
their values. What an expression requires of any document of which it is true (`required`, from its
plan) is bits too, so a document that lacks one of them is not read. It is never the other way
round. Libxml2 decides about what is left, one document after the other; where the time of a query
ends before it has done so, the answer says that it is not complete.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple, cast
from zlib import crc32

from lxml import etree

from filters.documents import parse_own
from filters.matching.fallback.compilation import Compiled
from filters.matching.fallback.cost import DocumentSize
from filters.matching.fallback.verification import VISITS
from filters.matching.planning.numbers import read_number
from filters.matching.planning.plan import (
    AND,
    ATTRIBUTE,
    EQUAL,
    NUMBER_EQUAL,
    OR,
    Atom,
    Formula,
    Plan,
)
from filters.matching.planning.planner import plan
from filters.xpath.parser import parse_text

NAME_BITS, NUMBER_BITS = 448, 64
LONGEST_VALUE = 64
"""Characters of a value that has bits; a longer one has none, and is never asked for."""
MOST_ALTERNATIVES = 8
ANY_NUMBER = ((1 << NUMBER_BITS) - 1) << NAME_BITS
"""The bits of all numbers: of a document with one that libxml2 alone can read."""
EVERYTHING = (1 << (NAME_BITS + NUMBER_BITS)) - 1
_TEXTS = etree.XPath("//text()", smart_strings=False)
_PIECES = (b"<!--", b"<![CDATA[", b"<?")
"""Markup that may part a text into two values: rare, and not worth telling apart."""


class TreeQuery:
    """An XPath 1.0 expression, as a boolean, with the root element of a document as context node.

    Raises:
        FilterError: As `filters.xpath.compile_xpath`.
    """

    __slots__ = ("_cheap", "_compiled", "masks")

    def __init__(self, text: str) -> None:
        self._compiled = Compiled(text, ())
        self._cheap: DocumentSize | None = None
        """The last size that it was cheap for: things of one kind come one after the other."""
        self.masks = required(plan(parse_text(text, ())))
        """A document's signature must have all bits of one of these."""

    def holds(self, documents: Sequence[bytes], size: DocumentSize | None = None) -> bool | None:
        """Return True if it is true of one of *documents*; None where it is too expensive to find
        out, and true of none of the others.

        Args:
            size: A size that covers those of all documents, where that is known.
        """
        known: bool | None = False
        for document in documents:
            root = read(document)
            if root is None:
                continue
            if size is None or size is not self._cheap:
                of_it = size or DocumentSize.of(root)
                if not self._compiled.is_cheap(of_it, VISITS):
                    known = None
                    continue
                self._cheap = of_it
            if self._compiled.holds(root):
                return True
        return known

    def may_hold(self, signature: int) -> bool:
        """Return False if it is true of no document with this signature."""
        return any(signature & mask == mask for mask in self.masks)


def read(document: bytes) -> etree._Element | None:
    """Return the root element of *document*; None where it is not XML, which nothing is true of."""
    try:
        return parse_own(document)
    except (etree.XMLSyntaxError, ValueError):
        return None


def document_text(documents: Sequence[bytes]) -> str:
    """Return the text of *documents*, for `Described.document_text`: each piece between two tags
    that is not blank on lines of its own."""
    roots = [root for document in documents if (root := read(document)) is not None]
    # Comments and instructions are not text.
    pieces = (piece for root in roots for piece in cast("list[str]", _TEXTS(root)))
    return "\n".join(text for piece in pieces if (text := piece.strip()))


class Summary(NamedTuple):
    """A summary of documents, so that most queries need not read them.

    Attributes:
        signature: The bits of all documents together.
        size: A size that covers all of them; None where there is no document.
    """

    signature: int
    size: DocumentSize | None


def read_summary(documents: Sequence[bytes]) -> Summary:
    """Read *documents*, and return their summary."""
    signature, covering = 0, None
    for document in documents:
        root = read(document)
        if root is None:
            continue
        size = DocumentSize.of(root)
        covering = size if covering is None else covering.union(size)
        if any(piece in document for piece in _PIECES):
            signature = EVERYTHING
        else:
            signature |= _bits_of(root)
    return Summary(signature, covering)


def required(of: Plan) -> tuple[int, ...]:
    """Return alternatives of which a document that the expression of a plan is true of has one."""
    return tuple(_alternatives(of.formula, [_atom_bits(atom) for atom in of.atoms]))


def _alternatives(formula: Formula, atoms: Sequence[int]) -> list[int]:
    if isinstance(formula, int):
        # A negated atom is taken as true.
        return [atoms[formula]] if formula >= 0 else [0]
    code, *parts = formula
    if code == OR:
        found = [bits for part in parts for bits in _alternatives(part, atoms)]
        return list(dict.fromkeys(found)) if len(found) <= MOST_ALTERNATIVES else [0]
    if code != AND:
        return [0]
    both = [0]
    for part in parts:
        some = _alternatives(part, atoms)
        if len(both) * len(some) <= MOST_ALTERNATIVES:
            both = list(dict.fromkeys(one | other for one, other in product(both, some)))
    return both


def _atom_bits(atom: Atom) -> int:
    path, tests = atom
    bits = 0
    for _, _, local in path:
        if local is not None:
            bits |= _hashed("e" + local)
    for subject, _, local, comparison, operand in tests:
        if subject == ATTRIBUTE and local is not None:
            bits |= _hashed("a" + local)
        if comparison == EQUAL and len(operand) <= LONGEST_VALUE:
            bits |= _hashed("v" + operand)
        elif comparison == NUMBER_EQUAL:
            bits |= _number_bits(operand)
    return bits


def _bits_of(root: etree._Element) -> int:
    names: set[str] = set()
    values = {""}
    for element in root.iter(etree.Element):
        names.add("e" + element.tag.rpartition("}")[2])
        for name, value in cast("Iterable[tuple[str, str]]", element.attrib.items()):
            names.add("a" + name.rpartition("}")[2])
            values.add(value)
        if element.text:
            values.add(element.text)
        if len(element):
            values.add("".join(cast("Iterator[str]", element.itertext())))
            values.update(child.tail for child in element if child.tail)
    bits = 0
    for each in names:
        bits |= _hashed(each)
    for value in values:
        bits |= _value_bits(value) if len(value) <= LONGEST_VALUE else _number_in(value)
    return bits


@lru_cache(maxsize=8192)
def _value_bits(value: str) -> int:
    """The bits of a value that is not too long to be asked for."""
    return _number_in(value) | _hashed("v" + value)


def _number_in(value: str) -> int:
    number = read_number(value)
    if number is None:
        return ANY_NUMBER
    return 0 if number != number else _number_bits(number)


def _number_bits(number: float) -> int:
    code = crc32(repr(number + 0.0).encode())  # There are two zeros, which are equal.
    return (1 << (code & 63) | 1 << (code >> 8 & 63)) << NAME_BITS


@lru_cache(maxsize=8192)
def _hashed(text: str) -> int:
    """Two bits of a kind and a text. Of a checksum: everybody may know it, but all that one gains
    is to be parsed."""
    code = crc32(text.encode(errors="replace"))
    return 1 << (code % NAME_BITS) | 1 << ((code >> 16) % NAME_BITS)
