"""What a plan says of a document, found slowly and plainly, beside what libxml2 says."""

import math
from typing import Any, cast

from lxml import etree

from filters.matching.planning.numbers import read_number
from filters.matching.planning.plan import (
    AND,
    AT_LEAST,
    AT_MOST,
    ATTRIBUTE,
    BELOW,
    BELOW_OR_HERE,
    CHILD,
    CONTAINS,
    DIFFERENT,
    EQUAL,
    EXISTS,
    FIRST,
    GREATER,
    HERE,
    ITSELF,
    LESS,
    NOT,
    NUMBER_DIFFERENT,
    NUMBER_EQUAL,
    OR,
    RANGE,
    SELF,
    SOME,
    STARTS,
    TEXT,
    Atom,
    Formula,
    Path,
    Plan,
    Program,
    Test,
)

DOCUMENT = None
"""The document node."""
Context = etree._Element | None

_STRING = etree.XPath("string()", smart_strings=False)
_TEXTS = etree.XPath("text()", smart_strings=False)


class Doubtful(Exception):
    """A program came upon a number that only libxml2 knows."""


class Slow:
    """One document."""

    def __init__(self, root: etree._Element) -> None:
        self._root = root
        self._order = {element: at for at, element in enumerate(root.iter(etree.Element))}
        self._met: dict[Path, list[etree._Element]] = {}

    def meets(self, plan: Plan, expected: bool) -> None:
        """Fail unless the three claims of plan.py hold, libxml2's verdict being *expected*.

        Raises:
            AssertionError: One does not.
        """
        atoms = [self.atom(atom) for atom in plan.atoms]
        if expected:
            assert _implied(plan.formula, atoms), "claim 1"
        twice = any(len(self.met(path)) > 1 for path in plan.branches)
        if plan.exact and not twice and None not in atoms:
            assert _holds(plan.formula, atoms) is expected, "claim 2"
        if plan.program is not None:
            try:
                verdict = self.program(plan.program, self._root)
            except Doubtful:
                return
            assert verdict is expected, "claim 3"

    def atom(self, atom: Atom) -> bool | None:
        """Whether *atom* holds; None where it might, but for a doubtful number."""
        path, tests = atom
        best: bool | None = False
        for element in self.met(path):
            verdicts = [self._passes(test, element, len(self.met(path)) > 1) for test in tests]
            if all(verdicts):
                return True
            if False not in verdicts:
                best = None
        return best

    def met(self, path: Path) -> list[etree._Element]:
        found = self._met.get(path)
        if found is None:
            before = self.met(path[:-1]) if len(path) > 1 else [DOCUMENT]
            axis, namespace, local = path[-1]
            step = (HERE if axis == CHILD else BELOW, namespace, local, None)
            found = self._met[path] = self._stepped(list(before), step)
        return found

    def program(self, program: Program, context: etree._Element) -> bool:
        code = program[0]
        if code == AND:
            return all(self.program(part, context) for part in program[1:])
        if code == OR:
            return any(self.program(part, context) for part in program[1:])
        if code == NOT:
            return not self.program(program[1], context)
        _, absolute, steps, test = program
        assert code in (SOME, FIRST)
        nodes: list[Context] = [DOCUMENT if absolute else context]
        for step in steps:
            nodes = list(self._stepped(nodes, step))
        elements = [node for node in nodes if node is not None]
        if code == FIRST:
            assert test[3] in (CONTAINS, STARTS)
            values = [value for element in elements for value in _values(test, element)]
            return _compare(test[3], values[0] if values else "", test[4]) is True
        if test is None:
            return bool(nodes)
        verdicts = [self._passes(test, element, False) for element in elements]
        if None in verdicts and True not in verdicts:
            raise Doubtful
        return True in verdicts

    def _stepped(self, nodes: list[Context], step: Any) -> list[etree._Element]:
        """In document order, each once."""
        axis, namespace, local, wanted = step
        found: set[etree._Element] = set()
        for node in nodes:
            if node is None:
                assert axis in (HERE, BELOW)
                found.update([self._root] if axis == HERE else self._order)
            elif axis == HERE:
                found.update(node.iterchildren(etree.Element))
            elif axis == BELOW:
                found.update(node.iterdescendants(etree.Element))
            elif axis == BELOW_OR_HERE:
                found.update(node.iter(etree.Element))
            else:
                assert axis == ITSELF
                found.add(node)
        named = [element for element in found if _is_named(element.tag, namespace, local)]
        named.sort(key=self._order.__getitem__)
        return [element for element in named if wanted is None or self.program(wanted, element)]

    def _passes(self, test: Test, element: etree._Element, several: bool) -> bool | None:
        if test[3] == RANGE and several:
            return True
        verdicts = [_compare(test[3], value, test[4]) for value in _values(test, element)]
        if True in verdicts:
            return True
        return None if None in verdicts else False


def _is_named(name: Any, namespace: str | None, local: str | None) -> bool:
    qname = etree.QName(name)
    return namespace in (None, qname.namespace or "") and local in (None, qname.localname)


def _values(test: Test, element: etree._Element) -> list[str]:
    subject, namespace, local, _, _ = test
    if subject == SELF:
        return [str(_STRING(element))]
    if subject == TEXT:
        return [str(text) for text in cast(list[str], _TEXTS(element))]
    assert subject == ATTRIBUTE
    return [str(value) for name, value in element.items() if _is_named(name, namespace, local)]


def _compare(comparison: int, value: str, operand: Any) -> bool | None:
    if comparison == EXISTS:
        return True
    if comparison == EQUAL:
        return bool(value == operand)
    if comparison == DIFFERENT:
        return bool(value != operand)
    if comparison == CONTAINS:
        return operand in value
    if comparison == STARTS:
        return value.startswith(operand)
    number = read_number(value)
    if number is None:
        return None
    if comparison == NUMBER_EQUAL:
        return bool(number == operand)
    if comparison == NUMBER_DIFFERENT:
        return bool(number != operand)
    if math.isnan(number):
        return False
    if comparison == RANGE:
        low, with_low, high, with_high = operand
        above = number >= low if with_low else number > low
        return bool(above and (number <= high if with_high else number < high))
    verdicts = {
        LESS: number < operand,
        AT_MOST: number <= operand,
        GREATER: number > operand,
        AT_LEAST: number >= operand,
    }
    return bool(verdicts[comparison])


def _implied(formula: Formula, atoms: list[bool | None]) -> bool:
    """*formula*, each negated atom and each doubtful one taken as true."""
    if isinstance(formula, int):
        return formula < 0 or atoms[formula] is not False
    parts = [_implied(part, atoms) for part in formula[1:]]
    return all(parts) if formula[0] == AND else any(parts)


def _holds(formula: Formula, atoms: list[bool | None]) -> bool:
    if isinstance(formula, int):
        return atoms[formula] is True if formula >= 0 else atoms[~formula] is False
    parts = [_holds(part, atoms) for part in formula[1:]]
    return all(parts) if formula[0] == AND else any(parts)
