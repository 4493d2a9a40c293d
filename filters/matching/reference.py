"""The reference engine: plain Python over lxml's elements.

One walk over the message finds the atoms that hold (`filters.matching.trie`,
`filters.matching.tables`). An expression is looked at only when an atom holds that it *watches*:
at least one of these must hold if its formula does. One that was looked at in vain watches others
from then on, such as did not hold (as SAT solvers watch literals): so each comes to watch those of
its atoms that rarely hold.
"""

from collections.abc import Iterable
from typing import Any

from lxml import etree

from filters.filter import Expression
from filters.matching.index import Found
from filters.matching.plan import FALSE, OR, TRUE, Formula
from filters.matching.shapes import plan_of
from filters.matching.tables import Checks, Values, checks_of, string_of
from filters.matching.trie import Node, Trie

_Identity = tuple[str, tuple[tuple[str, str], ...]]


class _Entry:
    """One expression. Its formula is over the atoms of the index."""

    __slots__ = (
        "atoms",
        "branches",
        "exact",
        "expression",
        "formula",
        "identity",
        "users",
        "watched",
    )

    def __init__(self, expression: Expression, identity: _Identity) -> None:
        self.expression = expression
        self.identity = identity
        self.users = 1
        self.formula: Formula = TRUE
        self.atoms: tuple[int, ...] = ()
        self.exact = True
        self.branches: tuple[Node, ...] = ()
        self.watched: Iterable[int] | None = ()
        """None: no atom need hold, it is looked at for every message."""


class _Atom:
    """*sure*: the expressions that are true if it holds; *watching*: those to be looked at."""

    __slots__ = ("checks", "key", "node", "sure", "users", "watching")

    def __init__(self, node: Node, checks: Checks, key: Any) -> None:
        self.node = node
        self.checks = checks
        self.key = key
        self.users = 0
        self.sure: set[int] = set()
        self.watching: set[int] = set()


