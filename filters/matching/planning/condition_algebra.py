"""Conditions: what an expression asks of an element, as a program of
`filters.matching.planning.plan` with two additions.

``(UNKNOWN,)`` stands for what a program cannot say: a position, most functions, arithmetic, other
axes. What stands around it still holds, so a condition with unknowns is implied by the expression
when each of them is taken as true (and as true again under a ``NOT``). ``FIRST`` takes any test.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from filters.matching.planning.plan import AND, NOT, OR

Condition: TypeAlias = tuple[Any, ...]

YES: Condition = (AND,)
NO: Condition = (OR,)
UNKNOWN = 5
UNSURE: Condition = (UNKNOWN,)


def both(parts: Sequence[Condition]) -> Condition:
    """Return the conjunction of *parts*."""
    kept: list[Any] = [AND]
    for part in parts:
        if part[0] == AND:
            kept += part[1:]
        elif part == NO:
            return NO
        else:
            kept.append(part)
    return kept[1] if len(kept) == 2 else tuple(kept)


def either(parts: Sequence[Condition]) -> Condition:
    """Return the disjunction of *parts*."""
    kept: list[Any] = [OR]
    for part in parts:
        if part[0] == OR:
            kept += part[1:]
        elif part == YES:
            return YES
        else:
            kept.append(part)
    return kept[1] if len(kept) == 2 else tuple(kept)


def negation(part: Condition) -> Condition:
    code = part[0]
    if code == NOT:
        return part[1]  # type: ignore[no-any-return]
    if code == UNKNOWN:
        return UNSURE
    if len(part) == 1:
        return NO if code == AND else YES
    return (NOT, part)
