"""Makes a plan of a syntax tree: the atoms that an expression needs, and when they suffice.

`filters.matching.planning.condition_lowering` says what the expression asks for, element by
element. Here each "some element at this path, of which all that holds" becomes a formula over
atoms:

- "or" is as good outside as inside: some element with x or y is some with x, or some with y;
- so is a single demand: some a with some b that passes is some a/b that passes;
- tests on the element itself share an atom;
- anything more, or a negation, holds of *one* element, which atoms cannot say: the formula asks
  for each part by itself, and that is exact as long as there is but one such element. So its path
  is a *branch*. The root element is always one.
"""

from typing import Any

from filters.matching.planning.condition_algebra import UNKNOWN, Condition, both
from filters.matching.planning.condition_lowering import lower_boolean
from filters.matching.planning.element_tests import ElementTests, narrow
from filters.matching.planning.formulas import any_of, every, number_atoms, opposite, renumbered
from filters.matching.planning.plan import (
    AT_LEAST,
    AT_MOST,
    ATTRIBUTE,
    BELOW,
    BELOW_OR_HERE,
    CHILD,
    CONTAINS,
    DESCENDANT,
    FALSE,
    FIRST,
    GREATER,
    HERE,
    ITSELF,
    LESS,
    NUMBER_EQUAL,
    OR,
    RANGE,
    SOME,
    STARTS,
    TEXT,
    TRUE,
    Atom,
    Formula,
    Path,
    Plan,
    Test,
)
from filters.xpath.syntax import Node

MAX_PARTS = 400
"""The most parts that a condition may be split into, and the most atoms: a chain of
descendant-or-self steps doubles them each time. Beyond, the plan is TRUE."""

_CONTEXT: Path = ((CHILD, None, None),)


def plan(node: Node) -> Plan:
    """The plan of the expression whose tree is *node*, the root element its context node."""
    condition = lower_boolean(node)
    builder = _PlanBuilder()
    try:
        formula = builder.exists(_CONTEXT, condition, True)
    except _TooMany:
        return Plan((), TRUE, False, (), condition if _is_program(condition) else None)
    if formula == FALSE:
        return Plan((), FALSE, True)
    exact = builder.exact
    branches = builder.branches if exact else builder.ranges
    atoms = tuple(builder.atoms)
    used: dict[int, int] = {}
    number_atoms(formula, used)
    if len(used) < len(atoms):
        atoms = tuple(atoms[number] for number in used)
        formula = renumbered(formula, used)
    if exact and not branches and not any(_is_numeric(atom) for atom in atoms):
        return Plan(atoms, formula, True)
    program = condition if _is_program(condition) else None
    return Plan(atoms, formula, exact, tuple(branches), program)


class _TooMany(Exception):
    """The condition takes too many parts."""


