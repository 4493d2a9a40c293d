"""The engines that a benchmark compares: each finds the content expressions that one document
meets."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from lxml import etree

from filters.filter import Expression, Namespaces
from filters.matching.engines.choice import NATIVE, REFERENCE, engine_note, make_index
from filters.matching.engines.index import Found, Index
from filters.matching.engines.installed import InstalledIndex, installed_engines, load_engine
from filters.xpath import compile_xpath

NAIVE = "naive"
ENGINES = (NAIVE, REFERENCE, NATIVE)
VERIFIERS = 4096
"""Compiled expressions that are kept for those that an index leaves to libxml2."""


class Engine(Protocol):
    """Expressions by number; one that is added again gets the number that it has."""

    def add(self, expression: Expression) -> int: ...

    def remove(self, number: int) -> None: ...

    def find(self, root: etree._Element) -> list[int]:
        """The numbers of the expressions that are true of the document of *root*."""

    def find_all(self, roots: Sequence[etree._Element]) -> list[list[int]]:
        """The same for each of *roots*: a batch."""

    def __len__(self) -> int:
        """Return the number of distinct expressions."""


class Naive:
    """Each expression compiled by lxml and evaluated one by one: what there is without engines."""

    def __init__(self) -> None:
        self._compiled: dict[int, etree.XPath] = {}
        self._numbers: dict[Expression, int] = {}
        self._expressions: dict[int, Expression] = {}
        self._users: Counter[int] = Counter()
        self._next = 0

    def add(self, expression: Expression) -> int:
        number = self._numbers.get(expression)
        if number is None:
            xpath = compile_xpath(expression.text, expression.namespaces)
            number, self._next = self._next, self._next + 1
            self._numbers[expression] = number
            self._expressions[number] = expression
            self._compiled[number] = xpath
        self._users[number] += 1
        return number

    def remove(self, number: int) -> None:
        self._users[number] -= 1
        if not self._users[number]:
            del self._users[number], self._compiled[number]
            del self._numbers[self._expressions.pop(number)]

    def find(self, root: etree._Element) -> list[int]:
        return [number for number, xpath in self._compiled.items() if _holds(xpath, root)]

    def find_all(self, roots: Sequence[etree._Element]) -> list[list[int]]:
        return [self.find(root) for root in roots]

    def __len__(self) -> int:
        return len(self._compiled)


class Indexed:
    """An index of `filters.matching`; libxml2 decides what it leaves open."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._kept: OrderedDict[tuple[str, Namespaces], etree.XPath] = OrderedDict()

    def add(self, expression: Expression) -> int:
        return self._index.add(expression)

    def remove(self, number: int) -> None:
        self._index.remove(number)

    def find(self, root: etree._Element) -> list[int]:
        return self._decided(self._index.find(root), root)

    def find_all(self, roots: Sequence[etree._Element]) -> list[list[int]]:
        return [self.find(root) for root in roots]

    def _decided(self, found: Found, root: etree._Element) -> list[int]:
        true, doubtful = found
        return [*true, *self._verified(doubtful, root)] if doubtful else list(true)

    def _verified(self, doubtful: list[int], root: etree._Element) -> list[int]:
        return [number for number in doubtful if _holds(self._xpath(number), root)]

    def _xpath(self, number: int) -> etree.XPath:
        expression = self._index.expression(number)
        key = (expression.text, expression.namespaces)
        xpath = self._kept.get(key)
        if xpath is None:
            if len(self._kept) >= VERIFIERS:
                self._kept.popitem(last=False)
            xpath = self._kept[key] = compile_xpath(*key)
        return xpath

    def __len__(self) -> int:
        return len(self._index)


class Installed(Indexed):
    """An engine of another package, which sees a batch at once."""

    def __init__(self, name: str) -> None:
        self._batches = InstalledIndex(load_engine(name))
        super().__init__(self._batches)

    def find_all(self, roots: Sequence[etree._Element]) -> list[list[int]]:
        found = self._batches.find_all(roots)
        return [self._decided(one, root) for one, root in zip(found, roots, strict=True)]


def engines() -> tuple[str, ...]:
    """Return the names of all engines, ours first."""
    return (*ENGINES, *(name for name in installed_engines() if name not in ENGINES))


def unavailable(name: str) -> str | None:
    """Say why there is no engine of that *name* here; None where there is one."""
    if name not in engines():
        return f"{name!r} is not an engine; the engines are {', '.join(engines())}"
    if name not in ENGINES:
        try:
            load_engine(name)
        except ValueError as error:
            return str(error)
    return engine_note() if name == NATIVE else None


def make_engine(name: str) -> Engine:
    """A new engine without expressions.

    Raises:
        ValueError: No engine has that *name* here.
    """
    if (why := unavailable(name)) is not None:
        raise ValueError(why)
    return _MAKERS[name]() if name in _MAKERS else Installed(name)


_MAKERS: Mapping[str, Callable[[], Engine]] = {
    NAIVE: Naive,
    REFERENCE: lambda: Indexed(make_index(REFERENCE)),
    NATIVE: lambda: Indexed(make_index(NATIVE)),
}


def _holds(xpath: etree.XPath, root: etree._Element) -> bool:
    try:
        return bool(xpath(root))
    except etree.XPathError:
        return False
