"""Fails each allocation of the compiled engine in turn, and looks whether it is as it was before.

A program of its own, with `failing_allocations.cpp` preloaded; ``SEED COUNT MODE`` are its
arguments, where MODE is ``one`` or ``rest``: whether later allocations fail too. It prints how many
allocations failed.
"""

import ctypes
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import TypeVar

from lxml import etree

from filters import Expression, FilterError
from filters.documents import parse_own
from filters.matching.engines.native import NativeIndex
from filters.xpath import compile_xpath
from tests.filters.matching.expressions import Grammar
from tests.filters.matching.nasty import document

Result = TypeVar("Result")

LEARNED = {"states", "remembered", "programs", "numbers"}
"""What a message teaches, and numbers that lie idle: a failure may change them."""
NAMED = {"names", "values"}
"""What programs name, too, which a message brings."""
_hook = ctypes.CDLL(None)
_left = ctypes.c_long.in_dll(_hook, "allocations_left")


class Trial:
    """An engine, what libxml2 says of its expressions, and how many allocations failed."""

    def __init__(self, seed: int, size: int) -> None:
        chance = random.Random(seed)
        grammar = Grammar(chance, 0.15)
        self.index = NativeIndex()
        self.numbers: dict[Expression, int] = {}
        self.expressions = list(_valid(grammar, size))
        self.documents = [document(chance, 14) for _ in range(5)]
        self.roots = [parse_own(octets) for octets in self.documents]
        self.verdicts = {
            one: [bool(compile_xpath(one.text, one.namespaces)(root)) for root in self.roots]
            for one in self.expressions
        }
        self.failed = 0

    def run(self) -> None:
        for one in self.expressions:
            self.numbers[one] = self.until_it_succeeds(partial(self.index.add, one), LEARNED)
            self.check(self.roots[:1])
        for root in self.roots:
            self.until_it_succeeds(partial(self.index.find, root), LEARNED | NAMED)
        for octets in self.documents:
            found = partial(self.index.find_in, octets, checked=True)
            self.until_it_succeeds(found, LEARNED | NAMED)
        # Filters move while messages come.
        for turn in range(60):
            root = self.roots[turn % len(self.roots)]
            with _failing_after(turn % 7), suppress(MemoryError):
                self.index.find(root)
            self.check([root])
        for one in self.expressions:
            with _failing_after(0):  # Nobody who leaves needs memory.
                self.index.remove(self.numbers.pop(one))
            self.check(self.roots[:1])
        # The root of all paths stays.
        assert {name: size for name, size in self.sizes(LEARNED).items() if size} == {"nodes": 1}

    def until_it_succeeds(self, act: Callable[[], Result], changes: set[str]) -> Result:
        """Fail the first allocation of *act*, then the second, and so on; all sizes but those that
        it *changes* stay as they were."""
        before = self.sizes(changes)
        for allocation in count():
            try:
                with _failing_after(allocation):
                    return act()
            except MemoryError:
                self.failed += 1
                assert self.sizes(changes) == before
                self.check(self.roots[:1])
        raise AssertionError

    def check(self, roots: list[etree._Element]) -> None:
        """Compare the engine's verdicts with libxml2's."""
        for root in roots:
            true, doubtful = self.index.find(root)
            at = self.roots.index(root)
            wanted = {number for one, number in self.numbers.items() if self.verdicts[one][at]}
            assert set(true) - set(doubtful) == wanted - set(doubtful)
            assert set(doubtful) <= set(self.numbers.values())

    def sizes(self, without: set[str]) -> dict[str, int]:
        return {name: size for name, size in self.index.sizes().items() if name not in without}


@contextmanager
def _failing_after(allocations: int) -> Iterator[None]:
    _left.value = allocations
    try:
        yield
    finally:
        _left.value = -1


def _valid(grammar: Grammar, size: int) -> Iterator[Expression]:
    known: set[Expression] = set()
    while len(known) < size:
        one = grammar.expression()
        if one not in known:
            with suppress(FilterError):
                NativeIndex().add(one)
                known.add(one)
                yield one


if __name__ == "__main__":
    seed, size, mode = sys.argv[1:]
    ctypes.c_int.in_dll(_hook, "others_fail_too").value = mode == "rest"
    trial = Trial(int(seed), int(size))
    trial.run()
    print(trial.failed)
