"""Plans for expressions, made from templates.

Subscribers write few expressions, with many constants. So an expression is cut at its literals; the
text around them is the key of a template. The second expression of a key leaves a *template*: its
plan with slots in place of literals. From then on the plan is the template filled in, without
parsing.
"""

import re
from typing import Any, TypeAlias

from filters.filter import Expression, Namespaces
from filters.matching.planning.numbers import MAX_DIGITS
from filters.matching.planning.plan import Plan
from filters.matching.planning.planner import plan
from filters.reasons import FilterError
from filters.xpath.parser import parse_text

MAX_TEMPLATES = 1024
MAX_LENGTH = 1000
"""The longest expression, in characters; longer ones are planned one by one. So is each that might
exceed a limit of the parser by its literals alone."""

_LITERAL = re.compile(
    r"""("[^"]*"|'[^']*'|(?<![\w.\-])(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))""",
)
"""A digit behind a part of a name stays where it is; a name with a rarer character in front of a
digit is cut in two, and what is left is not an expression: then there is no template."""

_STRING, _NUMBER = "\ue000", 71077
"""The beginnings of literals that stand for all others; they occur in no expression."""

_Key: TypeAlias = tuple[tuple[str, ...], tuple[bool, ...], Namespaces]
_Value: TypeAlias = str | float


class Templates:
    """Remembers templates. Answers are the same as without; usable from any thread."""

    def __init__(self) -> None:
        self._templates: dict[_Key, _Template | None] = {}
        """The templates by key; None if there can be none."""
        self._once: set[_Key] = set()

    def plan_of(self, expression: Expression) -> Plan:
        """Return the plan of *expression*; its dialect and its view do not matter.

        Raises:
            FilterError: As `filters.xpath.parse`.
        """
        text = expression.text
        if len(text) > MAX_LENGTH or not text.isprintable():
            return _plan(text, expression.namespaces)
        parts = _LITERAL.split(text)
        values: list[_Value] = []
        for literal in parts[1::2]:
            if literal[0] in "\"'":
                values.append(literal[1:-1])
            elif len(literal) <= MAX_DIGITS:
                values.append(float(literal))
            else:
                return _plan(text, expression.namespaces)
        if not values or "" in values or len(set(values)) < len(values):
            # Equal literals may share an atom, and an empty one may be true of everything.
            return _plan(text, expression.namespaces)
        kinds = tuple([type(value) is str for value in values])
        key = (tuple(parts[::2]), kinds, expression.namespaces)
        template = self._templates.get(key)
        if template is not None:
            return template.filled(values)
        found = _plan(text, expression.namespaces)
        if key in self._once:
            self._once.discard(key)
            self._keep(key, _template(key, values, found))
        elif key not in self._templates:
            if len(self._once) >= MAX_TEMPLATES:
                self._once = set()
            self._once.add(key)
        return found

    def _keep(self, key: _Key, template: "_Template | None") -> None:
        if len(self._templates) >= MAX_TEMPLATES:
            # Another thread may be looking at the old ones.
            self._templates = {}
        self._templates[key] = template


plan_of = Templates().plan_of
"""The templates of the process: plans are values, so sharing them changes nothing but the time."""


def _plan(text: str, namespaces: Namespaces) -> Plan:
    return plan(parse_text(text, namespaces))


class _Template:
    """A plan as the list of tuples to be made, the innermost first, equal ones once.

    Of each: what precedes the only part that is not constant, where that is found among the
    literals and the tuples made before, and what follows; where there are several such parts, all
    of it, and a list of where they are found.
    """

    __slots__ = ("_constant", "_steps", "_whole")

    def __init__(self, pattern: Plan, slots: dict[_Value, int]) -> None:
        self._steps: list[tuple[Any, Any, Any]] = []
        made: dict[Any, int] = {}
        # Plan's own fields are kept apart, for it is not a plain tuple.
        self._whole = [self._make(part, slots, made) for part in pattern]
        self._constant = tuple(pattern)

    def _make(self, part: Any, slots: dict[_Value, int], made: dict[Any, int]) -> int | None:
        """Return where *part* will be found; None if it is constant."""
        if not isinstance(part, tuple):
            return slots.get(part) if type(part) in (str, float) else None
        if part in made:
            return made[part]
        places = [self._make(inner, slots, made) for inner in part]
        changing = [(at, place) for at, place in enumerate(places) if place is not None]
        if not changing:
            return None
        if len(changing) == 1:
            at, place = changing[0]
            self._steps.append((part[:at], place, part[at + 1 :]))
        else:
            self._steps.append((part, changing, None))
        made[part] = len(slots) + len(self._steps) - 1
        return made[part]

    def filled(self, values: list[Any]) -> Plan:
        """Return the plan with *values* in its slots."""
        found = values.copy()
        for before, place, behind in self._steps:
            if behind is not None:
                found.append((*before, found[place], *behind))
            else:
                part = list(before)
                for at, inner in place:
                    part[at] = found[inner]
                found.append(tuple(part))
        fields: list[Any] = [
            constant if place is None else found[place]
            for place, constant in zip(self._whole, self._constant, strict=True)
        ]
        return Plan(*fields)


def _template(key: _Key, values: list[_Value], found: Plan) -> _Template | None:
    """Make the template of a key from an expression of that key whose literals occur nowhere else;
    None if the plan depends on literals in other ways than as operands of atoms."""
    around, kinds, namespaces = key
    if any(_STRING in part or str(_NUMBER) in part for part in around):
        return None
    slots: dict[_Value, int] = {}
    text = around[0]
    for number, (is_string, following) in enumerate(zip(kinds, around[1:], strict=True)):
        literal = f"{_STRING}{number}." if is_string else f"{_NUMBER}{number:04}"
        slots[literal if is_string else float(literal)] = number
        text += f" '{literal}' {following}" if is_string else f" {literal} {following}"
    try:
        pattern = _plan(text, namespaces)
    except FilterError:
        return None
    operands: set[_Value] = set()
    for path, tests in pattern.atoms:
        if any(step[1] in slots or step[2] in slots for step in path):
            return None
        for test in tests:
            operand = test[4]
            operands.update(operand if isinstance(operand, tuple) else (operand,))
    if not slots.keys() <= operands:
        return None
    template = _Template(pattern, slots)
    return template if template.filled(values) == found else None
