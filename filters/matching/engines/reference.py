"""The reference engine: plain Python over lxml's elements.

One walk over the message finds the atoms that hold (`filters.matching.engines.trie`,
`filters.matching.engines.tables`). An expression is looked at only when an atom holds that it
*watches*: at least one of these must hold if its formula does. Now and then an expression that was
looked at in vain changes to atoms that did not hold, as SAT solvers watch literals. So each
expression comes to watch those of its atoms that rarely hold.
"""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from lxml import etree

from filters.filter import Expression
from filters.matching.engines.index import Found
from filters.matching.engines.trie import Node, Trie
from filters.matching.planning.formulas import holds, is_any, may_hold, renumbered
from filters.matching.planning.plan import AND, FALSE, OR, TRUE, Atom, Formula
from filters.matching.planning.templates import plan_of
from filters.matching.planning.values import Checks, Values, checks_of, string_of, texts_of

PATIENCE = 16
"""The number of looks in vain after which one expression watches other atoms: changing at each
would cost more than it saves."""

_NOTHING: dict[str, list[int]] = {}
_Identity = tuple[str, tuple[tuple[str, str], ...]]


class _Waiting:
    """The expressions that an atom matters to: those that are *true* if it holds, and those that
    are to be *looked_at*. None stands for no expressions, because an empty set takes memory."""

    __slots__ = ("looked_at", "true")

    def __init__(self) -> None:
        self.true: set[int] | None = None
        self.looked_at: set[int] | None = None

    def discard(self, number: int) -> None:
        if self.true is not None:
            self.true.discard(number)
            self.true = self.true or None
        if self.looked_at is not None:
            self.looked_at.discard(number)
            self.looked_at = self.looked_at or None


