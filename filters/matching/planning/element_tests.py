"""Sorts what a condition asks of one element by what atoms can express."""

from filters.matching.planning.condition_algebra import UNKNOWN, Condition, negation
from filters.matching.planning.plan import (
    AND,
    DIFFERENT,
    EQUAL,
    FIRST,
    ITSELF,
    NOT,
    NUMBER_DIFFERENT,
    NUMBER_EQUAL,
    OR,
    SELF,
    SOME,
    Path,
    Test,
)

MAX_ALTERNATIVES = 16
"""The most atoms that the tests on one element may be multiplied out to."""

_COMPLEMENTS = {
    EQUAL: DIFFERENT,
    DIFFERENT: EQUAL,
    NUMBER_EQUAL: NUMBER_DIFFERENT,
    NUMBER_DIFFERENT: NUMBER_EQUAL,
}
"""Comparisons and their complements: an element's string passes one if and only if it fails the
other."""


class ElementTests:
    """The parts of a condition on one element, sorted."""

    __slots__ = (
        "elsewhere",
        "negatives",
        "nowhere",
        "options",
        "others",
        "path",
        "tests",
        "unknown",
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: list[Test] = []
        """Tests on the element itself."""
        self.options: list[tuple[Condition, list[tuple[Test, ...]]]] = []
        """Disjunctions of such tests, and their alternatives."""
        self.others: list[Condition] = []
        self.negatives: list[Condition] = []
        """Conditions on the element that must not hold."""
        self.elsewhere: list[Condition] = []
        """Absolute conditions, which do not depend on the element."""
        self.nowhere: list[Condition] = []
        """Absolute conditions that must not hold."""
        self.unknown = False

    def sort_in(self, condition: Condition) -> bool:
        """Sort *condition* in. Returns False if it cannot hold."""
        waiting = [condition]
        while waiting:
            part = waiting.pop()
            code = part[0]
            if code == AND:
                waiting += part[:0:-1]
            elif code == NOT:
                part = part[1]
                code = part[0]
                if code in (AND, OR):
                    opposites = [negation(inner) for inner in part[1:]]
                    waiting.append((OR if code == AND else AND, *opposites))
                elif code == SOME and (complement := _complement(part)) is not None:
                    self.tests.append(complement)
                elif code in (SOME, FIRST):
                    (self.nowhere if part[1] else self.negatives).append(part)
                else:
                    waiting.append(negation(part))
            elif code == OR:
                if len(part) == 1:
                    return False
                alternatives = _alternatives(part)
                if alternatives is None:
                    self.others.append(part)
                else:
                    self.options.append((part, alternatives))
            elif code == UNKNOWN:
                self.unknown = True
            elif part[1]:
                self.elsewhere.append(part)
            elif code == FIRST:
                self.others.append(part)
            elif not part[2]:
                self.tests.append(part[3])
            elif part[2][0][0] == ITSELF:
                _, namespace, local, wanted = part[2][0]
                path = narrow(self.path, namespace, local)
                if path is None:
                    return False
                self.path = path
                if len(part[2]) > 1 or part[3] is not None:
                    waiting.append((SOME, False, part[2][1:], part[3]))
                if wanted is not None:
                    waiting.append(wanted)
            else:
                self.others.append(part)
        return True

    def multiplied(self) -> tuple[list[tuple[Test, ...]], list[Condition]]:
        """Return the tests on the element in all their alternatives, and the conditions beside
        them."""
        alternatives = [tuple(dict.fromkeys(self.tests))]
        others = self.others
        for condition, options in self.options:
            if len(alternatives) * len(options) > MAX_ALTERNATIVES:
                others = [*others, condition]
            else:
                alternatives = [
                    tuple(dict.fromkeys(tests + option))
                    for tests in alternatives
                    for option in options
                ]
        return alternatives, others


def _alternatives(condition: Condition) -> list[tuple[Test, ...]] | None:
    """Return *condition* as a disjunction of conjunctions of tests on the element itself, None if
    it is not such a disjunction."""
    code = condition[0]
    if code == SOME:
        return [(condition[3],)] if not condition[1] and not condition[2] else None
    if code == OR:
        found: list[tuple[Test, ...]] = []
        for part in condition[1:]:
            inner = _alternatives(part)
            if inner is None:
                return None
            found += inner
        return found
    if code == AND:
        found = [()]
        for part in condition[1:]:
            inner = _alternatives(part)
            if inner is None or len(inner) * len(found) > MAX_ALTERNATIVES:
                return None
            found = [tests + more for tests in found for more in inner]
        return found
    if code == NOT and condition[1][0] == SOME:
        complement = _complement(condition[1])
        return None if complement is None else [(complement,)]
    return None


def _complement(condition: Condition) -> Test | None:
    """Return the test that the context element passes if and only if it fails that of
    *condition*."""
    _, absolute, steps, test = condition
    if absolute or steps or test[0] != SELF or test[3] not in _COMPLEMENTS:
        return None
    return (SELF, None, None, _COMPLEMENTS[test[3]], test[4])


def narrow(path: Path, namespace: str | None, local: str | None) -> Path | None:
    """Narrow *path* to those of its elements that have this name too; None if none can."""
    axis, had_namespace, had_local = path[-1]
    if namespace is None:
        namespace = had_namespace
    elif had_namespace is not None and had_namespace != namespace:
        return None
    if local is None:
        local = had_local
    elif had_local is not None and had_local != local:
        return None
    return (*path[:-1], (axis, namespace, local))
