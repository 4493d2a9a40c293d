"""Makes and evaluates formulas over atoms (`filters.matching.planning.plan`)."""

from collections.abc import Mapping, Sequence

from filters.matching.planning.plan import AND, FALSE, OR, TRUE, Formula


def every(parts: Sequence[Formula]) -> Formula:
    return _joined(AND, parts, FALSE)


def any_of(parts: Sequence[Formula]) -> Formula:
    return _joined(OR, parts, TRUE)


def _joined(code: int, parts: Sequence[Formula], decides: Formula) -> Formula:
    if len(parts) == 1:
        return parts[0]
    kept: dict[Formula, None] = {}
    for part in parts:
        if type(part) is not tuple:
            kept[part] = None
        elif part == decides:
            return decides
        elif part[0] == code:
            kept.update(dict.fromkeys(part[1:]))
        elif len(part) > 1:
            kept[part] = None
    if len(kept) == 1:
        return next(iter(kept))
    return (code, *kept)


def opposite(formula: Formula) -> Formula:
    if isinstance(formula, int):
        return ~formula
    return (OR if formula[0] == AND else AND, *map(opposite, formula[1:]))


def number_atoms(formula: Formula, used: dict[int, int]) -> None:
    """Number the atoms of *formula* anew, in their order."""
    if isinstance(formula, int):
        used.setdefault(formula if formula >= 0 else ~formula, len(used))
    else:
        for part in formula[1:]:
            number_atoms(part, used)


def renumbered(formula: Formula, numbers: Mapping[int, int] | Sequence[int]) -> Formula:
    if isinstance(formula, int):
        return numbers[formula] if formula >= 0 else ~numbers[~formula]
    return (formula[0], *(renumbered(part, numbers) for part in formula[1:]))


def is_any(formula: Formula) -> bool:
    """Return True if any one of its atoms is enough."""
    if isinstance(formula, int):
        return formula >= 0
    return formula[0] == OR and all(type(part) is int and part >= 0 for part in formula[1:])


def holds(formula: Formula, passed: set[int]) -> bool:
    if isinstance(formula, int):
        return formula in passed if formula >= 0 else ~formula not in passed
    wanted = formula[0] == OR
    for part in formula[1:]:
        if holds(part, passed) is wanted:
            return wanted
    return not wanted


def may_hold(formula: Formula, passed: set[int]) -> bool:
    """Return `holds` with each negated atom taken as true."""
    if isinstance(formula, int):
        return formula < 0 or formula in passed
    wanted = formula[0] == OR
    for part in formula[1:]:
        if may_hold(part, passed) is wanted:
            return wanted
    return not wanted