class _PlanBuilder:
    """A plan under construction."""

    __slots__ = ("atoms", "branches", "exact", "parts", "ranges")

    def __init__(self) -> None:
        self.atoms: dict[Atom, int] = {}
        self.branches: dict[Path, None] = {}
        self.ranges: dict[Path, None] = {}
        self.exact = True
        self.parts = 0

    def exists(self, path: Path, condition: Condition, given: bool) -> Formula:
        """Return the formula that some element at *path* meets *condition*; *given*: one is known
        to be there."""
        self.parts += 1
        if self.parts > MAX_PARTS or len(self.atoms) > MAX_PARTS:
            raise _TooMany
        code = condition[0]
        if code == OR:
            return any_of([self.exists(path, part, given) for part in condition[1:]])
        if code == SOME and (given or not condition[1]):
            return self._some(path, condition[1], condition[2], condition[3])
        return self._all(path, condition, given)

    def _atom(self, path: Path, tests: tuple[Test, ...]) -> Formula:
        if not tests and path == _CONTEXT:
            return TRUE
        return self.atoms.setdefault((path, tests), len(self.atoms))

    def _some(self, path: Path, absolute: bool, steps: Any, test: Test | None) -> Formula:
        """Return the formula that some node at the end of *steps* passes."""
        if absolute:
            path = ()
        for at, (axis, namespace, local, wanted) in enumerate(steps):
            if axis == HERE:
                path += ((CHILD, namespace, local),)
            elif axis == BELOW or not path:
                path += ((DESCENDANT, namespace, local),)
            elif axis == BELOW_OR_HERE:
                rest = steps[at + 1 :]
                here = (SOME, False, ((ITSELF, namespace, local, wanted), *rest), test)
                below = (SOME, False, ((BELOW, namespace, local, wanted), *rest), test)
                return any_of([self.exists(path, here, False), self.exists(path, below, False)])
            else:
                narrowed = narrow(path, namespace, local)
                if narrowed is None:
                    return FALSE
                path = narrowed
            if wanted is not None:
                rest = steps[at + 1 :]
                if rest or test is not None:
                    wanted = both((wanted, (SOME, False, rest, test)))
                return self.exists(path, wanted, path == _CONTEXT)
        return self._atom(path, () if test is None else (test,))

    def _all(self, path: Path, condition: Condition, given: bool) -> Formula:
        """Return the formula that some element at *path* meets all parts of *condition*."""
        asked = ElementTests(path)
        if not asked.sort_in(condition):
            return FALSE
        if asked.unknown:
            self.exact = False
        if asked.path != path:
            path = asked.path
            given = path == _CONTEXT
        alternatives, others = asked.multiplied()
        ranges, others = self._ranges(path, others)
        negatives = asked.negatives
        tested = alternatives != [()]
        demands = tested + len(ranges) + len(others) + len(negatives)
        if (demands > 1 or negatives) and not _is_root(path):
            self.branches[path] = None
        found: list[Formula] = list(ranges)
        # True if a part asked for by itself implies that there is such an element.
        given = given or tested or bool(ranges) or any(part[0] != OR for part in others)
        if tested:
            found.append(any_of([self._atom(path, tests) for tests in alternatives]))
        elif not given and (negatives or demands != 1):
            found.append(self._atom(path, ()))
            given = True
        for part in others:
            if part[0] == FIRST:
                found.append(self._first(path, part))
            else:
                found.append(self.exists(path, part, given))
        found += [self._some(path, *part[1:]) for part in asked.elsewhere if part[0] == SOME]
        found += [self._first(path, part) for part in asked.elsewhere if part[0] == FIRST]
        found += [self._none(path, part) for part in negatives]
        found += [self._none(path, part) for part in asked.nowhere]
        return every(found)

    def _none(self, path: Path, part: Condition) -> Formula:
        """*part*, of the one element at *path*, does not hold."""
        exact, self.exact = self.exact, True
        if part[0] == FIRST:
            formula = self._first(path, part)
        else:
            formula = self._some(path, *part[1:])
        if self.exact:
            self.exact = exact
            return opposite(formula)
        # The formula is implied by the part; nothing is implied by its negation.
        self.exact = False
        return TRUE

    def _first(self, path: Path, part: Condition) -> Formula:
        """The first node passes: that is some node, if its element is the only one there."""
        _, absolute, steps, test = part
        end = _end(() if absolute else path, steps)
        several = test[0] == TEXT or (test[0] == ATTRIBUTE and None in test[1:3])
        if end is None or several:
            self.exact = False
        elif not _is_root(end):
            self.branches[end] = None
        return self._some(path, absolute, steps, test)

    def _ranges(self, path: Path, parts: list[Condition]) -> tuple[list[Formula], list[Condition]]:
        """Join two bounds on what lies at the end of the same steps into one atom (`RANGE`)."""
        if len(parts) < 2:
            return [], parts
        bounds: dict[Any, list[Condition]] = {}
        for part in parts:
            if part[0] == SOME and part[3] is not None and LESS <= part[3][3] <= AT_LEAST:
                bounds.setdefault((part[2], part[3][:3]), []).append(part)
        found: list[Formula] = []
        for (steps, subject), pair in bounds.items():
            end = _end(path, steps)
            if len(pair) != 2 or end is None or not _is_plain(steps, subject):
                continue
            low, high = pair if pair[0][3][3] >= GREATER else pair[::-1]
            if low[3][3] < GREATER or high[3][3] >= GREATER:
                continue
            operand = (low[3][4], low[3][3] == AT_LEAST, high[3][4], high[3][3] == AT_MOST)
            found.append(self._atom(end, ((*subject, RANGE, operand),)))
            self.branches[end] = self.ranges[end] = None
            parts = [part for part in parts if part is not low and part is not high]
        return found, parts


def _end(path: Path, steps: Any) -> Path | None:
    """Return the path to the end of *steps*; None if one path cannot express it."""
    for axis, namespace, local, _ in steps:
        if axis == HERE:
            path += ((CHILD, namespace, local),)
        elif axis == BELOW:
            path += ((DESCENDANT, namespace, local),)
        elif axis == BELOW_OR_HERE:
            return None
        else:
            narrowed = narrow(path, namespace, local)
            if narrowed is None:
                return None
            path = narrowed
    return path


def _is_root(path: Path) -> bool:
    return len(path) == 1 and path[0][0] == CHILD


def _is_plain(steps: Any, subject: Any) -> bool:
    """Return True if an element at the end of *steps*, without predicates, has at most one such
    value."""
    if subject[0] == TEXT or (subject[0] == ATTRIBUTE and None in subject[1:]):
        return False
    return all(step[3] is None for step in steps)


def _is_numeric(atom: Atom) -> bool:
    return any(test[3] >= NUMBER_EQUAL for test in atom[1])


def _is_program(condition: Condition) -> bool:
    """Return True if *condition* is a program of plan.py, which has no unknowns."""
    code = condition[0]
    if code == SOME:
        return all(step[3] is None or _is_program(step[3]) for step in condition[2])
    if code == FIRST:
        subject, _, _, comparison, _ = condition[3]
        if subject == TEXT or comparison not in (CONTAINS, STARTS):
            return False
        return all(step[3] is None or _is_program(step[3]) for step in condition[2])
    return code != UNKNOWN and all(map(_is_program, condition[1:]))
