"""An engine for Dragoman: expressions that are plain paths, such as ``/storm/w:speed``, are found
by one walk over the document, however many there are. It leaves all others to libxml2."""

import re
from collections.abc import Iterable, Iterator, Sequence

from lxml import etree

from filters import Expression

STEP = r"(?:[A-Za-z_][\w.-]*:)?[A-Za-z_][\w.-]*"
PATH = re.compile(rf"(?:/{STEP})+")

Path = tuple[str, ...]
"""The names of the elements from the root down, in Clark notation."""


def compile(expressions: Sequence[Expression]) -> "Paths":
    """Compile a set of expressions: what the entry point names."""
    return Paths(expressions)


class Paths:
    """A compiled set: the positions of expressions by their path."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self.positions: dict[Path, list[int]] = {}
        self.undecided = []
        self.beginnings: set[Path] = set()
        """All beginnings of paths: no need to walk below anything else."""
        for position, expression in enumerate(expressions):
            if PATH.fullmatch(expression.text):
                path = tuple(names(expression))
                self.positions.setdefault(path, []).append(position)
                self.beginnings.update(path[:length] for length in range(1, len(path) + 1))
            else:
                self.undecided.append(position)

    def match(self, documents: Sequence[etree._Element]) -> list[Iterable[int]]:
        """The positions of the expressions that are true of each document of a batch."""
        return [
            [one for path in set(self.paths(root, ())) for one in self.positions.get(path, ())]
            for root in documents
        ]

    def paths(self, element: etree._Element, above: Path) -> Iterator[Path]:
        """The paths of *element* and of the elements below it that some expression asks for."""
        path = (*above, element.tag)
        if path in self.beginnings:
            yield path
            for child in element.iterchildren(etree.Element):
                yield from self.paths(child, path)


def names(expression: Expression) -> Iterator[str]:
    """The steps of a plain path, with the namespaces that their prefixes stand for."""
    scope = dict(expression.namespaces)
    for step in expression.text[1:].split("/"):
        prefix, colon, name = step.rpartition(":")
        yield f"{{{scope[prefix]}}}{name}" if colon else name