class ReferenceIndex:
    """See `filters.matching.index.Index`."""

    def __init__(self) -> None:
        self._trie = Trie()
        self._numbers: dict[_Identity, int] = {}
        self._entries: dict[int, _Entry] = {}
        self._free: list[int] = []
        self._atom_numbers: dict[Any, int] = {}
        self._atoms: dict[int, _Atom] = {}
        self._free_atoms: list[int] = []
        self._true: set[int] = set()
        """Of every message."""
        self._always: set[int] = set()
        """Those to be looked at for every message."""

    def add(self, expression: Expression) -> int:
        text = expression.text
        named = (pair for pair in expression.namespaces if pair[0] and f"{pair[0]}:" in text)
        identity = (text, tuple(named))
        number = self._numbers.get(identity)
        if number is not None:
            self._entries[number].users += 1
            return number
        plan = plan_of(expression)
        entry = _Entry(Expression(text, expression.dialect, expression.namespaces), identity)
        atoms = [self._use_atom(atom) for atom in plan.atoms]
        entry.atoms = tuple(atoms)
        entry.formula = _renumbered(plan.formula, atoms)
        entry.exact = plan.exact
        entry.branches = tuple(self._use_branch(path) for path in plan.branches)
        number = self._free.pop() if self._free else len(self._entries)
        self._entries[number] = entry
        self._numbers[identity] = number
        self._file(number, entry)
        return number

    def remove(self, number: int) -> None:
        entry = self._entries[number]
        entry.users -= 1
        if entry.users:
            return
        self._unfile(number, entry)
        for branch in entry.branches:
            branch.branches -= 1
            if not branch.branches:
                self._trie.changed(branch)
            self._trie.release(branch)
        for atom in entry.atoms:
            self._leave_atom(atom)
        del self._numbers[entry.identity]
        del self._entries[number]
        self._free.append(number)

    def find(self, root: etree._Element) -> Found:
        passed, doubtful_atoms, twice = self._walk(root)
        atoms = self._atoms
        true = set(self._true)
        candidates = set(self._always)
        for atom in passed:
            found = atoms[atom]
            if found.sure:
                true |= found.sure
            if found.watching:
                candidates |= found.watching
        doubtful: set[int] = set()
        for atom in doubtful_atoms:
            found = atoms[atom]
            doubtful |= found.sure
            candidates |= found.watching
        for number in candidates:
            verdict = self._look_at(number, passed, doubtful_atoms, twice)
            if verdict:
                true.add(number)
            elif verdict is None:
                doubtful.add(number)
        return Found(list(true), list(doubtful - true))

    def expression(self, number: int) -> Expression:
        return self._entries[number].expression

    def __len__(self) -> int:
        return len(self._numbers)

    # ---- the walk --------------------------------------------------------------------------------

    def _walk(self, root: etree._Element) -> tuple[set[int], set[int], set[Node]]:
        """The atoms that hold, those that may, and the branches that several elements meet."""
        passed: set[int] = set()
        doubtful: set[int] = set()
        step = self._trie.step
        again = {}
        """The states that were come to, and whether more than once."""
        waiting: list[tuple[Iterable[etree._Element], Any]] = [((root,), self._trie.start())]
        while waiting:
            elements, state = waiting.pop()
            ways = state.next
            for element in elements:
                tag = element.tag
                reached = ways.get(tag)
                if reached is None:
                    if type(tag) is not str:
                        continue
                    reached = step(state, tag)
                again[reached] = reached in again
                if reached.strings:
                    string = string_of(element)
                    for table in reached.strings:
                        atom = table.get(string)
                        if atom is not None:
                            passed.add(atom)
                for name, tables in reached.attributes:
                    value = element.get(name)
                    if value is not None:
                        for table in tables:
                            atom = table.get(value)
                            if atom is not None:
                                passed.add(atom)
                if reached.others:
                    values = Values(element)
                    for table in reached.others:
                        table.find(values, passed, doubtful)
                if reached.goes_on and len(element):
                    waiting.append((element, reached))
        met: set[Node] = set()
        twice: set[Node] = set()
        for state, several in again.items():
            passed.update(state.plain)
            for node in state.branches:
                if several or node in met:
                    twice.add(node)
                    passed |= node.tables.ranges
                met.add(node)
        doubtful -= passed
        return passed, doubtful, twice

    # ---- formulas --------------------------------------------------------------------------------

    def _look_at(
        self, number: int, passed: set[int], doubtful: set[int], twice: set[Node]
    ) -> bool | None:
        """Whether the expression is true; None where libxml2 has to say."""
        entry = self._entries[number]
        formula = entry.formula
        sure = (
            entry.exact
            and twice.isdisjoint(entry.branches)
            and (not doubtful or doubtful.isdisjoint(entry.atoms))
        )
        if sure and _holds(formula, passed):
            return True
        maybe = passed | doubtful if doubtful else passed
        if _may_hold(formula, maybe):
            return False if sure else None
        if entry.watched is not None:
            self._watch(number, entry, maybe)
        return False

    def _file(self, number: int, entry: _Entry) -> None:
        formula = entry.formula
        if formula == FALSE:
            return
        if entry.exact and not entry.branches:
            if formula == TRUE:
                self._true.add(number)
                return
            if _is_any(formula):
                for atom in entry.atoms:
                    self._atoms[atom].sure.add(number)
                return
        self._watch(number, entry, frozenset())

    def _watch(self, number: int, entry: _Entry, maybe: Iterable[int]) -> None:
        """Watch some atoms outside *maybe*, without one of which the formula is false."""
        for atom in entry.watched or ():
            self._atoms[atom].watching.discard(number)
        entry.watched = self._cut(entry.formula, maybe)
        if entry.watched is None:
            self._always.add(number)
        else:
            for atom in entry.watched:
                self._atoms[atom].watching.add(number)

    def _cut(self, formula: Formula, maybe: Any) -> tuple[int, ...] | None:
        """None where the formula may hold without any atom that is not in *maybe*."""
        if isinstance(formula, int):
            return (formula,) if formula >= 0 and formula not in maybe else None
        cuts = [self._cut(part, maybe) for part in formula[1:]]
        if formula[0] == OR:
            if None in cuts:
                return None
            return tuple({atom for cut in cuts if cut for atom in cut})
        known = [cut for cut in cuts if cut is not None]
        return min(known, key=self._crowd) if known else None

    def _crowd(self, cut: tuple[int, ...]) -> int:
        """How many already watch the atoms of *cut*."""
        return sum(1 + len(self._atoms[atom].watching) for atom in cut)

    def _unfile(self, number: int, entry: _Entry) -> None:
        self._true.discard(number)
        self._always.discard(number)
        for atom in entry.atoms:
            found = self._atoms[atom]
            found.sure.discard(number)
            found.watching.discard(number)

    # ---- atoms and branches ----------------------------------------------------------------------

    def _use_atom(self, key: Any) -> int:
        number = self._atom_numbers.get(key)
        if number is None:
            path, tests = key
            node = self._trie.insert(path)
            atom = _Atom(node, checks_of(tests), key)
            number = self._free_atoms.pop() if self._free_atoms else len(self._atoms)
            self._atoms[number] = atom
            self._atom_numbers[key] = number
            if node.tables.add(number, atom.checks):
                self._trie.changed(node)
        self._atoms[number].users += 1
        return number

    def _leave_atom(self, number: int) -> None:
        atom = self._atoms[number]
        atom.users -= 1
        if atom.users:
            return
        if atom.node.tables.discard(number, atom.checks):
            self._trie.changed(atom.node)
        self._trie.release(atom.node)
        del self._atom_numbers[atom.key]
        del self._atoms[number]
        self._free_atoms.append(number)

    def _use_branch(self, path: Any) -> Node:
        node = self._trie.insert(path)
        node.branches += 1
        if node.branches == 1:
            self._trie.changed(node)
        return node


def _renumbered(formula: Formula, atoms: list[int]) -> Formula:
    if isinstance(formula, int):
        return atoms[formula] if formula >= 0 else ~atoms[~formula]
    return (formula[0], *(_renumbered(part, atoms) for part in formula[1:]))


def _is_any(formula: Formula) -> bool:
    """Whether one atom is enough, no matter which."""
    if isinstance(formula, int):
        return formula >= 0
    return formula[0] == OR and all(type(part) is int and part >= 0 for part in formula[1:])


def _holds(formula: Formula, passed: set[int]) -> bool:
    if isinstance(formula, int):
        return formula in passed if formula >= 0 else ~formula not in passed
    wanted = formula[0] == OR
    for part in formula[1:]:
        if _holds(part, passed) is wanted:
            return wanted
    return not wanted


def _may_hold(formula: Formula, passed: set[int]) -> bool:
    """As `_holds`, each negated atom taken as true."""
    if isinstance(formula, int):
        return formula < 0 or formula in passed
    wanted = formula[0] == OR
    for part in formula[1:]:
        if _may_hold(part, passed) is wanted:
            return wanted
    return not wanted
