"""The plan of an expression, for both engines: conditions that it implies, and when they suffice.

An *atom* says that some element of the message lies at the end of a path and passes tests; engines
share atoms between expressions and find those that hold in one walk over the message. The *formula*
says what the expression needs of its atoms. Everything here is a plain tuple: a hundred thousand
plans are made one after the other, and the compiled engine reads them.

The verdict is always libxml2's, so for every message:

1. If the expression is true, the formula is true when each negated atom in it is taken as true.
   (An expression whose formula is false is out, whatever else holds.)
2. If ``exact``, no path of ``branches`` is met by two elements of the message, and no value that
   was compared as a number was doubtful, the expression is true if and only if the formula is.
3. Otherwise, ``program``, if there is one, decides by walking the tree; else libxml2 does.
"""

from typing import Any, NamedTuple, TypeAlias

CHILD, DESCENDANT = 0, 1
"""The axis of a step. A descendant lies any number of levels below, at least one."""

Step: TypeAlias = tuple[int, str | None, str | None]
"""Axis, namespace ("" for none, None for any), local name (None for any)."""

Path: TypeAlias = tuple[Step, ...]
"""The steps from the document node to an element; never empty. A relative path of the expression
begins at the root element, the context node: ``(CHILD, None, None)``."""

SELF, TEXT, ATTRIBUTE = 0, 1, 2
"""The subject of a test: the element's string-value, each of its text nodes (true if one of them
passes), or an attribute."""

EXISTS, EQUAL, DIFFERENT, CONTAINS, STARTS = 0, 1, 2, 3, 4
"""Comparisons of strings. ``EXISTS`` is for ``TEXT`` and ``ATTRIBUTE``: there is one."""

NUMBER_EQUAL, NUMBER_DIFFERENT, LESS, AT_MOST, GREATER, AT_LEAST = 5, 6, 7, 8, 9, 10
"""Comparisons of the number that the value is: NaN is different from every number."""

RANGE = 11
"""Two bounds at once, operand (low, low included, high, high included). For ``[b >= 1 and b < 9]``,
where each bound may be met by another ``b``: so it also counts as passed by every element of its
path when two elements of the message meet that path. The path is one of ``branches``, then."""

Test: TypeAlias = tuple[int, str | None, str | None, int, Any]
"""Subject, the attribute's namespace and local name (None for any; both None for other subjects),
comparison, operand: a str, a float, or the tuple of ``RANGE``."""

Atom: TypeAlias = tuple[Path, tuple[Test, ...]]
"""A path and tests: some element at the end of the path passes all tests; without tests, there is
one."""

AND, OR, NOT = 0, 1, 2

Formula: TypeAlias = "int | tuple[Any, ...]"
"""``i``: atom i holds. ``~i``: it does not. ``(AND, f, ...)`` and ``(OR, f, ...)``, with at least
two operands; TRUE and FALSE only as a whole."""

TRUE: Formula = (AND,)
FALSE: Formula = (OR,)

SOME, FIRST = 3, 4

HERE, BELOW, BELOW_OR_HERE, ITSELF = 0, 1, 2, 3
"""The axis of a program's step: child, descendant, descendant-or-self, self."""

Program: TypeAlias = "tuple[Any, ...]"
"""The expression itself, over one context element:

``(AND, p, ...)``, ``(OR, p, ...)``, ``(NOT, p)``: with any number of operands.
``(SOME, absolute, steps, test)``: some element at the end of the steps passes the test; None is no
test. *absolute* steps begin at the document node, others at the context element. A step is an axis,
a namespace, a local name, and the program that holds at each element that it keeps.
``(FIRST, absolute, steps, test)``: the test (``CONTAINS``, ``STARTS``) of the string of the first
node in document order, empty where there is none; the subject is ``SELF`` or ``ATTRIBUTE``.
"""


class Plan(NamedTuple):
    """The plan of one expression: see the module."""

    atoms: tuple[Atom, ...]
    formula: Formula
    exact: bool
    branches: tuple[Path, ...] = ()
    program: "Program | None" = None
