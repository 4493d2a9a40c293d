"""Engines of other packages: entry points of the group ``dragoman.engines``.

An entry point names a function that compiles a set of XPath expressions; what it returns matches a
batch of documents. It need not understand every expression: libxml2 decides those that it leaves
open, and those that it fails about. ``dragoman benchmark filters`` compares its verdicts.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from itertools import count
from typing import Protocol

from lxml import etree

from filters.filter import Expression, Namespaces
from filters.matching.engines.index import Found
from filters.matching.planning.templates import plan_of

ENTRY_POINT_GROUP = "dragoman.engines"

_log = logging.getLogger("dragoman.filters")
_Identity = tuple[str, Namespaces]


class CompiledSet(Protocol):
    """A set of expressions, each known by its position in what was compiled.

    ``undecided``: positions of the expressions that `match` says nothing about.
    """

    undecided: Collection[int]

    def match(self, documents: Sequence[etree._Element]) -> Sequence[Iterable[int]]:
        """Return the positions of the expressions that are true of each of *documents*, which are
        root elements and must not be changed; each position once."""


Compile = Callable[[Sequence[Expression]], CompiledSet]
"""The function of an entry point. Expressions are XPath 1.0, valid, and differ; only their ``text``
and ``namespaces`` matter."""


def installed_engines() -> tuple[str, ...]:
    """Return the names of the engines of other packages, sorted."""
    return tuple(sorted(point.name for point in entry_points(group=ENTRY_POINT_GROUP)))


@lru_cache(maxsize=16)
def load_engine(name: str) -> Compile:
    """Load the engine called *name*.

    Raises:
        ValueError: There is none, or it cannot be loaded; the text says which.
    """
    found = [point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name == name]
    if not found:
        raise ValueError(f"no engine is called {name!r}")
    return _load(found[0])


def _load(point: EntryPoint) -> Compile:
    try:
        compile: Compile = point.load()
    except Exception as error:  # Whatever a module of others does when it is imported.
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"the engine {point.name!r} cannot be loaded: {why}") from error
    if not callable(compile):
        raise ValueError(f"the engine {point.name!r} is not a function that compiles expressions")
    return compile


class _Nothing:
    """A set about which an engine says nothing."""

    undecided: Collection[int] = ()

    def match(self, documents: Sequence[etree._Element]) -> Sequence[Iterable[int]]:
        return [()] * len(documents)


class InstalledIndex:
    """See `filters.matching.engines.index.Index`. After a change the whole set is compiled anew,
    before the next document is matched."""

    def __init__(self, compile: Compile) -> None:
        self._compile = compile
        self._numbers: dict[_Identity, int] = {}
        self._entries: dict[int, tuple[Expression, _Identity]] = {}
        self._users: dict[int, int] = {}
        self._next = count()
        self._compiled: CompiledSet | None = None
        self._order: list[int] = []
        """The numbers of the expressions by their position in the compiled set."""
        self._undecided: list[int] = []

    def add(self, expression: Expression) -> int:
        identity = (expression.text, expression.namespaces)
        number = self._numbers.get(identity)
        if number is None:
            plan_of(expression)  # Refuses what is not valid, as our engines do.
            number = self._numbers[identity] = next(self._next)
            kept = Expression(expression.text, expression.dialect, expression.namespaces)
            self._entries[number] = (kept, identity)
            self._compiled = None
        self._users[number] = self._users.get(number, 0) + 1
        return number

    def remove(self, number: int) -> None:
        self._users[number] -= 1
        if not self._users[number]:
            del self._users[number], self._numbers[self._entries.pop(number)[1]]
            self._compiled = None

    def find_in(self, octets: bytes, *, checked: bool) -> Found | None:
        return None

    def find(self, root: etree._Element) -> Found:
        return self.find_all([root])[0]

    def find_all(self, roots: Sequence[etree._Element]) -> list[Found]:
        """Find the expressions that are true of each document, in one call of the engine."""
        try:
            made = self._made()
            answers = [self._numbered(found) for found in made.match(roots)]
            if len(answers) != len(roots):
                raise ValueError(f"{len(answers)} answers about {len(roots)} documents")
        except Exception:  # Whatever an engine of others does: libxml2 decides from now on.
            # Until the filters change.
            _log.exception("filters.engine_failed", extra={"effect": "libxml2 decides"})
            self._compiled = _Nothing()
            self._undecided = list(self._entries)
            answers = [[] for _ in roots]
        return [Found(numbers, self._undecided) for numbers in answers]

    def expression(self, number: int) -> Expression:
        return self._entries[number][0]

    def __len__(self) -> int:
        return len(self._entries)

    def _made(self) -> CompiledSet:
        if self._compiled is None:
            self._order = list(self._entries)
            made = self._compile([self._entries[number][0] for number in self._order])
            self._undecided = self._numbered(getattr(made, "undecided", ()))
            self._compiled = made
        return self._compiled

    def _numbered(self, positions: Iterable[int]) -> list[int]:
        order = self._order
        found = {position for position in positions if 0 <= position < len(order)}
        return [order[position] for position in found]