class _Entry:
    """An expression of the index. Its formula is over the atoms of the index."""

    __slots__ = (
        "all_of",
        "atoms",
        "branches",
        "branching",
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
        self.all_of: frozenset[int] | None = None
        """The atoms of the formula, if it asks for all of them and for nothing else."""
        self.exact = True
        self.branches: tuple[Node, ...] = ()
        self.branching = 0
        """The branches as a set of the trie's bits."""
        self.watched: Iterable[int] | None = ()
        """The atoms that it watches. None: no atom need hold, so it is looked at for every
        message."""


class _Atom:
    __slots__ = ("checks", "key", "node", "users")

    def __init__(self, node: Node, checks: Checks, key: Atom) -> None:
        self.node = node
        self.checks = checks
        self.key = key
        self.users = 0


class ReferenceIndex:
    """See `filters.matching.engines.index.Index`."""

    def __init__(self) -> None:
        self._trie = Trie()
        self._numbers: dict[_Identity, int] = {}
        self._entries: dict[int, _Entry] = {}
        self._free: list[int] = []
        self._atom_numbers: dict[Atom, int] = {}
        self._atoms: dict[int, _Atom] = {}
        self._free_atoms: list[int] = []
        self._waiting: dict[int, _Waiting] = {}
        """The expressions that wait, by atom."""
        self._asked: set[int] = set()
        """The atoms that some expression waits for, without plain ones: their states know."""
        self._patience = PATIENCE
        self._true: set[int] = set()
        """Expressions that are true of every message."""
        self._always: set[int] = set()
        """Expressions that are looked at for every message."""

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
        entry.formula = renumbered(plan.formula, atoms)
        if plan.formula == (AND, *range(len(atoms))):
            entry.all_of = frozenset(atoms)
        entry.exact = plan.exact
        entry.branches = tuple(self._trie.branch(path) for path in plan.branches)
        if entry.branches:
            entry.branching = reduce(or_, [branch.bit for branch in entry.branches])
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
            self._trie.leave_branch(branch)
        for atom in entry.atoms:
            self._leave_atom(atom)
        del self._numbers[entry.identity]
        del self._entries[number]
        self._free.append(number)

    def find_in(self, octets: bytes, *, checked: bool) -> Found | None:
        return None

    def find(self, root: etree._Element) -> Found:
        passed, asked, doubtful_atoms, twice = self._walk(root)
        waiting = self._waiting
        held = [waiting[atom] for atom in asked]
        true = self._true.union(*[one.true for one in held if one.true])
        candidates = self._always.union(*[one.looked_at for one in held if one.looked_at])
        doubtful: set[int] = set()
        for atom in self._asked & doubtful_atoms:
            doubtful |= waiting[atom].true or set()
            candidates |= waiting[atom].looked_at or set()
        entries = self._entries
        for number in candidates:
            entry = entries[number]
            all_of = entry.all_of
            if all_of is None or doubtful_atoms:
                verdict = self._verdict(number, entry, passed, doubtful_atoms, twice)
                if verdict:
                    true.add(number)
                elif verdict is None:
                    doubtful.add(number)
            elif not all_of <= passed:
                self._miss(number, entry, passed)
            elif entry.exact and not twice & entry.branching:
                true.add(number)
            else:
                doubtful.add(number)
        return Found(list(true), list(doubtful - true))

    def expression(self, number: int) -> Expression:
        return self._entries[number].expression

    def __len__(self) -> int:
        return len(self._numbers)

    # ---- the walk --------------------------------------------------------------------------------

    def _walk(self, root: etree._Element) -> tuple[set[int], set[int], set[int], int]:
        """Walk the message. Returns the atoms that hold, those of them that expressions wait for,
        those that may hold, and the branches that several elements meet, as bits."""
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
                leaf = not len(element)
                if reached.strings:
                    string = element.text or "" if leaf else string_of(element)
                    atoms = reached.strings.get(string)
                    if atoms is not None:
                        passed.update(atoms)
                if reached.texts:
                    for text in (element.text,) if leaf else texts_of(element):
                        atoms = reached.texts.get(text)
                        if atoms is not None:
                            passed.update(atoms)
                if reached.attributes:
                    for name, value in element.items():
                        atoms = reached.attributes.get(name, _NOTHING).get(value)
                        if atoms is not None:
                            passed.update(atoms)
                if reached.others:
                    values = Values(element)
                    for table in reached.others:
                        table.find(values, passed, doubtful)
                if reached.goes_on and not leaf:
                    waiting.append((element, reached))
        met = twice = 0
        for state, several in again.items():
            twice |= state.branches if several else state.branches & met
            met |= state.branches
        for state in again:
            for node in state.ranged:
                if node.bit & twice:
                    passed |= node.tables.ranges
        asked = self._asked & passed
        asked.update(*[state.asked for state in again])
        passed.update(*[state.plain for state in again])
        doubtful -= passed
        return passed, asked, doubtful, twice

    # ---- formulas --------------------------------------------------------------------------------

    def _verdict(
        self, number: int, entry: _Entry, passed: set[int], doubtful: set[int], twice: int
    ) -> bool | None:
        """Return True if the expression is true, None if libxml2 has to decide."""
        sure = entry.exact and not twice & entry.branching and doubtful.isdisjoint(entry.atoms)
        if sure and holds(entry.formula, passed):
            return True
        maybe = passed | doubtful if doubtful else passed
        if may_hold(entry.formula, maybe):
            return False if sure else None
        self._miss(number, entry, maybe)
        return False

    def _miss(self, number: int, entry: _Entry, maybe: Iterable[int]) -> None:
        """The expression was looked at in vain."""
        if entry.watched is None:
            return
        self._patience -= 1
        if not self._patience:
            self._patience = PATIENCE
            self._watch(number, entry, maybe)

    def _file(self, number: int, entry: _Entry) -> None:
        formula = entry.formula
        if formula == FALSE:
            return
        if entry.exact and not entry.branches:
            if formula == TRUE:
                self._true.add(number)
                return
            if is_any(formula):
                for atom in entry.atoms:
                    one = self._at(atom)
                    one.true = one.true or set()
                    one.true.add(number)
                return
        self._watch(number, entry, frozenset())

    def _watch(self, number: int, entry: _Entry, maybe: Iterable[int]) -> None:
        """Watch some atoms outside *maybe*, without one of which the formula is false."""
        for atom in entry.watched or ():
            self._leave(atom, number)
        entry.watched = self._cut(entry.formula, maybe)
        if entry.watched is None:
            self._always.add(number)
        else:
            for atom in entry.watched:
                one = self._at(atom)
                one.looked_at = one.looked_at or set()
                one.looked_at.add(number)

    def _cut(self, formula: Formula, maybe: Any) -> tuple[int, ...] | None:
        """Return atoms of which one must hold if the formula does; None if it may hold without any
        atom that is not in *maybe*."""
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
        """Return how many expressions watch the atoms of *cut* already, and how many atoms those
        are."""
        held = (self._waiting.get(atom) for atom in cut)
        return len(cut) + sum(len(one.looked_at) for one in held if one and one.looked_at)

    def _unfile(self, number: int, entry: _Entry) -> None:
        self._true.discard(number)
        self._always.discard(number)
        for atom in entry.atoms:
            self._leave(atom, number)

    def _at(self, atom: int) -> _Waiting:
        found = self._waiting.get(atom)
        if found is None:
            found = self._waiting[atom] = _Waiting()
            self._ask(atom, True)
        return found

    def _leave(self, atom: int, number: int) -> None:
        """An expression does not wait for *atom* any more, if it did."""
        found = self._waiting.get(atom)
        if found is not None:
            found.discard(number)
            if found.true is found.looked_at is None:
                del self._waiting[atom]
                self._ask(atom, False)

    def _ask(self, number: int, asked: bool) -> None:
        atom = self._atoms[number]
        if not atom.checks:
            self._trie.ask(atom.node, asked)
        elif asked:
            self._asked.add(number)
        else:
            self._asked.discard(number)

    # ---- atoms and branches ----------------------------------------------------------------------

    def _use_atom(self, key: Atom) -> int:
        number = self._atom_numbers.get(key)
        if number is None:
            path, tests = key
            node = self._trie.insert(path)
            atom = _Atom(node, checks_of(tests), key)
            number = self._free_atoms.pop() if self._free_atoms else len(self._atoms)
            self._atoms[number] = atom
            self._atom_numbers[key] = number
            self._trie.use(node, number, atom.checks)
        self._atoms[number].users += 1
        return number

    def _leave_atom(self, number: int) -> None:
        atom = self._atoms[number]
        atom.users -= 1
        if atom.users:
            return
        self._trie.leave(atom.node, number, atom.checks)
        del self._atom_numbers[atom.key]
        del self._atoms[number]
        self._free_atoms.append(number)
